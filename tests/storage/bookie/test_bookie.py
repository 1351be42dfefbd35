"""A whole bookie, used through its channel: adds, reads, fences, restarts."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Sequence
from pathlib import Path

import pytest

from magnetar.storage.bookie.disks import BookieMode
from magnetar.storage.ledger.bookie_channel import BookieChannel
from pulsar_proto.wire.bookie_wire import AddFlags, BookieError, BookieRc, ReadFlags
from tests.storage.bookie.faults import IO_ERROR, NO_SPACE, Faults
from tests.storage.bookie.helpers import (
    KEY,
    Ledgers,
    add,
    entries_of,
    entry_of,
    open_bookie,
    read_all,
    running,
    start_add,
    writable,
)

RECOVERY = AddFlags.RECOVERY_ADD | AddFlags.HIGH_PRIORITY


async def rc_of(read: Awaitable[object]) -> BookieRc:
    with pytest.raises(BookieError) as caught:
        await read
    return caught.value.rc


async def test_entries_read_back_one_by_one_and_as_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        assert await add(bookie, 1, range(100), size=50) == BookieRc.EOK
        expected = entries_of(1, range(100), 50)
        channel: BookieChannel = bookie
        for flushed in (False, True):
            if flushed:
                await bookie.checkpoint()
            assert await channel.read_entry(1, 42) == expected[42]
            assert await channel.read_entry(1, -1) == expected[99]
            assert await read_all(bookie, 1, 0, 99) == expected
            assert await bookie.read_entries(1, 10, 5, 1 << 20) == expected[10:15]
            assert await bookie.read_entries(1, 10, 50, 86 * 3) == expected[10:13]
            assert await bookie.read_entries(1, 10, 50, 1) == expected[10:11]


async def test_done_is_called_once_on_the_loop_and_never_from_inside(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        calls: list[tuple[Sequence[int], int]] = []
        over = asyncio.Event()

        def done(ids: Sequence[int], rc: int) -> None:
            calls.append((ids, rc))
            asyncio.get_running_loop()
            if len(calls) == 3:
                over.set()

        bookie.add_entries(1, KEY, range(3), entries_of(1, range(3)), 0, done)
        bookie.add_entries(1, b"other", range(3), entries_of(1, range(3)), 0, done)
        bookie.add_entries(1, KEY, range(3, 5), entries_of(1, range(3, 5)), 0, done)
        assert calls == []
        await over.wait()
        assert [call for call in calls if call[1] == BookieRc.EOK] == [(range(3), 0), (range(3, 5), 0)]
        assert [rc for _, rc in calls if rc] == [BookieRc.EUA]


async def test_a_callback_that_raises_does_not_cost_the_others_their_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as bookie:

        def broken(ids: Sequence[int], rc: int) -> None:
            raise RuntimeError("broken callback")

        bookie.add_entries(1, KEY, range(1), entries_of(1, range(1)), 0, broken)
        assert await add(bookie, 1, range(1, 2)) == BookieRc.EOK
    assert "broken callback" in caplog.text


@pytest.mark.parametrize(
    ("ledger_id", "ids", "entries"),
    [
        (1, range(0), []),
        (1, range(1), [b"short"]),
        (1, range(1), [entry_of(1, 0)[:16]]),
        (1, range(2), [entry_of(1, 0)]),
        (1, range(1), [entry_of(2, 0)]),
        (1, range(1), [entry_of(1, 5)]),
        (1, range(2), [entry_of(1, 0), entry_of(1, 5)]),
        (-1, range(1), [entry_of(-1, 0)]),
    ],
)
async def test_a_malformed_add_is_refused(tmp_path: Path, ledger_id: int, ids: range, entries: list[bytes]) -> None:
    async with running(tmp_path) as bookie:
        assert await start_add(bookie, ledger_id, ids, entries) == BookieRc.EBADREQ


async def test_what_does_not_exist_is_answered_as_bookkeeper_does(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        assert await rc_of(bookie.read_entry(1, 0)) == BookieRc.ENOLEDGER
        assert await rc_of(bookie.read_entries(1, 0, 10, 1000)) == BookieRc.ENOLEDGER
        await add(bookie, 1, [0, 2])
        for _ in range(2):
            assert await rc_of(bookie.read_entry(1, 1)) == BookieRc.ENOENTRY
            assert await rc_of(bookie.read_entries(1, 3, 10, 1000)) == BookieRc.ENOENTRY
            await bookie.checkpoint()


async def test_only_the_first_master_key_writes(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(1))
        assert await add(bookie, 1, range(1, 2), key=b"wrong") == BookieRc.EUA
    async with running(tmp_path) as bookie:
        assert await add(bookie, 1, range(1, 2), key=b"wrong") == BookieRc.EUA
        assert await add(bookie, 1, range(1, 2)) == BookieRc.EOK


async def test_gaps_repeated_and_unordered_ids_read_as_last_written(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, [5, 3, 9], size=10)
        await bookie.checkpoint()
        assert await bookie.read_entries(1, 3, 10, 1000) == entries_of(1, [3], 10)
        again = entry_of(1, 5, b"again")
        assert await start_add(bookie, 1, [5, 4], [again, entry_of(1, 4, b"late")]) == BookieRc.EOK
        expected = [*entries_of(1, [3], 10), entry_of(1, 4, b"late"), again]
        for _ in range(2):
            assert await bookie.read_entry(1, 5) == again
            assert await bookie.read_entry(1, -1) == entries_of(1, [9], 10)[0]
            await bookie.checkpoint()
            assert await read_all(bookie, 1, 3, 5) == expected


async def test_an_entry_added_again_is_not_served_from_the_read_ahead(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(10), size=10)
        await bookie.checkpoint()
        assert await bookie.read_entry(1, 5) == entries_of(1, [5], 10)[0]
        assert bookie.stats().read_ahead_cache_bytes > 0
        again = entry_of(1, 7, b"again")
        await start_add(bookie, 1, [7], [again])
        await bookie.checkpoint()
        assert await bookie.read_entry(1, 7) == again
        assert (await read_all(bookie, 1, 0, 9))[7] == again


async def test_a_run_from_the_log_shows_newer_entries_of_the_cache(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(10), size=10)
        await bookie.checkpoint()
        again = entry_of(1, 7, b"again")
        await start_add(bookie, 1, [7], [again])
        assert (await bookie.read_entries(1, 4, 10, 1 << 20))[:4] == [*entries_of(1, [4, 5, 6], 10), again]


async def test_negative_entry_ids_are_stored(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, [-0x1000])
        await bookie.checkpoint()
        assert await bookie.read_entry(1, -0x1000) == entry_of(1, -0x1000)


async def test_a_fence_refuses_writers_but_not_recovery(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(5))
        assert await bookie.read_entry(1, -1, ReadFlags.FENCING, KEY) == entry_of(1, 4)
        assert await add(bookie, 1, range(5, 6)) == BookieRc.EFENCED
        assert await add(bookie, 1, range(5, 6), flags=RECOVERY) == BookieRc.EOK
        assert await bookie.read_entry(1, -1, ReadFlags.FENCING, KEY) == entry_of(1, 5)


async def test_a_fence_needs_the_key(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(5))
        assert await rc_of(bookie.read_entry(1, -1, ReadFlags.FENCING)) == BookieRc.EUA
        assert await rc_of(bookie.read_entry(1, -1, ReadFlags.FENCING, b"wrong")) == BookieRc.EUA
        assert await add(bookie, 1, range(5, 6)) == BookieRc.EOK


async def test_an_unknown_ledger_can_be_fenced_and_stays_so(tmp_path: Path) -> None:
    bookie = await open_bookie(tmp_path)
    assert await rc_of(bookie.read_entry(1, -1, ReadFlags.FENCING, KEY)) == BookieRc.ENOENTRY
    assert await add(bookie, 1, range(1)) == BookieRc.EFENCED
    await bookie.close()
    async with running(tmp_path) as again:
        assert await add(again, 1, range(1)) == BookieRc.EFENCED


async def test_every_fence_answer_waits_for_the_durable_record_also_an_error(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open) as bookie:
        faults.gate.clear()
        faults.at_gate.clear()
        reads = [asyncio.ensure_future(rc_of(bookie.read_entry(1, -1, ReadFlags.FENCING, KEY))) for _ in range(2)]
        syncs = faults.syncs
        assert await asyncio.to_thread(faults.at_gate.wait, 60)  # the record is written, but its sync is held back
        for _ in range(20):  # an answer that the journal's thread gave before the sync would arrive in these turns
            await asyncio.sleep(0)
        assert not any(read.done() for read in reads)
        faults.gate.set()
        assert await asyncio.gather(*reads) == [BookieRc.ENOENTRY] * 2
        assert faults.syncs == syncs + 1


async def test_a_fence_that_could_not_be_written_fails_and_is_tried_again(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open, disk_check_interval=20) as bookie:
        await add(bookie, 1, range(1))
        faults.write_error = NO_SPACE
        assert await rc_of(bookie.read_entry(1, -1, ReadFlags.FENCING, KEY)) == BookieRc.EIO
        faults.write_error = None
        assert await bookie.read_entry(1, -1, ReadFlags.FENCING, KEY) == entry_of(1, 0)


async def test_a_fenced_and_deleted_ledger_refuses_late_writers(tmp_path: Path) -> None:
    ledgers = Ledgers()
    async with running(tmp_path, ledgers) as bookie:
        await rc_of(bookie.read_entry(1, -1, ReadFlags.FENCING, KEY))
        ledgers.ids.discard(1)
        await bookie.collect_garbage()
        assert await rc_of(bookie.read_entry(1, 0)) == BookieRc.ENOLEDGER
        assert await add(bookie, 1, range(1)) == BookieRc.EFENCED


async def test_a_failed_sync_fails_all_adds_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    faults = Faults()
    modes: list[BookieMode] = []
    bookie = await open_bookie(tmp_path, open_file=faults.open)
    bookie.on_mode_change(modes.append)
    await add(bookie, 1, range(5))
    faults.sync_error = IO_ERROR
    with caplog.at_level(logging.ERROR):
        assert await add(bookie, 1, range(5, 10)) == BookieRc.EIO
    faults.sync_error = None
    assert await add(bookie, 1, range(10, 15)) == BookieRc.EIO
    assert (bookie.mode, modes, bookie.is_writable) == (BookieMode.FAILED, [BookieMode.FAILED], False)
    assert os.strerror(IO_ERROR) in (bookie.fault or "")
    assert await read_all(bookie, 1, 0, 4) == entries_of(1, range(5))
    assert "failed" in caplog.text
    await bookie.close()
    async with running(tmp_path) as again:
        assert (await read_all(again, 1, 0, 4)) == entries_of(1, range(5))


async def test_the_key_record_is_durable_before_any_entry_of_the_ledger(tmp_path: Path) -> None:
    faults = Faults()
    bookie = await open_bookie(tmp_path, open_file=faults.open, disk_check_interval=20)
    faults.write_error = NO_SPACE
    assert await add(bookie, 1, range(5)) == BookieRc.EIO
    faults.write_error = None
    await writable(bookie)
    assert await add(bookie, 1, range(5, 10)) == BookieRc.EOK
    faults.sync_error = IO_ERROR  # no checkpoint comes any more, so the next start has only the journal
    await bookie.close()
    async with running(tmp_path) as again:
        assert await read_all(again, 1, 5, 9) == entries_of(1, range(5, 10))
        assert await add(again, 1, range(20, 21), key=b"wrong") == BookieRc.EUA


async def test_closing_answers_everything_and_is_idempotent(tmp_path: Path) -> None:
    bookie = await open_bookie(tmp_path)
    pending = [start_add(bookie, 1, range(i, i + 1), entries_of(1, [i])) for i in range(50)]
    await asyncio.gather(bookie.close(), bookie.close())
    assert [future.result() for future in pending] == [0] * 50
    assert await add(bookie, 1, range(50, 51)) == BookieRc.EIO
    assert await rc_of(bookie.read_entry(1, 0)) == BookieRc.EIO
    async with running(tmp_path) as again:
        assert again.stats().write_cache_bytes == 0
        assert await read_all(again, 1, 0, 49) == entries_of(1, range(50))


async def test_an_index_that_lags_behind_the_mark_refuses_the_start(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(50))
    for path in (tmp_path / "ledgers" / "index").iterdir():
        path.unlink()
    with pytest.raises(Exception, match="lacks records"):
        await open_bookie(tmp_path)


async def test_lost_journals_and_mark_refuse_the_start(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        await add(bookie, 1, range(50))
    for path in [*(tmp_path / "journal").glob("*.journal"), tmp_path / "ledgers" / "lastMark"]:
        path.unlink()
    with pytest.raises(Exception, match="lastMark and all journals are missing"):
        await open_bookie(tmp_path)


async def test_several_ledgers_in_one_batch_of_the_journal(tmp_path: Path) -> None:
    async with running(tmp_path) as bookie:
        pending = [start_add(bookie, ledger, range(3), entries_of(ledger, range(3))) for ledger in range(40)]
        assert set(await asyncio.gather(*pending)) == {0}
        await bookie.checkpoint()
        for ledger in range(40):
            assert await read_all(bookie, ledger, 0, 2) == entries_of(ledger, range(3))


async def test_large_entries(tmp_path: Path) -> None:
    async with running(tmp_path, db_storage_write_cache_max_size_mb=1) as bookie:
        large = [entry_of(1, i, bytes([i]) * (5 << 20)) for i in range(3)]
        for number, entry in enumerate(large):
            assert await start_add(bookie, 1, [number], [entry]) == 0
        await bookie.checkpoint()
        assert [await bookie.read_entry(1, i) for i in range(3)] == large
        assert await bookie.read_entries(1, 1, 10, 1 << 20) == [large[1]]
