"""Power loss at chosen syncs of every kind of file: just before the sync the folder is copied, what is not synced is
torn in the copy, and the copy is opened."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie import durable_file
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.index_log import IndexLog
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc, ReadFlags
from tests.storage.bookie.faults import Faults
from tests.storage.bookie.helpers import KEY, Ledgers, add, entries_of, open_bookie, running

LEDGERS = 5
ROUNDS = 40


class PowerLoss:
    """Freezes what the disk would hold at the `nth` sync of a kind: all synced bytes and a random part of the others.

    The kinds are `journal` and `log` (files of the bookie), `index` (RocksDB's log), `new file` (the content of a file
    that replaces another: the mark, or the beginning of a journal) and `folder` (which makes the new file's name
    durable).
    """

    def __init__(self, folder: Path, frozen: Path, kind: str, nth: int) -> None:
        self.faults = Faults()
        self.faults.before_sync_of = self._before_sync_of
        self._folder, self._frozen, self._kind, self._left = folder, frozen, kind, nth
        self._random = random.Random(f"{kind} {nth}")
        self.acknowledged: dict[int, int] = {}
        self.fenced: set[int] = set()
        self.at_loss: tuple[dict[int, int], set[int]] | None = None

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Also counts the syncs that do not go through the files of `faults`."""
        real_fsync, real_sync, real_sync_data = os.fsync, IndexLog.sync, os.fdatasync

        def fsync(fd: int) -> None:
            path = Path(os.readlink(f"/proc/self/fd/{fd}"))
            if self._folder in path.parents or path == self._folder:
                self._before("folder" if path.is_dir() else "new file")
            real_fsync(fd)

        def sync(log: IndexLog) -> None:
            self._before("index")
            real_sync(log)

        def sync_data(fd: int) -> None:
            path, size = os.readlink(f"/proc/self/fd/{fd}"), os.fstat(fd).st_size
            real_sync_data(fd)
            if path in self._logs_of_index():
                self.faults.durable_sizes[path] = size

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(IndexLog, "sync", sync)
        monkeypatch.setattr(durable_file, "_sync_data", sync_data)

    def _logs_of_index(self) -> list[str]:
        return list(map(str, self._folder.rglob("index/*.log")))

    def _before_sync_of(self, path: str) -> None:
        self._before("journal" if path.endswith((".journal", ".spare")) else "log")

    def _before(self, kind: str) -> None:
        if kind != self._kind or self.at_loss is not None:
            return
        self._left -= 1
        if self._left:
            return
        self.at_loss = dict(self.acknowledged), set(self.fenced)
        shutil.copytree(self._folder, self._frozen)
        for path, durable in {**dict.fromkeys(self._logs_of_index(), 0), **self.faults.durable_sizes}.items():
            copy = self._frozen / os.path.relpath(path, self._folder)
            if copy.exists() and copy.stat().st_size > durable:
                self._tear(copy, durable)

    def _tear(self, path: Path, durable: int) -> None:
        """Leaves a random part of the pages that were not synced, because pages reach the disk in any order or not at
        all."""
        size = path.stat().st_size
        with open(path, "r+b") as file:
            for start in range(durable, size, 4096):
                if self._random.random() < 0.5:
                    file.seek(start)
                    file.write(bytes(min(4096, size - start)))
            if self._random.random() < 0.5:
                file.truncate(self._random.randint(durable, size))


async def work(bookie: Bookie, loss: PowerLoss, ledgers: Ledgers) -> None:
    """Adds to several ledgers, with checkpoints, changes of files, fences and deletions between the adds. It does one
    thing at a time, so that no other thread changes the folder while it is copied."""
    for number in range(ROUNDS):
        for ledger in range(LEDGERS):
            if ledger in loss.fenced:
                continue
            first = loss.acknowledged.get(ledger, 0)
            if await add(bookie, ledger, range(first, first + 7), size=300) == BookieRc.EOK:
                loss.acknowledged[ledger] = first + 7
        if number % 9 == 8:
            await bookie.checkpoint()
        if number == ROUNDS // 2:
            await bookie.read_entry(4, -1, ReadFlags.FENCING, KEY)
            loss.fenced.add(4)
            ledgers.ids.discard(3)
            loss.acknowledged.pop(3)
            await bookie.collect_garbage(0.9)


async def read_or_code(bookie: Bookie, ledger_id: int, entry_id: int) -> bytes | BookieRc:
    try:
        return await bookie.read_entry(ledger_id, entry_id)
    except BookieError as error:
        return error.rc


POINTS = [
    *(("journal", nth) for nth in (2, 11, 46, 104, 128, 171)),
    *(("log", nth) for nth in (1, 2, 3, 4)),
    *(("index", nth) for nth in (1, 2, 3, 4, 5)),
    *(("new file", nth) for nth in (4, 5, 6, 7, 8, 9)),
    *(("folder", nth) for nth in (5, 6, 7, 8, 9, 10, 11, 12, 13, 14)),
]


@pytest.mark.parametrize(("kind", "nth"), POINTS)
async def test_nothing_acknowledged_is_lost_whenever_the_power_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, nth: int
) -> None:
    ledgers = Ledgers()
    loss = PowerLoss(tmp_path / "live", tmp_path / "frozen", kind, nth)
    loss.watch(monkeypatch)
    settings: dict[str, Any] = {"journal_max_size_mb": 0.03, "log_size_limit": 60_000}
    bookie = await open_bookie(tmp_path / "live", ledgers, open_file=loss.faults.open, **settings)
    await work(bookie, loss, ledgers)
    await bookie.close()
    assert loss.at_loss is not None, f"fewer than {nth} syncs of kind {kind}"
    acknowledged, fenced = loss.at_loss
    async with running(tmp_path / "frozen", **settings) as again:
        for ledger, count in acknowledged.items():
            expected = entries_of(ledger, range(count), 300)
            assert [await again.read_entry(ledger, i) for i in range(count)] == expected
        for ledger in fenced:
            assert await add(again, ledger, range(10_000, 10_001)) == BookieRc.EFENCED
        # An entry that was not acknowledged is either missing or whole, and the ledger can be written on.
        for ledger, count in acknowledged.items():
            for entry_id in range(count, count + 7):
                assert await read_or_code(again, ledger, entry_id) in (
                    entries_of(ledger, [entry_id], 300)[0],
                    BookieRc.ENOENTRY,
                )
        await again.checkpoint()
        await again.collect_garbage(0.9)
        for ledger, count in acknowledged.items():
            assert await again.read_entry(ledger, count - 1) == entries_of(ledger, [count - 1], 300)[0]
