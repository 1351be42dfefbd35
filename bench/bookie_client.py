"""`python -m bench.bookie_client`: our ledger client on a cluster's bookies adds with a window, then reads in batches.

The window consists of groups of entries, because a broker hands over what one socket read brought as one group. Prints
JSON.
"""

import argparse
import asyncio
import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from magnetar.storage.ledger.append_group_rules import Append
    from magnetar.storage.ledger.ledger_handle import WriteHandle

GROUPS_IN_WINDOW = 10


class Writer:
    """Adds entries to a ledger so that GROUPS_IN_WINDOW appends are always unanswered."""

    def __init__(self, handle: "WriteHandle", entries: int, window: int, payload_bytes: int) -> None:
        self._handle = handle
        self._left = entries
        self._group = [bytes(payload_bytes)] * max(1, window // GROUPS_IN_WINDOW)
        self._unanswered = 0
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> float:
        """Adds all entries and returns the seconds that this took. Raises LedgerError."""
        began = time.perf_counter()
        for _ in range(GROUPS_IN_WINDOW):
            self._send()
        await self._done
        return time.perf_counter() - began

    def _send(self) -> None:
        if self._left <= 0:
            return
        self._left -= len(self._group)
        self._unanswered += 1
        self._handle.append(self._group, self._answered)

    def _answered(self, append: "Append") -> None:
        self._unanswered -= 1
        if append.error is not None and not self._done.done():
            self._done.set_exception(append.error)
        self._send()
        if not self._unanswered and not self._done.done():
            self._done.set_result(None)


async def run(zookeeper: str, entries: int, window: int, payload_bytes: int) -> dict[str, float]:
    from magnetar.bookkeeper import connect

    async with connect(f"zk+hierarchical://{zookeeper}/ledgers") as bookkeeper:
        for warm_up in (True, False):
            count = entries // 10 if warm_up else entries
            ledger = await bookkeeper.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            cpu = time.process_time()
            add_seconds = await Writer(ledger, count, window, payload_bytes).run()
            add_cpu = time.process_time() - cpu
            last = ledger.last_add_confirmed
            await ledger.close()
            reader = await bookkeeper.open_ledger(ledger.ledger_id)
            cpu, began, found = time.process_time(), time.perf_counter(), 0
            while found <= last:
                found += len(await reader.read(found, last))
            read_seconds, read_cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "add_rate": (last + 1) / add_seconds,
        "add_cpu": add_cpu / (last + 1) * 1e6,
        "read_rate": found / read_seconds,
        "read_cpu": read_cpu / found * 1e6,
    }


def main() -> int:
    import uvloop

    parser = argparse.ArgumentParser(prog="python -m bench.bookie_client", description=__doc__)
    parser.add_argument("zookeeper", metavar="HOST:PORT")
    parser.add_argument("--entries", type=int, default=200_000)
    parser.add_argument("--window", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=1024)
    arguments = parser.parse_args()
    print(json.dumps(uvloop.run(run(arguments.zookeeper, arguments.entries, arguments.window, arguments.bytes))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
