"""Checkpoints: what they move to the entry logs, when they start, and what a failed one leaves."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from magnetar.storage.bookie.bookie_errors import IndexDamaged, MarkDamaged
from magnetar.storage.bookie.disks import BookieMode
from magnetar.storage.bookie.index_manifest import Manifest
from magnetar.storage.bookie.journal_format import JournalPosition
from magnetar.storage.bookie.journal_replay import list_journals
from magnetar.storage.bookie.last_mark import LastMark, LastMarkFile
from magnetar.storage.bookie.ledger_state import EXPLICIT_LAC_BYTES_MAX
from pulsar_proto.checksum import crc32c
from tests.storage.bookie.faults import IO_ERROR, NO_SPACE, Faults
from tests.storage.bookie.helpers import (
    KEY,
    add,
    entries_of,
    files_of,
    flip_byte,
    open_bookie,
    read_all,
    running,
    start_add,
    writable,
)
from tests.waiting import until


def mark(journal_id: int, offset: int) -> LastMark:
    return LastMark((JournalPosition(journal_id, offset, 10),), 5, Manifest(3, 277, 0x01020304), 6)


def test_the_mark_reads_back_and_never_moves_back(tmp_path: Path) -> None:
    path = str(tmp_path / "lastMark")
    assert LastMarkFile(path).load() is None
    file = LastMarkFile(path)
    file.save(mark(2, 100))
    assert LastMarkFile(path).load() == mark(2, 100)
    for older in (mark(1, 900), mark(2, 99)):
        with pytest.raises(AssertionError):
            file.save(older)
    assert LastMarkFile(path).load() == mark(2, 100)
    assert os.listdir(tmp_path) == ["lastMark"]


def test_the_marks_bytes(tmp_path: Path) -> None:
    path = tmp_path / "lastMark"
    LastMarkFile(str(path)).save(mark(2, 100))
    head = "4d474d4b 00000003 00000001 0000000000000002 0000000000000064 000000000000000a 0000000000000005"
    manifest = "0000000000000003 0000000000000115 01020304 00000006"
    assert path.read_bytes()[:-4] == bytes.fromhex(head + manifest)
    assert path.stat().st_size == 72


@pytest.mark.parametrize("version", ["00000001", "00000002 00000001"])
def test_marks_of_earlier_versions_are_read(tmp_path: Path, version: str) -> None:
    """Marks of these versions do not name a manifest."""
    path = tmp_path / "lastMark"
    data = bytes.fromhex(f"4d474d4b {version} 0000000000000002 0000000000000064 000000000000000a 0000000000000005")
    path.write_bytes(data + crc32c(data).to_bytes(4))
    assert LastMarkFile(str(path)).load() == mark(2, 100)._replace(manifest=None, next_log_id=0)


async def test_an_older_index_in_the_place_of_the_newer_one_is_refused(tmp_path: Path) -> None:
    """RocksDB would believe an older manifest, and take what its log holds behind it for what comes next."""
    index = tmp_path / "bookie" / "ledgers" / "index"
    async with running(tmp_path / "bookie") as bookie:
        await add(bookie, 1, range(5))
        await bookie.checkpoint()
        (older,) = [path.read_bytes() for path in index.glob("MANIFEST-*")]
    async with running(tmp_path / "bookie"):
        (manifest,) = index.glob("MANIFEST-*")
        newer = manifest.read_bytes()
        shutil.copytree(tmp_path / "bookie", tmp_path / "copy")
    copied = tmp_path / "copy" / "ledgers" / "index" / manifest.name
    for wrong in (older, newer[:-1], newer[:30] + b"x" + newer[31:]):
        copied.write_bytes(wrong)
        with pytest.raises(IndexDamaged, match=r"ledgers/index"):
            await open_bookie(tmp_path / "copy")
    copied.write_bytes(newer)
    async with running(tmp_path / "copy") as bookie:
        assert await read_all(bookie, 1, 0, 4) == entries_of(1, range(5))


def test_a_damaged_mark_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lastMark"
    LastMarkFile(str(path)).save(mark(2, 100))
    flip_byte(path, 20)
    with pytest.raises(MarkDamaged, match="lastMark"):
        LastMarkFile(str(path)).load()


async def test_a_checkpoint_empties_the_cache_and_bounds_the_replay(tmp_path: Path) -> None:
    async with running(tmp_path, journal_max_size_mb=0.01) as bookie:
        for number in range(30):
            await add(bookie, 1, range(number, number + 1), size=1000)
        assert len(list_journals(str(tmp_path / "journal"))) > 1
        await bookie.checkpoint()
        assert bookie.stats().write_cache_bytes == 0
        assert len(list_journals(str(tmp_path / "journal"))) == 1
        assert await read_all(bookie, 1, 0, 29) == entries_of(1, range(30), 1000)
        assert bookie.stats().read_cache_misses > 0


async def test_a_full_half_starts_a_checkpoint_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path, db_storage_write_cache_max_size_mb=0.1) as bookie:
        for number in range(0, 300, 10):
            assert await add(bookie, 1, range(number, number + 10), size=1000) == 0
        assert bookie.stats().checkpoints > 2
        assert bookie.stats().write_cache_bytes <= 0.1 * (1 << 20)
        assert await read_all(bookie, 1, 0, 299) == entries_of(1, range(300), 1000)


async def test_dirty_data_is_flushed_within_the_interval(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, flush_interval=50, open_file=faults.open) as bookie:
        await add(bookie, 1, range(5))
        assert await asyncio.to_thread(faults.log_synced.wait, 60)


async def test_a_record_without_entries_is_flushed_within_the_interval_too(tmp_path: Path) -> None:
    async with running(tmp_path, flush_interval=50) as bookie:
        await bookie.checkpoint()
        before = bookie.stats().checkpoints
        await bookie.write_explicit_lac(1, KEY, bytes(EXPLICIT_LAC_BYTES_MAX))
        await until(lambda: bookie.stats().checkpoints > before)


async def test_entries_are_readable_while_they_are_flushed(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open) as bookie:
        await add(bookie, 1, range(50))
        faults.gate.clear()
        flush = asyncio.ensure_future(bookie.checkpoint())
        await asyncio.sleep(0)
        later = start_add(bookie, 1, range(50, 60), entries_of(1, range(50, 60)))
        assert await read_all(bookie, 1, 0, 59) == entries_of(1, range(60))
        assert await bookie.read_entry(1, -1) == entries_of(1, [59])[0]
        faults.gate.set()
        await flush
        assert await later == 0
        assert await read_all(bookie, 1, 0, 59) == entries_of(1, range(60))


async def test_a_checkpoint_without_room_keeps_the_entries_and_is_tried_again(tmp_path: Path) -> None:
    faults = Faults()
    faults.only_path_ending = ".log"
    async with running(tmp_path, open_file=faults.open, disk_check_interval=20) as bookie:
        await add(bookie, 1, range(50))
        faults.write_error = NO_SPACE
        with pytest.raises(OSError, match="No space"):
            await bookie.checkpoint()
        assert bookie.mode is BookieMode.READ_ONLY
        assert await read_all(bookie, 1, 0, 49) == entries_of(1, range(50))
        faults.write_error = None
        await writable(bookie)
        assert bookie.stats().write_cache_bytes == 0
        assert await read_all(bookie, 1, 0, 49) == entries_of(1, range(50))
        assert len(files_of(tmp_path, ".log")) == 1


async def test_a_checkpoint_after_a_failed_one_flushes_what_came_since_too(tmp_path: Path) -> None:
    faults = Faults()
    faults.only_path_ending = ".log"
    async with running(tmp_path, open_file=faults.open, disk_check_interval=100_000) as bookie:
        faults.write_error = NO_SPACE
        await add(bookie, 1, range(50))
        first = asyncio.ensure_future(bookie.checkpoint())
        await asyncio.sleep(0)
        assert await add(bookie, 1, range(50, 60)) == 0
        with pytest.raises(OSError, match="No space"):
            await first
        faults.write_error = None
        await bookie.checkpoint()
        assert bookie.stats().write_cache_bytes == 0
        assert await read_all(bookie, 1, 0, 59) == entries_of(1, range(60))


async def test_after_a_failed_sync_of_a_log_the_journal_still_has_everything(tmp_path: Path) -> None:
    faults = Faults()
    faults.only_path_ending = ".log"
    bookie = await open_bookie(tmp_path, open_file=faults.open)
    await add(bookie, 1, range(50))
    faults.sync_error = IO_ERROR
    with pytest.raises(OSError, match="Input/output"):
        await bookie.checkpoint()
    assert bookie.mode is BookieMode.FAILED
    assert await add(bookie, 1, range(50, 51)) == 101
    assert await read_all(bookie, 1, 0, 49) == entries_of(1, range(50))
    await bookie.close()
    async with running(tmp_path) as again:
        assert await read_all(again, 1, 0, 49) == entries_of(1, range(50))


@pytest.mark.parametrize("kind", [0, 5, 6, 7, 8, 200])
async def test_bytes_behind_the_end_of_the_manifest_are_refused_and_a_torn_record_is_not(
    tmp_path: Path, kind: int
) -> None:
    """Some of these bytes made RocksDB's open run for ever."""
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(5))
    (manifest,) = (tmp_path / "ledgers" / "index").glob("MANIFEST-*")
    sound = manifest.read_bytes()
    manifest.write_bytes(sound + b"\x17\x2a\x00\x99\x01\x01" + bytes([kind]) + b"x" * 190)
    with pytest.raises(IndexDamaged, match=rf"{manifest.name} begins at offset {len(sound)}"):
        await open_bookie(tmp_path)
    manifest.write_bytes(sound + b"\x17\x2a\x00\x99\x01\x01\x01" + b"x" * 190)
    async with running(tmp_path) as bookie:
        assert await read_all(bookie, 1, 0, 4) == entries_of(1, range(5))
