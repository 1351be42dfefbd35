"""Every kind of damage for which the advice is skipDamagedJournal=true: without the flag the start is refused and
nothing is changed. With it the bookie keeps everything outside of the damage, and does not need the flag again."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_errors import Skippable
from magnetar.storage.bookie.file_inspection import SeenBatch, read_journals
from magnetar.storage.bookie.last_mark import LastMarkFile
from pulsar_proto.wire.bookie_wire import AddFlags, BookieError, BookieRc, ReadFlags
from tests.storage.bookie.helpers import (
    KEY,
    Ledgers,
    add,
    entries_of,
    entry_of,
    files_of,
    flip_byte,
    open_bookie,
    running,
    start_add,
)

FLUSHED, BEHIND = 30, 30
"""The number of batches, of one entry each, before the mark and behind it."""
SETTINGS: dict[str, Any] = {"journal_max_size_mb": 0.01, "journal_reuse_files": False}
FENCE = int(ReadFlags.FENCING)

Receipts = dict[int, int]
"""By ledger: the ids of its acknowledged entries."""


class Killed:
    """A bookie's folder as a kill leaves it. The entries in `receipts` were acknowledged; those in `flushed` are in
    entry logs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.receipts: Receipts = {}
        self.flushed: Receipts = {}

    @property
    def journals(self) -> list[Path]:
        return files_of(self.folder / "journal", ".journal")

    @property
    def mark(self) -> Path:
        return self.folder / "ledgers" / "lastMark"

    def offset_of_mark(self) -> int:
        mark = LastMarkFile(str(self.mark)).load()
        assert mark is not None
        return mark.positions[0].offset

    def content(self) -> dict[str, bytes]:
        """Returns the files whose change could lose something. The index is left out, because opening it rewrites some
        of its files."""
        return {
            str(path): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file() and "index" not in path.parts and path.name != "LOCK"
        }

    def whole_in_journal(self) -> Iterator[bytes]:
        """Yields the entries of the readable batches, independently of the replay."""
        for found in read_journals(list(map(str, self.journals))):
            if isinstance(found, SeenBatch):
                yield from found.entries


async def killed_bookie(tmp_path: Path, *, checkpoint: bool) -> Killed:
    """Kills a bookie. Ledgers 1 and 2 have entries before the mark, if there was a checkpoint, and behind it; ledgers 3
    and 4 only behind it."""
    killed = Killed(tmp_path / "live")
    live = await open_bookie(tmp_path / "live", **SETTINGS)

    async def write(ledgers: tuple[int, ...], count: int) -> None:
        for number in range(count):
            ledger = ledgers[number % len(ledgers)]
            first = killed.receipts.get(ledger, 0)
            assert await add(live, ledger, range(first, first + 1), size=700) == BookieRc.EOK
            killed.receipts[ledger] = first + 1

    await write((1, 2), FLUSHED)
    if checkpoint:
        await live.checkpoint()
        killed.flushed = dict(killed.receipts)
    await write((1, 2, 3, 4), BEHIND)
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    await live.close()
    shutil.rmtree(tmp_path / "live")
    (tmp_path / "killed").rename(tmp_path / "live")
    return killed


def cut_below_the_mark(killed: Killed) -> None:
    os.truncate(killed.journals[0], killed.offset_of_mark() - 30)


def cut_to_nothing(killed: Killed) -> None:
    os.truncate(killed.journals[0], 0)


def cut_within_the_header(killed: Killed) -> None:
    os.truncate(killed.journals[0], 40)


def first_deleted(killed: Killed) -> None:
    killed.journals[0].unlink()


def second_deleted(killed: Killed) -> None:
    killed.journals[1].unlink()


def all_deleted(killed: Killed) -> None:
    for journal in killed.journals:
        journal.unlink()


def bit_in_header(killed: Killed) -> None:
    flip_byte(killed.journals[-1], 26)


def bits_in_both_headers(killed: Killed) -> None:
    for offset in (26, 58):
        flip_byte(killed.journals[-1], offset)


def bit_in_the_first_batch_behind(killed: Killed) -> None:
    flip_byte(killed.journals[-1], 64 + 100)


def zeros(killed: Killed) -> None:
    with open(killed.journals[1], "r+b") as file:
        file.seek(3000)
        file.write(bytes(2000))


def a_range_twice(killed: Killed) -> None:
    data = killed.journals[1].read_bytes()
    killed.journals[1].write_bytes(data[:3000] + data[2000:3000] + data[3000:])


def swapped(killed: Killed) -> None:
    first, second = killed.journals[:2]
    first_data, second_data = first.read_bytes(), second.read_bytes()
    first.write_bytes(second_data)
    second.write_bytes(first_data)


def last_is_another(killed: Killed) -> None:
    killed.journals[-1].write_bytes(killed.journals[0].read_bytes())


def mark_damaged(killed: Killed) -> None:
    flip_byte(killed.mark, 20)


def mark_cut(killed: Killed) -> None:
    os.truncate(killed.mark, 3)


def mark_and_first_deleted(killed: Killed) -> None:
    killed.mark.unlink()
    killed.journals[0].unlink()


SHAPES: list[Callable[[Killed], None]] = [
    cut_below_the_mark,
    cut_to_nothing,
    cut_within_the_header,
    first_deleted,
    second_deleted,
    all_deleted,
    bit_in_header,
    bits_in_both_headers,
    bit_in_the_first_batch_behind,
    zeros,
    a_range_twice,
    swapped,
    last_is_another,
    mark_damaged,
    mark_cut,
    mark_and_first_deleted,
]
NEED_A_MARK = [cut_below_the_mark]
"""Without a checkpoint the mark is at the journal's beginning, and nothing is below it."""


@pytest.mark.parametrize(
    ("damage", "checkpoint"),
    [(shape, checkpoint) for shape in SHAPES for checkpoint in (False, True) if checkpoint or shape not in NEED_A_MARK],
    ids=lambda value: ("checkpoint" if value else "no checkpoint") if isinstance(value, bool) else value.__name__,
)
async def test_the_way_out_loses_only_what_was_damaged(
    tmp_path: Path, damage: Callable[[Killed], None], checkpoint: bool
) -> None:
    killed = await killed_bookie(tmp_path, checkpoint=checkpoint)
    damage(killed)
    before = killed.content()
    with pytest.raises(Skippable, match="skipDamagedJournal=true") as caught:
        await open_bookie(killed.folder, **SETTINGS)
    assert str(killed.folder) in str(caught.value)
    assert killed.content() == before, "a refused start changed something"

    safe = {(ledger, i) for ledger, count in killed.flushed.items() for i in range(count)}
    whole = set(killed.whole_in_journal()) if damage not in (swapped, last_is_another) else set()
    expected = {
        (ledger, i)
        for ledger, count in killed.receipts.items()
        for i in range(count)
        if (ledger, i) in safe or entry_of(ledger, i, bytes([i % 251]) * 700) in whole
    }
    assert expected or not checkpoint
    bookie = await open_bookie(killed.folder, skip_damaged_journal=True, **SETTINGS)
    assert await all_readable(bookie, expected)
    assert await add(bookie, 9, range(10), size=100) == BookieRc.EOK
    shutil.copytree(killed.folder, tmp_path / "killed again")
    await bookie.close()
    async with running(tmp_path / "killed again", **SETTINGS) as again:
        assert await all_readable(again, expected)
        assert await again.read_entries(9, 0, 10, 1 << 20) == entries_of(9, range(10), 100)
        assert await add(again, 9, range(10, 20), size=100) == BookieRc.EOK


async def all_readable(bookie: Bookie, expected: set[tuple[int, int]]) -> bool:
    return [await bookie.read_entry(*each) for each in sorted(expected)] == [
        entries_of(ledger, [i], 700)[0] for ledger, i in sorted(expected)
    ]


async def test_entries_without_their_ledgers_key_wait_for_who_brings_it(tmp_path: Path) -> None:
    """The first batch, which holds the key, is damaged. The ledger still exists, but its writer may not go on."""
    killed = await ledger_without_key(tmp_path)
    async with running(killed, skip_damaged_journal=True) as bookie:
        assert await bookie.read_entry(1, 12) == entries_of(1, [12])[0]
        assert await add(bookie, 1, range(20, 21)) == BookieRc.EFENCED
    async with running(killed) as bookie:  # the state was stored
        assert await add(bookie, 1, range(20, 21)) == BookieRc.EFENCED
        assert await bookie.read_entry(1, -1, FENCE, KEY) == entries_of(1, [19])[0]
        with pytest.raises(BookieError) as caught:
            await bookie.read_entry(1, -1, FENCE, b"another")
        assert caught.value.rc == BookieRc.EUA
        assert await add(bookie, 1, range(20, 21), flags=AddFlags.RECOVERY_ADD) == BookieRc.EOK
    async with running(killed) as bookie:
        with pytest.raises(BookieError) as caught:
            await bookie.read_entry(1, -1, FENCE, b"another")
        assert caught.value.rc == BookieRc.EUA


async def test_a_recovery_add_brings_the_key_as_well(tmp_path: Path) -> None:
    killed = await ledger_without_key(tmp_path)
    async with running(killed, skip_damaged_journal=True) as bookie:
        assert await add(bookie, 1, range(20, 21), flags=AddFlags.RECOVERY_ADD) == BookieRc.EOK
        assert await add(bookie, 1, range(21, 22), flags=AddFlags.RECOVERY_ADD, key=b"other") == BookieRc.EUA


async def test_a_gap_is_no_end_of_the_ledger_for_who_recovers_it(tmp_path: Path) -> None:
    killed = await ledger_without_key(tmp_path)
    async with running(killed, skip_damaged_journal=True) as bookie:
        for entry_id, rc in ((3, BookieRc.EUNKNOWNLEDGERSTATE), (20, BookieRc.ENOENTRY)):
            with pytest.raises(BookieError) as caught:
                await bookie.read_entry(1, entry_id, FENCE, KEY)
            assert caught.value.rc == rc
        with pytest.raises(BookieError) as caught:
            await bookie.read_entry(1, 3)
        assert caught.value.rc == BookieRc.ENOENTRY


async def test_a_deleted_ledger_that_comes_back_with_the_damage_is_collected_again(tmp_path: Path) -> None:
    killed = await ledger_without_key(tmp_path)
    ledgers = Ledgers()
    ledgers.ids.discard(1)
    async with running(killed, ledgers, skip_damaged_journal=True) as bookie:
        assert bookie.stats().ledgers == 1
        await bookie.collect_garbage(0)
        assert bookie.stats().ledgers == 0


async def ledger_without_key(tmp_path: Path) -> Path:
    """Leaves a journal whose damaged batch holds entries 0 to 9 and the key; entries 10 to 19 are behind it."""
    live = await open_bookie(tmp_path / "live")
    for first in (0, 10):
        assert await start_add(live, 1, range(first, first + 10), entries_of(1, range(first, first + 10))) == 0
    shutil.copytree(tmp_path / "live", tmp_path / "killed")
    await live.close()
    flip_byte(files_of(tmp_path / "killed", ".journal")[0], 64 + 100)
    return tmp_path / "killed"
