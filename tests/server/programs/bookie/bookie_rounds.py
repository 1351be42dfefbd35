"""Real bookies are killed and paused in turn under load (`python -m tests.server.programs.bookie.bookie_rounds`).

There are four of our bookies and a ZooKeeper. A writer keeps adding to ledgers of E3/Qw3/Qa2 (or Qw2), each of which it
closes after some entries; a second client recovers what the writer could not close. In each round one bookie is killed
(SIGKILL) and started again, or paused (SIGSTOP) and resumed. In the end every acknowledged entry must be there, in
order.
"""

import argparse
import asyncio
import signal
import struct
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import NamedTuple

from compat_tests.bookkeeper.our_bookie import OurBookie
from magnetar.bookkeeper import BookKeeper, LedgerConfig, WireConfig, connect
from magnetar.metadata import paths
from magnetar.metadata.cluster_init import LAYOUT_VALUE
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.ledger_errors import LedgerError
from tests.metadata.zookeeper.zookeeper_server import running

BOOKIES = 4
GROUP = 20
GROUPS_OF_A_LEDGER = 40
PAUSE_SECONDS = (0.5, 2.5)
CONFIG = LedgerConfig(add_entry_timeout_sec=1.0, read_entry_timeout_sec=2.0, bookie_errors_max=0)
_PAYLOAD = struct.Struct(">qq")


class Verdict(NamedTuple):
    ledgers: int
    acknowledged: int
    failed_writers: int
    faults: list[str]


def payload_of(ledger_id: int, number: int) -> bytes:
    return _PAYLOAD.pack(ledger_id, number) * (1 + number % 40)


class Load:
    """Writes one ledger after the other and remembers how far each was acknowledged."""

    def __init__(self, bookkeeper: BookKeeper, write_quorum: int) -> None:
        self._bookkeeper = bookkeeper
        self._write_quorum = write_quorum
        self.acknowledged: dict[int, int] = {}
        self.failed_writers = 0
        self.stopping = False

    async def run(self) -> None:
        while not self.stopping:
            try:
                writer = await self._bookkeeper.create_ledger(
                    ensemble_size=3, write_quorum=self._write_quorum, ack_quorum=2
                )
            except LedgerError:
                await asyncio.sleep(0)
                continue
            self.acknowledged[writer.ledger_id] = 0
            try:
                for group in range(GROUPS_OF_A_LEDGER):
                    first = group * GROUP
                    payloads = [payload_of(writer.ledger_id, first + number) for number in range(GROUP)]
                    done: asyncio.Future[Append] = asyncio.get_running_loop().create_future()
                    writer.append(payloads, done.set_result)
                    if (error := (await done).error) is not None:
                        raise error
                    self.acknowledged[writer.ledger_id] = first + GROUP
                await writer.close()
            except LedgerError:
                self.failed_writers += 1


class Rounds:
    def __init__(self, bookies: list[OurBookie], rng: Random) -> None:
        self._bookies = bookies
        self._rng = rng

    async def run(self, rounds: int) -> None:
        for _ in range(rounds):
            victim = self._rng.choice(self._bookies)
            pause = self._rng.uniform(*PAUSE_SECONDS)
            if self._rng.random() < 0.5:
                victim.kill()
                await asyncio.to_thread(time.sleep, pause / 5)
                await asyncio.to_thread(victim.start)
            else:
                victim.process.send_signal(signal.SIGSTOP)
                await asyncio.to_thread(time.sleep, pause)
                victim.process.send_signal(signal.SIGCONT)
            await asyncio.to_thread(time.sleep, pause / 5)


async def check(bookkeeper: BookKeeper, acknowledged: dict[int, int]) -> list[str]:
    """Returns what is missing or wrong. Ledgers whose writer failed are recovered first."""
    faults = []
    for ledger_id, count in acknowledged.items():
        reader = await bookkeeper.open_ledger(ledger_id)
        last = reader.last_add_confirmed
        if last < count - 1:
            faults.append(f"ledger {ledger_id} ends at {last}, {count} entries were acknowledged")
        found = 0
        while found <= last:
            for entry in await reader.read(found, last):
                if entry[reader.payload_offset :] != payload_of(ledger_id, found):
                    faults.append(f"ledger {ledger_id} entry {found} differs")
                found += 1
    return faults


async def judge(zookeeper: str, bookies: list[OurBookie], rounds: int, seed: int, write_quorum: int) -> Verdict:
    uri = f"zk+hierarchical://{zookeeper}/ledgers"
    wire = WireConfig(use_v2_wire_protocol=True)
    async with connect(uri, config=CONFIG, wire=wire) as writing, connect(uri, config=CONFIG) as reading:
        load = Load(writing, write_quorum)
        task = asyncio.create_task(load.run())
        await Rounds(bookies, Random(seed)).run(rounds)
        load.stopping = True
        await task
        faults = await check(reading, load.acknowledged)
    return Verdict(len(load.acknowledged), sum(load.acknowledged.values()), load.failed_writers, faults)


async def initialize(address: str) -> None:
    store = await ZooKeeperStore.open(address)
    for path, value in ((paths.LAYOUT, LAYOUT_VALUE), (paths.INSTANCE_ID, b"i"), (paths.READ_ONLY_BOOKIES, b"")):
        await store.create(path, value, make_parents=True)
    await store.close()


def run_rounds(folder: Path, rounds: int, seed: int, write_quorum: int = 3) -> Verdict:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(running(folder))
        asyncio.run(initialize(zookeeper.address))
        bookies = [OurBookie(folder / f"bookie{number}", zookeeper.address) for number in range(BOOKIES)]
        for bookie in bookies:
            bookie.spawn()
            stack.callback(bookie.kill)
        for bookie in bookies:
            bookie.await_ready()
        return asyncio.run(judge(zookeeper.address, bookies, rounds, seed, write_quorum))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.server.programs.bookie.bookie_rounds", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--write-quorum", type=int, default=3, choices=(2, 3))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        verdict = run_rounds(Path(folder), arguments.rounds, arguments.seed, arguments.write_quorum)
    print(f"seed {arguments.seed}: {verdict}")
    return 1 if verdict.faults else 0


if __name__ == "__main__":
    sys.exit(main())
