"""Adds that do not fit into the write cache wait, in order and up to a bound, and are refused after the throttle
time."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from magnetar.storage.bookie.entry_log_reader import EntryLogReader
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc, ReadFlags
from tests.storage.bookie.faults import IO_ERROR, NO_SPACE, Faults
from tests.storage.bookie.helpers import KEY, add, entries_of, read_all, running, start_add

SMALL_CACHE: dict[str, Any] = {"db_storage_write_cache_max_size_mb": 0.04}


def groups(count: int) -> list[range]:
    return [range(10 * number, 10 * number + 10) for number in range(count)]


async def test_a_full_cache_delays_the_answers_and_fails_nothing(tmp_path: Path) -> None:
    async with running(tmp_path, **SMALL_CACHE) as bookie:
        pending = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(60)]
        assert bookie.stats().waiting_adds_bytes > 0
        assert await asyncio.gather(*pending) == [0] * 60
        assert bookie.stats().checkpoints > 10
        assert await read_all(bookie, 1, 0, 599) == entries_of(1, range(600), 1000)
        assert bookie.stats().waiting_adds_bytes == bookie.stats().journal_queue_bytes == 0


async def test_answers_keep_their_order(tmp_path: Path) -> None:
    async with running(tmp_path, **SMALL_CACHE) as bookie:
        order: list[int] = []
        pending = []
        for ids in groups(40):
            future = start_add(bookie, 1, ids, entries_of(1, ids, 1000))
            future.add_done_callback(lambda _, first=ids[0]: order.append(first))  # type: ignore[misc]
            pending.append(future)
        await asyncio.gather(*pending)
        assert order == [ids[0] for ids in groups(40)]


async def test_a_group_that_waits_too_long_is_refused(tmp_path: Path) -> None:
    faults = Faults()
    faults.only_path_ending = ".log"
    async with running(
        tmp_path, open_file=faults.open, db_storage_max_throttle_time_ms=50, gc_wait_time=100_000, **SMALL_CACHE
    ) as bookie:
        faults.gate.clear()  # neither the journal nor the entry log can sync now
        pending = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(12)]
        async with asyncio.timeout(60):
            assert await pending[-1] == BookieRc.ETOOMANYREQUESTS
        faults.gate.set()
        answers = await asyncio.gather(*pending)
        assert answers == sorted(answers)
        assert answers[0] == BookieRc.EOK
        assert bookie.stats().waiting_adds_bytes == 0
        assert await add(bookie, 1, range(500, 501)) == BookieRc.EOK


async def test_each_group_that_waits_has_a_deadline_of_its_own(tmp_path: Path) -> None:
    faults = Faults()
    faults.only_path_ending = ".log"
    async with running(
        tmp_path, open_file=faults.open, db_storage_max_throttle_time_ms=50, gc_wait_time=100_000, **SMALL_CACHE
    ) as bookie:
        faults.gate.clear()
        first = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(10)]
        loop = asyncio.get_running_loop()
        later = loop.create_future()
        loop.call_later(0.03, lambda: later.set_result(start_add(bookie, 2, range(5), entries_of(2, range(5), 1000))))
        async with asyncio.timeout(60):
            assert await first[-1] == BookieRc.ETOOMANYREQUESTS
            assert await (await later) == BookieRc.ETOOMANYREQUESTS
        faults.gate.set()
        await asyncio.gather(*first)


async def test_the_waiting_room_is_bounded(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open, waiting_adds_max_mb=0.02, **SMALL_CACHE) as bookie:
        faults.gate.clear()
        pending = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(12)]
        assert await pending[-1] == BookieRc.ETOOMANYREQUESTS
        assert bookie.stats().waiting_adds_bytes <= 0.02 * (1 << 20)
        faults.gate.set()
        await asyncio.gather(*pending)


async def test_the_journals_queue_is_bounded(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open, journal_queue_max_mb=0.02) as bookie:
        faults.gate.clear()
        pending = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(12)]
        assert bookie.stats().journal_queue_bytes <= 0.02 * (1 << 20)
        faults.gate.set()
        assert await asyncio.gather(*pending) == [0] * 12


async def test_a_fence_is_not_passed_by_adds_that_waited(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open, journal_queue_max_mb=0.02) as bookie:
        faults.gate.clear()
        pending = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(6)]
        fence = asyncio.ensure_future(bookie.read_entry(1, -1, ReadFlags.FENCING, KEY))
        await asyncio.sleep(0)
        faults.gate.set()
        last = int.from_bytes((await fence)[8:16], "big")
        answers = await asyncio.gather(*pending)
        assert set(answers) == {BookieRc.EOK, BookieRc.EFENCED}
        assert last == 10 * answers.count(BookieRc.EOK) - 1


async def test_adds_that_wait_are_refused_when_the_bookie_fails(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open, journal_queue_max_mb=0.02) as bookie:
        faults.gate.clear()
        pending = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(6)]
        faults.sync_error = IO_ERROR
        faults.gate.set()
        assert await asyncio.gather(*pending) == [BookieRc.EIO] * 6


async def test_adds_that_wait_are_refused_when_the_disk_is_full(tmp_path: Path) -> None:
    faults = Faults()
    async with running(tmp_path, open_file=faults.open, journal_queue_max_mb=0.02) as bookie:
        faults.gate.clear()
        pending = [start_add(bookie, 1, ids, entries_of(1, ids, 1000)) for ids in groups(6)]
        faults.write_error = NO_SPACE
        faults.gate.set()
        answers = await asyncio.gather(*pending)
        assert answers[-1] == BookieRc.EREADONLY
        assert bookie.stats().waiting_adds_bytes == bookie.stats().journal_queue_bytes == 0
        faults.write_error = None


class HeldReads:
    """Makes reads of the disk wait until `go` is set. `order` is the order in which they are then made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.order: list[int] = []
        real = EntryLogReader.read

        def read(reader: EntryLogReader, ledger_id: int, first_entry_id: int, span_bytes: int) -> list[bytes]:
            assert self.go.wait(60)
            self.order.append(first_entry_id)
            return real(reader, ledger_id, first_entry_id, span_bytes)

        monkeypatch.setattr(EntryLogReader, "read", read)


async def test_reads_beyond_the_limit_wait_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_by_one: dict[str, Any] = {"max_pending_read_requests": 1, "num_read_worker_threads": 1}
    async with running(tmp_path, **one_by_one) as bookie:
        assert await add(bookie, 1, range(8), size=70_000) == BookieRc.EOK  # one block for each
        await bookie.checkpoint()
        held = HeldReads(monkeypatch)
        reads = [asyncio.ensure_future(bookie.read_entry(1, i)) for i in range(8)]
        await asyncio.sleep(0)
        held.go.set()
        assert await asyncio.gather(*reads) == entries_of(1, range(8), 70_000)
        assert held.order == list(range(8))


async def test_a_read_that_waits_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: dict[str, Any] = {"max_pending_read_requests": 1, "db_storage_max_throttle_time_ms": 50}
    async with running(tmp_path, **settings) as bookie:
        assert await add(bookie, 1, range(30)) == BookieRc.EOK
        await bookie.checkpoint()
        held = HeldReads(monkeypatch)
        first = asyncio.ensure_future(bookie.read_entry(1, 0))
        others = [asyncio.ensure_future(bookie.read_entry(1, i)) for i in range(1, 15)]
        refusals = await asyncio.gather(*others, return_exceptions=True)
        assert {error.rc for error in refusals if isinstance(error, BookieError)} == {BookieRc.ETOOMANYREQUESTS}
        held.go.set()
        assert await first == entries_of(1, [0])[0]
        assert await bookie.read_entry(1, 20) == entries_of(1, [20])[0]


async def test_reads_that_wait_end_with_the_bookie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path, max_pending_read_requests=1) as bookie:
        assert await add(bookie, 1, range(30)) == BookieRc.EOK
        await bookie.checkpoint()
        held = HeldReads(monkeypatch)
        reads = [asyncio.ensure_future(bookie.read_entry(1, i)) for i in range(5)]
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(bookie.close())
        await asyncio.sleep(0)
        held.go.set()
        await closing
        answers = await asyncio.gather(*reads, return_exceptions=True)
    assert answers[0] == entries_of(1, [0])[0]
    assert all(answer == entries_of(1, [i])[0] or is_closed(answer) for i, answer in enumerate(answers))


def is_closed(answer: object) -> bool:
    return isinstance(answer, BookieError) and answer.rc is BookieRc.EIO
