"""`RecentPages`: the newest written bytes stay in the kernel's memory, older ones are given back."""

import os
from pathlib import Path

import pytest

from magnetar.storage.bookie.durable_file import DurableFile
from magnetar.storage.bookie.entry_log_format import FILE_HEADER_SIZE
from magnetar.storage.bookie.entry_log_writer import EntryLogWriter
from magnetar.storage.bookie.entry_logs import EntryLogs
from magnetar.storage.bookie.recent_pages import RecentPages, kept_bytes

MIB = 1 << 20


@pytest.fixture
def given_back(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """The ranges that were given back, as (file name, first byte, number of bytes)."""
    ranges: list[tuple[str, int, int]] = []

    def advise(fd: int, offset: int, length: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED
        ranges.append((Path(os.readlink(f"/proc/self/fd/{fd}")).name, offset, length))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    return ranges


def test_the_oldest_ranges_go_when_there_are_too_many_bytes(
    tmp_path: Path, given_back: list[tuple[str, int, int]]
) -> None:
    first, second = tmp_path / "1.log", tmp_path / "2.log"
    first.touch()
    second.touch()
    recent = RecentPages(8 * MIB)
    recent.synced(str(first), 0, 4 * MIB)
    recent.synced(str(first), 4 * MIB, 8 * MIB)
    assert given_back == []
    recent.synced(str(second), 0, 4 * MIB)
    assert given_back == [("1.log", 0, 4 * MIB)]
    recent.synced(str(second), 4 * MIB, 8 * MIB)
    assert given_back[1:] == [("1.log", 4 * MIB, 4 * MIB)]


def test_small_writes_that_follow_each_other_are_given_back_together(
    tmp_path: Path, given_back: list[tuple[str, int, int]]
) -> None:
    log = tmp_path / "1.log"
    log.touch()
    recent = RecentPages(4 * MIB)
    for number in range(5 * MIB // 1024):
        recent.synced(str(log), number * 1024, (number + 1) * 1024)
    assert given_back == [("1.log", 0, 4 * MIB)]


def test_a_file_that_was_deleted_meanwhile_is_passed_over(
    tmp_path: Path, given_back: list[tuple[str, int, int]]
) -> None:
    recent = RecentPages(MIB)
    (tmp_path / "2.log").touch()
    recent.synced(str(tmp_path / "1.log"), 0, MIB)
    recent.synced(str(tmp_path / "2.log"), 0, MIB)
    recent.synced(str(tmp_path / "3.log"), 0, MIB)
    assert given_back == [("2.log", 0, MIB)]


def test_an_entry_log_is_given_back_from_its_beginning_up_to_what_is_on_the_disk(
    tmp_path: Path, given_back: list[tuple[str, int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    on_disk = [0]

    class SyncedFile(DurableFile):
        def sync(self) -> None:
            super().sync()
            on_disk.append(self.size())

    monkeypatch.setattr("magnetar.storage.bookie.entry_log_writer.kept_bytes", lambda: 0)
    logs = EntryLogs([str(tmp_path)], 4)
    writer = EntryLogWriter(logs, log_size_limit=1 << 30, block_bytes=1 << 16, open_file=SyncedFile)
    end = FILE_HEADER_SIZE
    for first in range(0, 40, 4):
        writer.append(1, 7, range(first, first + 4), [bytes(MIB)] * 4)
        for name, start, length in given_back:
            assert (name, start) == ("00000001.log", end)
            end += length
            assert end <= on_disk[-1]
        given_back.clear()
    assert end > 30 * MIB
    writer.close_log()


def test_a_bookie_keeps_a_part_of_the_machines_memory() -> None:
    assert 1 * MIB < kept_bytes() < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 16
