"""Power loss at chosen syncs: the folder is copied just before one, what is not synced is torn, the copy is opened."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pulsar_proto.bookie_wire import BookieError, BookieRc, ReadFlags
from storage.bookie.service import Bookie
from tests.storage.bookie.faults import Faults
from tests.storage.bookie.helpers import KEY, Ledgers, add, entries_of, open_bookie, running

LEDGERS = 5
ROUNDS = 40


class PowerLoss:
    """Freezes what the disk would hold at sync number `at`: all synced bytes and a random part of the others."""

    def __init__(self, folder: Path, frozen: Path, at: int, seed: int) -> None:
        self.faults = Faults()
        self.faults.before_sync = self._before_sync
        self._folder, self._frozen, self._at = folder, frozen, at
        self._random = random.Random(seed)
        self.acknowledged: dict[int, int] = {}
        self.fenced: set[int] = set()
        self.at_loss: tuple[dict[int, int], set[int]] | None = None

    def _before_sync(self) -> None:
        if self.faults.syncs != self._at:
            return
        self.at_loss = dict(self.acknowledged), set(self.fenced)
        shutil.copytree(self._folder, self._frozen)
        for path, durable in self.faults.durable_sizes.items():
            copy = self._frozen / os.path.relpath(path, self._folder)
            if copy.exists() and copy.stat().st_size > durable:
                self._tear(copy, durable)

    def _tear(self, path: Path, durable: int) -> None:
        """Pages reach the disk in any order or not at all."""
        size = path.stat().st_size
        with open(path, "r+b") as file:
            for start in range(durable, size, 4096):
                if self._random.random() < 0.5:
                    file.seek(start)
                    file.write(bytes(min(4096, size - start)))
            if self._random.random() < 0.5:
                file.truncate(self._random.randint(durable, size))


async def work(bookie: Bookie, loss: PowerLoss, ledgers: Ledgers) -> None:
    """Adds to several ledgers, with checkpoints, changes of files, fences and deletions among them; one thing at a
    time, so that no other thread changes the folder while it is copied."""
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


@pytest.mark.parametrize("at", [2, 11, 46, 77, 104, 113, 128, 171])
async def test_nothing_acknowledged_is_lost_whenever_the_power_fails(tmp_path: Path, at: int) -> None:
    ledgers = Ledgers()
    loss = PowerLoss(tmp_path / "live", tmp_path / "frozen", at, seed=at)
    settings: dict[str, Any] = {"journal_max_size_mb": 0.03, "log_size_limit": 60_000}
    bookie = await open_bookie(tmp_path / "live", ledgers, open_file=loss.faults.open, **settings)
    await work(bookie, loss, ledgers)
    await bookie.close()
    assert loss.at_loss is not None, f"only {loss.faults.syncs} syncs"
    acknowledged, fenced = loss.at_loss
    async with running(tmp_path / "frozen", **settings) as again:
        for ledger, count in acknowledged.items():
            expected = entries_of(ledger, range(count), 300)
            assert [await again.read_entry(ledger, i) for i in range(count)] == expected
        for ledger in fenced:
            assert await add(again, ledger, range(10_000, 10_001)) == BookieRc.EFENCED
        # What was not acknowledged is either not there or whole, and the ledger goes on.
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
