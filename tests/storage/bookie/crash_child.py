"""A process for test_crash.py: writes to a bookie under load and prints what was acknowledged, until it is killed.

It prints "add <ledger> <first> <count>" or "fence <ledger>", each after the bookie has answered.
"""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from magnetar.storage.bookie.bookie import Bookie
from pulsar_proto.wire.bookie_wire import BookieError, ReadFlags
from tests.storage.bookie.helpers import KEY, entries_of, open_bookie

LEDGERS_AT_ONCE = 4
GROUPS_A_LEDGER = 40
GROUP = 20
ENTRY_BYTES = 500


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


class Writer:
    """Writes one ledger after the other, with several groups under way, and fences each at its end."""

    def __init__(self, bookie: Bookie, ledger_id: int, step: int) -> None:
        self.bookie = bookie
        self.ledger_id = ledger_id
        self.step = step
        self.next = 0
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        for _ in range(4):
            self.add()

    def add(self) -> None:
        ids = range(self.next, self.next + GROUP)
        self.next += GROUP
        self.bookie.add_entries(self.ledger_id, KEY, ids, entries_of(self.ledger_id, ids, ENTRY_BYTES), 0, self.done)

    def done(self, ids: Sequence[int], rc: int) -> None:
        if rc:
            return
        say(f"add {self.ledger_id} {ids[0]} {len(ids)}")
        if self.next < GROUPS_A_LEDGER * GROUP:
            self.add()
        elif self.task is None:
            self.task = asyncio.get_running_loop().create_task(self.fence())

    async def fence(self) -> None:
        try:
            await self.bookie.read_entry(self.ledger_id, -1, ReadFlags.FENCING, KEY)
        except BookieError as error:
            say(f"failed {error}")
        say(f"fence {self.ledger_id}")
        self.ledger_id += self.step
        self.next = 0
        self.task = None
        self.start()


async def main(folder: Path, first_ledger: int) -> None:
    bookie = await open_bookie(
        folder, db_storage_write_cache_max_size_mb=2, journal_max_size_mb=1, log_size_limit=3 << 20, flush_interval=100
    )
    say("ready")
    for number in range(LEDGERS_AT_ONCE):
        Writer(bookie, first_ledger + number, LEDGERS_AT_ONCE).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
