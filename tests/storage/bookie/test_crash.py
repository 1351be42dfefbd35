"""A process that writes under load is killed with SIGKILL at a random moment; what it acknowledged is there
afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.bookie.crash_child import ENTRY_BYTES
from tests.storage.bookie.helpers import add, entries_of, read_all, running

pytestmark = pytest.mark.process


class Acknowledged:
    def __init__(self) -> None:
        self.entries: dict[int, set[int]] = {}
        self.fenced: set[int] = set()

    def take(self, line: bytes) -> None:
        words = line.split()
        if words[0] == b"add":
            ledger, first, count = map(int, words[1:])
            self.entries.setdefault(ledger, set()).update(range(first, first + count))
        elif words[0] == b"fence":
            self.fenced.add(int(words[1]))

    def run_and_kill(self, folder: Path, first_ledger: int, lines: int) -> None:
        """Kills the process after this many answers. Answers that it had printed by then count too."""
        command = [sys.executable, "-m", "tests.storage.bookie.crash_child", str(folder), str(first_ledger)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            for _ in range(lines):
                self.take(child.stdout.readline())
            child.kill()
            for line in child.stdout.read().splitlines(keepends=True):
                if line.endswith(b"\n"):
                    self.take(line)

    async def check(self, folder: Path) -> None:
        async with running(folder) as bookie:
            for ledger, ids in self.entries.items():
                last = max(ids)
                assert ids == set(range(last + 1))
                found = await read_all(bookie, ledger, 0, last)
                assert found == entries_of(ledger, range(last + 1), ENTRY_BYTES), f"ledger {ledger} differs"
            for ledger in self.fenced:
                assert await add(bookie, ledger, range(9999, 10_000)) == BookieRc.EFENCED


@pytest.mark.parametrize("lines", [1, 7, 60, 333, 1500])
async def test_nothing_acknowledged_is_lost_to_a_kill(tmp_path: Path, lines: int) -> None:
    acknowledged = Acknowledged()
    acknowledged.run_and_kill(tmp_path, 0, lines)
    await acknowledged.check(tmp_path)


async def test_nor_to_kill_after_kill_without_a_clean_stop_between(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    for number, lines in enumerate([40, 300, 5, 700]):
        acknowledged.run_and_kill(tmp_path, 1000 * number, lines)
    await acknowledged.check(tmp_path)
    assert len(acknowledged.fenced) > 4
