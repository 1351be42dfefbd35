"""A bookie on a disk that is really full."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat_tests.small_disk import SmallDisk, small_disk
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.disks import BookieMode
from magnetar.storage.bookie.reserve import FILE_NAME
from pulsar_proto.wire.bookie_wire import AddFlags, BookieRc
from tests.storage.bookie.helpers import add, entries_of, read_all, running, start_add, writable
from tests.waiting import until

pytestmark = pytest.mark.process

SETTINGS: dict[str, Any] = {
    "disk_check_interval": 50,
    "min_usable_size_for_writes_mb": 2,
    "disk_usage_threshold": 1.0,
    "disk_usage_lwm_threshold": 1.0,
    "min_usable_size_for_high_priority_writes": 64 << 20,
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, 24) as made:
        yield made


async def add_until_refused(bookie: Bookie) -> tuple[int, BookieRc]:
    """Adds entries until one is refused. Returns how many were acknowledged, and the code of the refusal."""
    for number in range(0, 100_000, 10):
        ids = range(number, number + 10)
        rc = await start_add(bookie, 1, ids, entries_of(1, ids, 5000))
        if rc:
            return number, BookieRc(rc)
    raise AssertionError("the disk never became full")


async def test_a_full_journal_disk_refuses_adds_serves_reads_and_recovers(disk: SmallDisk) -> None:
    modes: list[BookieMode] = []
    async with running(disk.folder, **SETTINGS) as bookie:
        bookie.on_mode_change(modes.append)
        disk.fill(leave_bytes=2 << 20)
        count, rc = await add_until_refused(bookie)
        assert rc == BookieRc.EIO
        assert count > 100
        assert await add(bookie, 1, range(count, count + 1)) == BookieRc.EREADONLY
        assert await add(bookie, 1, range(count, count + 1), flags=AddFlags.HIGH_PRIORITY) == BookieRc.EREADONLY
        assert modes == [BookieMode.READ_ONLY]
        assert await read_all(bookie, 1, 0, count - 1) == entries_of(1, range(count), 5000)
        disk.empty()
        await writable(bookie)
        assert modes == [BookieMode.READ_ONLY, BookieMode.WRITABLE]
        assert await add(bookie, 1, range(count, count + 10), size=5000) == BookieRc.EOK
    async with running(disk.folder, **SETTINGS) as bookie:
        assert await read_all(bookie, 1, 0, count + 9) == entries_of(1, range(count + 10), 5000)


async def test_a_start_on_a_full_disk_serves_reads_and_takes_writes_when_there_is_room(disk: SmallDisk) -> None:
    async with running(disk.folder, **SETTINGS) as bookie:
        await add(bookie, 1, range(300), size=5000)
    disk.fill()
    for _ in range(5):
        async with running(disk.folder, **SETTINGS) as bookie:
            assert bookie.mode is BookieMode.READ_ONLY
            assert "reserve" in (bookie.hindrance or "")
            assert await add(bookie, 1, range(300, 301)) == BookieRc.EREADONLY
            assert await read_all(bookie, 1, 0, 299) == entries_of(1, range(300), 5000)
    async with running(disk.folder, **SETTINGS) as bookie:
        disk.empty()
        await writable(bookie)
        assert await add(bookie, 1, range(300, 310), size=5000) == BookieRc.EOK
    disk.fill()
    async with running(disk.folder, **SETTINGS) as bookie:
        assert not bookie.is_writable
        assert await read_all(bookie, 1, 0, 309) == entries_of(1, range(310), 5000)


async def test_recovery_gets_the_room_of_the_reserve_and_writers_do_not(disk: SmallDisk) -> None:
    recovery = AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY
    async with running(disk.folder, **{**SETTINGS, "min_usable_size_for_high_priority_writes": 1 << 20}) as bookie:
        await add(bookie, 1, range(10), size=5000)
        await until(lambda: (disk.folder / "journal" / FILE_NAME).exists())
        disk.fill()
        await until(lambda: bookie.mode is BookieMode.READ_ONLY)
        assert await add(bookie, 1, range(10, 11)) == BookieRc.EREADONLY
        assert not bookie.takes_high_priority_writes
        assert await add(bookie, 1, range(9, 10), flags=recovery) == BookieRc.EREADONLY
        await until(lambda: bookie.takes_high_priority_writes)
        assert await add(bookie, 1, range(9, 10), size=5000, flags=recovery) == BookieRc.EOK
        assert await add(bookie, 1, range(10, 11)) == BookieRc.EREADONLY
        assert await read_all(bookie, 1, 0, 9) == entries_of(1, range(10), 5000)
        disk.empty()
        await writable(bookie)
        assert (disk.folder / "journal" / FILE_NAME).stat().st_size > 0


async def test_a_reserve_that_is_not_enough_for_recovery_is_kept(disk: SmallDisk) -> None:
    async with running(disk.folder, **SETTINGS) as bookie:
        await add(bookie, 1, range(10))
        disk.fill()
        await until(lambda: bookie.mode is BookieMode.READ_ONLY)
        assert await add(bookie, 1, range(9, 10), flags=AddFlags.HIGH_PRIORITY) == BookieRc.EREADONLY
        await bookie.maintenance.check_disks()
        assert bookie.maintenance.usage is not None
        assert bookie.maintenance.usage.reserve_is_whole


async def test_a_checkpoint_without_room_waits_for_it(disk: SmallDisk) -> None:
    async with running(disk.folder, **SETTINGS) as bookie:
        await add(bookie, 1, range(300), size=5000)
        disk.fill()
        with pytest.raises(Exception, match="No space left"):
            await bookie.checkpoint()
        assert not bookie.is_writable
        assert await read_all(bookie, 1, 0, 299) == entries_of(1, range(300), 5000)
        disk.empty()
        await writable(bookie)
        assert bookie.stats().write_cache_bytes == 0
        assert await read_all(bookie, 1, 0, 299) == entries_of(1, range(300), 5000)


async def test_an_index_without_room_is_opened_anew_when_there_is_some(disk: SmallDisk) -> None:
    async with running(disk.folder, **SETTINGS) as bookie:
        await add(bookie, 5000, range(10))
        await bookie.checkpoint()
        answers = [start_add(bookie, ledger, range(2), entries_of(ledger, range(2))) for ledger in range(4000)]
        await asyncio.gather(*answers)
        finish = bookie._opened.writer.finish

        def finish_and_fill() -> None:
            finish()
            disk.fill()

        bookie._opened.writer.finish = finish_and_fill  # type: ignore[method-assign]
        with pytest.raises(Exception, match="No space left"):
            await bookie.checkpoint()
        bookie._opened.writer.finish = finish  # type: ignore[method-assign]
        assert await bookie.read_entry(5000, 3) == entries_of(5000, [3])[0]
        assert await read_all(bookie, 77, 0, 1) == entries_of(77, range(2))
        disk.empty()
        await writable(bookie)
        assert bookie.stats().write_cache_bytes == 0
        for ledger in (0, 77, 3999):
            assert await read_all(bookie, ledger, 0, 1) == entries_of(ledger, range(2))
    async with running(disk.folder, **SETTINGS) as bookie:
        for ledger in range(4000):
            assert await read_all(bookie, ledger, 0, 1) == entries_of(ledger, range(2))


async def test_over_the_usage_threshold_it_turns_read_only_before_the_disk_is_full(disk: SmallDisk) -> None:
    settings = SETTINGS | {"disk_usage_threshold": 0.5, "disk_usage_lwm_threshold": 0.4}
    async with running(disk.folder, **settings) as bookie:
        await add(bookie, 1, range(10))
        changed = asyncio.Event()
        bookie.on_mode_change(lambda _: changed.set())
        disk.fill(leave_bytes=8 << 20)
        async with asyncio.timeout(60):
            await changed.wait()
        assert await add(bookie, 1, range(10, 20)) == BookieRc.EREADONLY
        disk.empty()
        await writable(bookie)
        assert await add(bookie, 1, range(10, 20)) == BookieRc.EOK
