"""Journals that no replay reads any more are deleted, kept as backups, or written over."""

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie.disks import DiskUsage
from magnetar.storage.bookie.durable_file import DurableFile
from magnetar.storage.bookie.journal_format import FILE_HEADER_SIZE, JournalPosition, file_header, parse_file_header
from magnetar.storage.bookie.journal_replay import journal_path, list_journals
from magnetar.storage.bookie.old_journals import SPARES_MAX, OldJournals
from tests.storage.bookie.faults import Faults
from tests.storage.bookie.helpers import add, entries_of, read_all, running
from tests.storage.bookie.journal_scene import FRESH, Opened, group, replayed

HEADER = file_header(9, 100, 5)


def journals_in(folder: Path, *ids: int, size: int = 10_000) -> None:
    for journal_id in ids:
        Path(journal_path(str(folder), journal_id)).write_bytes(bytes([journal_id]) * size)


def spares_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.spare"))


def mark(journal_id: int) -> JournalPosition:
    return JournalPosition(journal_id, 64, 1)


def test_old_journals_are_dropped_but_for_the_backups(tmp_path: Path) -> None:
    journals_in(tmp_path, *range(1, 7))
    OldJournals(str(tmp_path), backups=2, reuse=False).drop(mark(5))
    assert list_journals(str(tmp_path)) == [3, 4, 5, 6]
    OldJournals(str(tmp_path), reuse=False).drop(mark(5))
    assert list_journals(str(tmp_path)) == [5, 6]
    assert spares_of(tmp_path) == []


def test_two_old_journals_are_kept_to_be_written_over(tmp_path: Path) -> None:
    journals_in(tmp_path, *range(1, 7))
    OldJournals(str(tmp_path), backups=1).drop(mark(6))
    assert list_journals(str(tmp_path)) == [5, 6]
    assert spares_of(tmp_path) == ["0000000000000001.spare", "0000000000000002.spare"]


def test_a_journal_that_is_too_large_or_has_a_second_name_is_not_kept(tmp_path: Path) -> None:
    journals_in(tmp_path, 1, 2)
    journals_in(tmp_path, 3, size=10_001)
    os.link(journal_path(str(tmp_path), 2), tmp_path / "somebody's copy")
    OldJournals(str(tmp_path), max_spare_bytes=10_000).drop(mark(4))
    assert list_journals(str(tmp_path)) == []
    assert spares_of(tmp_path) == ["0000000000000001.spare"]
    assert (tmp_path / "somebody's copy").read_bytes() == b"\x02" * 10_000


def test_a_spare_becomes_the_next_journal_with_its_header_and_its_old_bytes(tmp_path: Path) -> None:
    journals_in(tmp_path, 3)
    old = OldJournals(str(tmp_path))
    old.drop(mark(4))
    file = old.take(9, HEADER, DurableFile)
    assert file is not None
    assert (file.path, file.size()) == (journal_path(str(tmp_path), 9), 10_000)
    file.close()
    assert spares_of(tmp_path) == []
    data = Path(journal_path(str(tmp_path), 9)).read_bytes()
    assert data == HEADER + bytes(4096 - FILE_HEADER_SIZE) + b"\x03" * (10_000 - 4096)
    assert old.take(10, HEADER, DurableFile) is None


def test_the_header_is_durable_before_the_file_has_the_journals_name(tmp_path: Path) -> None:
    faults = Faults()
    journals_in(tmp_path, 3)
    old = OldJournals(str(tmp_path))
    old.drop(mark(4))
    at_sync: list[tuple[list[int], int]] = []

    def note(_: str) -> None:
        (spare,) = tmp_path.glob("*.spare")
        at_sync.append((list_journals(str(tmp_path)), parse_file_header(spare.read_bytes())[0]))

    faults.before_sync_of = note
    assert old.take(9, HEADER, faults.open) is not None
    assert at_sync == [([], 9)]


@pytest.mark.parametrize("failing", ["write_error", "sync_error"])
def test_a_spare_that_cannot_be_written_is_given_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, failing: str
) -> None:
    faults = Faults()
    setattr(faults, failing, errno.EIO)
    journals_in(tmp_path, 3)
    old = OldJournals(str(tmp_path))
    old.drop(mark(4))
    with caplog.at_level(logging.WARNING):
        assert old.take(9, HEADER, faults.open) is None
    assert "0000000000000003.spare: cannot be written over" in caplog.text
    assert os.listdir(tmp_path) == []


def test_a_spare_that_is_released_meanwhile_is_none(tmp_path: Path) -> None:
    journals_in(tmp_path, 3)
    old = OldJournals(str(tmp_path))
    old.drop(mark(4))

    def gone(path: str, **values: Any) -> DurableFile:
        old.release()
        return DurableFile(path, **values)

    assert old.take(9, HEADER, gone) is None


def test_a_spare_of_a_later_journal_is_not_used(tmp_path: Path) -> None:
    """The batches of that file could have sequence numbers that the journal will still use."""
    journals_in(tmp_path, 9)
    old = OldJournals(str(tmp_path))
    old.drop(mark(10))
    assert old.take(9, HEADER, DurableFile) is None
    assert os.listdir(tmp_path) == []


def test_without_room_none_is_kept_and_those_there_are_released(tmp_path: Path) -> None:
    journals_in(tmp_path, 1, 2, 3)
    old = OldJournals(str(tmp_path))
    old.drop(mark(2))
    assert not old.allow_spares(True)
    assert old.allow_spares(False)
    old.release()
    assert not old.allow_spares(False)
    old.drop(mark(3))
    assert list_journals(str(tmp_path)) == [3]
    assert spares_of(tmp_path) == []


@pytest.mark.parametrize(("reuse", "left"), [(True, SPARES_MAX), (False, 0)])
def test_spares_of_a_former_process_are_counted(tmp_path: Path, reuse: bool, left: int) -> None:
    for number in range(5):
        (tmp_path / f"{number:016x}.spare").touch()
    OldJournals(str(tmp_path), reuse=reuse)
    assert len(spares_of(tmp_path)) == left


def test_a_journal_goes_on_in_files_that_are_written_over(tmp_path: Path) -> None:
    old = OldJournals(str(tmp_path))
    opened = Opened(tmp_path, Faults(), FRESH, 20_000, 1 << 20, old)
    try:
        inodes: list[int] = []
        for number in range(60):
            position = opened.commit(group(number, 1, size=1500)).position
            inodes.append(os.stat(journal_path(str(tmp_path), position.journal_id)).st_ino)
            old.drop(position)
        assert len(set(inodes)) == 2
        assert position.journal_id > 4
        path = Path(journal_path(str(tmp_path), position.journal_id))
        assert path.stat().st_size > position.offset, "bytes of its former use"
        page = path.read_bytes()[position.offset : -(-position.offset // 4096) * 4096]
        assert not any(page), "zeros up to the end of the page"
    finally:
        opened.journal.close()
    assert path.stat().st_size == position.offset, "a clean stop cuts them"


def test_without_room_the_file_is_cut_and_not_padded_any_more(tmp_path: Path) -> None:
    faults = Faults()
    old = OldJournals(str(tmp_path))
    opened = Opened(tmp_path, faults, FRESH, 20_000, 1 << 20, old)
    try:
        number = 0
        position = FRESH
        while position.journal_id < 4:
            position = opened.commit(group(number, 1, size=1500)).position
            old.drop(position)
            number += 1
        path = Path(journal_path(str(tmp_path), position.journal_id))
        faults.write_error = errno.ENOSPC
        faults.partial_bytes = 700
        result = opened.commit(group(number, 1, size=1500))
        assert (result.fatal, result.position) == (False, position)
        assert path.stat().st_size == position.offset
        faults.write_error = None
        position = opened.commit(group(number + 1, 1, size=1500)).position
        assert path.stat().st_size == position.offset
    finally:
        opened.journal.close()


def test_the_journals_that_are_left_are_replayed_from_the_mark(tmp_path: Path) -> None:
    old = OldJournals(str(tmp_path), backups=100, reuse=False)
    opened = Opened(tmp_path, Faults(), FRESH, 20_000, 1 << 20, old)
    for number in range(40):
        opened.commit(group(number, 1, size=1500))
    opened.journal.close()
    assert replayed(tmp_path)[0] == entries_of(1, range(40), 1500)


async def test_a_bookie_writes_over_its_journals_until_the_disk_is_short(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with running(tmp_path, journal_max_size_mb=0.05) as bookie:
        for number in range(30):
            await add(bookie, 1, range(number * 10, number * 10 + 10), size=1000)
            if number % 10 == 9:
                await bookie.checkpoint()
        assert 1 <= len(spares_of(journal)) <= SPARES_MAX
        bookie.room_seen(DiskUsage(free_bytes=100_000, used_share=0.5))
        await bookie.checkpoint()
        assert spares_of(journal) == []
    async with running(tmp_path, journal_max_size_mb=0.05, journal_reuse_files=False) as bookie:
        assert await read_all(bookie, 1, 0, 299) == entries_of(1, range(300), 1000)
