"""The space of deleted ledgers is freed, and compaction keeps every entry of the others."""

import asyncio
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_errors import EntryLogDamaged
from magnetar.storage.bookie.garbage_collector import LogUsage, logs_to_compact
from tests.storage.bookie.helpers import (
    Ledgers,
    add,
    config_in,
    entries_of,
    entry_of,
    files_of,
    flip_byte,
    open_bookie,
    read_all,
    running,
    start_add,
)
from tests.waiting import until


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in files_of(folder, ".log"))


async def fill(bookie: Bookie, ledgers: range, count: int = 40, size: int = 1000) -> None:
    """Makes one flush with entries of every ledger, so that the ledgers are mixed in the logs."""
    for ledger in ledgers:
        await add(bookie, ledger, range(count), size=size)
    await bookie.checkpoint()


async def test_deleting_all_ledgers_of_a_log_gives_its_space_back(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers, log_size_limit=100_000) as bookie:
        for first in (0, 10, 20):
            await fill(bookie, range(first, first + 10))
        before = disk_bytes(tmp_path)
        ledgers.ids -= set(range(20))
        await bookie.collect_garbage(0)
        assert disk_bytes(tmp_path) < before / 2
        assert bookie.stats().reclaimed_bytes == before - disk_bytes(tmp_path)
        for ledger in range(20, 30):
            assert await read_all(bookie, ledger, 0, 39) == entries_of(ledger, range(40), 1000)


async def test_the_collector_runs_by_itself_again_and_again(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers, log_size_limit=100_000, gc_wait_time=20) as bookie:
        for first in (0, 10, 20):
            await fill(bookie, range(first, first + 10))
            before = bookie.stats().reclaimed_bytes
            ledgers.ids -= set(range(first, first + 10))
            await until(lambda: bookie.stats().reclaimed_bytes > before)  # noqa: B023


async def test_ledgers_that_are_kept_survive_collections_and_restarts_though_nothing_lists_them(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers) as bookie:
        await fill(bookie, range(6))
        await add(bookie, 6, range(10))
    recovered = await Bookie.read(config_in(tmp_path), bookie_id="bookie-1", instance_id="i")
    recovered.states.keep([1, 6])
    bookie = await Bookie.start(config_in(tmp_path), recovered, list_ledgers=ledgers)
    ledgers.ids.clear()
    await bookie.checkpoint()
    await bookie.close()
    for _ in range(2):
        async with running(tmp_path, ledgers) as bookie:
            await bookie.collect_garbage(1)
            assert bookie.ledger_ids() == bookie.kept_ledgers() == {1, 6}
            assert await read_all(bookie, 1, 0, 39) == entries_of(1, range(40), 1000)
            assert len(await read_all(bookie, 6, 0, 9)) == 10


async def test_the_last_deleted_ledger_frees_the_log_that_is_still_open(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers) as bookie:
        await fill(bookie, range(3))
        ledgers.ids.clear()
        await bookie.collect_garbage()
        assert files_of(tmp_path, ".log") == []
        assert bookie.stats().ledgers == 0
        await add(bookie, 50, range(5))
        await bookie.checkpoint()
        assert await read_all(bookie, 50, 0, 4) == entries_of(50, range(5))


async def test_the_log_that_is_still_open_is_compacted_when_little_of_it_lives(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers) as bookie:
        await fill(bookie, range(10), count=10, size=60_000)
        ledgers.ids -= set(range(9))
        await bookie.collect_garbage(0.2)
        assert disk_bytes(tmp_path) < 800_000
        assert await read_all(bookie, 9, 0, 9) == entries_of(9, range(10), 60_000)


async def test_a_ledger_that_is_only_in_the_cache_is_deleted_too(tmp_path: Path) -> None:
    ledgers = Ledgers()
    bookie = await open_bookie(tmp_path, ledgers)
    await add(bookie, 1, range(5))
    await add(bookie, 2, range(5))
    ledgers.ids.discard(1)
    await bookie.collect_garbage()
    await bookie.checkpoint()
    await bookie.close()
    async with running(tmp_path, ledgers) as again:
        assert again.stats().ledgers == 1
        assert await read_all(again, 2, 0, 4) == entries_of(2, range(5))


async def test_compaction_keeps_every_live_entry_and_gives_space_back(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers, log_size_limit=200_000, entry_block_kb=4) as bookie:
        for first in (0, 10, 20):
            await fill(bookie, range(first, first + 10))
        again = entry_of(7, 20, b"written again")
        await start_add(bookie, 7, [20], [again])
        await bookie.checkpoint()
        before = disk_bytes(tmp_path)
        ledgers.ids -= {ledger for ledger in range(30) if ledger % 5 != 2}
        await bookie.collect_garbage(0.8)
        assert disk_bytes(tmp_path) < before * 0.5
        assert bookie.stats().compacted_bytes > 0
        for ledger in range(2, 30, 5):
            expected = entries_of(ledger, range(40), 1000)
            if ledger == 7:
                expected[20] = again
            assert await read_all(bookie, ledger, 0, 39) == expected
    async with running(tmp_path, ledgers) as bookie:
        assert await bookie.read_entry(7, 20) == again
        assert await read_all(bookie, 12, 0, 39) == entries_of(12, range(40), 1000)


async def test_reads_go_on_while_logs_are_compacted(tmp_path: Path) -> None:
    ledgers = Ledgers()
    settings = {"log_size_limit": 100_000, "entry_block_kb": 2, "db_storage_read_ahead_cache_max_size_mb": 0.001}
    async with running(tmp_path, ledgers, **settings) as bookie:
        for first in (0, 10):
            await fill(bookie, range(first, first + 10))
        ledgers.ids -= {ledger for ledger in range(20) if ledger % 4}
        compaction = asyncio.ensure_future(bookie.collect_garbage(0.9))
        choose = random.Random(1)
        while not compaction.done():
            ledger, entry = choose.randrange(0, 20, 4), choose.randrange(40)
            assert await bookie.read_entry(ledger, entry) == entries_of(ledger, [entry], 1000)[0]
        await compaction


async def test_a_log_closed_by_a_kill_is_judged_by_its_blocks(tmp_path: Path) -> None:
    ledgers = Ledgers()
    bookie = await open_bookie(tmp_path, ledgers)
    await fill(bookie, range(10))
    bookie._opened.writer.close_log = lambda: None  # type: ignore[method-assign]  # no footer, as after a kill
    await bookie.close()
    async with running(tmp_path, ledgers) as again:
        before = disk_bytes(tmp_path)
        ledgers.ids -= set(range(9))
        await again.collect_garbage(0.8)
        assert disk_bytes(tmp_path) < before / 5
        assert await read_all(again, 9, 0, 39) == entries_of(9, range(40), 1000)


async def test_a_damaged_log_is_kept_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers) as bookie:
        await fill(bookie, range(10))
    log = files_of(tmp_path, ".log")[0]
    flip_byte(log, 30_000)
    async with running(tmp_path, ledgers) as bookie:
        ledgers.ids -= set(range(9))
        await bookie.collect_garbage(0.8)
        assert log.exists()
        await bookie.collect_garbage(0.8)
    assert str(log) in caplog.text


async def test_a_damaged_block_header_costs_no_live_entry(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers, entry_block_kb=4) as bookie:
        await fill(bookie, range(10))
    log = files_of(tmp_path, ".log")[0]
    data = log.read_bytes()
    flip_byte(log, data.index(b"MGEB", 5000))
    async with running(tmp_path, ledgers) as bookie:
        ledgers.ids -= set(range(9))
        await bookie.collect_garbage(0.8)
        assert await read_all(bookie, 9, 0, 39) == entries_of(9, range(40), 1000)


async def test_when_the_ledgers_cannot_be_listed_nothing_is_deleted(tmp_path: Path) -> None:
    async def fails() -> set[int]:
        raise ConnectionError("metadata is away")

    async with running(tmp_path, fails) as bookie:  # type: ignore[arg-type]
        await fill(bookie, range(3))
        with pytest.raises(ConnectionError):
            await bookie.collect_garbage()
        assert await read_all(bookie, 2, 0, 39) == entries_of(2, range(40), 1000)


async def test_a_ledger_created_while_the_metadata_is_listed_survives(tmp_path: Path) -> None:
    listing, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> set[int]:
        listing.set()
        await go_on.wait()
        return {1}

    async with running(tmp_path, slow) as bookie:  # type: ignore[arg-type]
        await add(bookie, 1, range(5))
        collection = asyncio.ensure_future(bookie.collect_garbage())
        await listing.wait()
        await add(bookie, 2, range(5))
        go_on.set()
        await collection
        assert await read_all(bookie, 2, 0, 4) == entries_of(2, range(5))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 100))), st.floats(0, 1))
def test_logs_below_the_threshold_are_chosen_the_emptiest_first(sizes: list[tuple[int, int]], threshold: float) -> None:
    usages = [LogUsage(number, min(live, total), total) for number, (live, total) in enumerate(sizes)]
    chosen = logs_to_compact(usages, threshold)
    shares = [usage.live_bytes / usage.total_bytes for usage in chosen]
    assert shares == sorted(shares)
    assert all(0 < share < threshold for share in shares)
    assert len(chosen) == sum(0 < usage.live_bytes < threshold * usage.total_bytes for usage in usages)


async def test_a_checkpoint_that_waits_for_room_keeps_its_log_from_the_collector(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await fill(bookie, range(3))
        bookie._opened.writer.close_log()
        bookie._opened.writer.unindexed.add(1)
        assert bookie._collector.delete_dead_logs() == []
        assert bookie._collector.compact_step(1, 32) == 32


async def test_compaction_gives_up_a_log_that_it_cannot_read(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await fill(bookie, range(3))
        bookie._opened.writer.close_log()
        flip_byte(files_of(tmp_path, ".log")[0], 5000)
        assert [usage.log_id for usage in bookie._collector.delete_dead_logs()] == [1]
        with pytest.raises(EntryLogDamaged):
            bookie._collector.compact_step(1, 32)
        assert bookie._collector.delete_dead_logs() == []
