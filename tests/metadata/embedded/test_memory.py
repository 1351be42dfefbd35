"""The memory store passes the contract, and its sessions see each other."""

import asyncio

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import StoreOverloadedError, StoreWriteError
from magnetar.metadata.store import EventType
from tests.metadata.record_contract import RecordContract
from tests.metadata.recorder import Recorder
from tests.metadata.watch_contract import WatchContract


class TestMemoryStore(RecordContract, WatchContract):
    @pytest.fixture
    async def store(self) -> MemoryStore:
        return MemoryStore()


async def test_sessions_share_records_and_watches() -> None:
    first = MemoryStore()
    second = first.session()
    recorder = Recorder()
    second.watch("/a", recorder)
    await first.create("/a", b"v")
    record = await second.get("/a")
    assert record is not None
    assert record.value == b"v"
    await recorder.until((EventType.CREATED, "/a"))


async def test_a_closed_session_takes_its_ephemeral_records_and_watches_along() -> None:
    first = MemoryStore()
    second = first.session()
    for store, name in ((first, "one"), (second, "two")):
        await store.create(f"/brokers/{name}", ephemeral=True, make_parents=True)
    left, right = Recorder(), Recorder()
    first.watch("/brokers", left, recursive=True)
    second.watch("/brokers", right, recursive=True)
    await first.close()
    assert await second.children("/brokers") == ["two"]
    await right.until((EventType.DELETED, "/brokers/one"), (EventType.CHILDREN_CHANGED, "/brokers"))
    assert left.events == []


async def test_records_carry_the_clock_that_was_given() -> None:
    now_ms = 1000
    store = MemoryStore(clock_ms=lambda: now_ms)
    await store.create("/a")
    now_ms = 2500
    stat = await store.put("/a", b"")
    assert (stat.created_ms, stat.modified_ms) == (1000, 2500)


async def test_a_change_that_cannot_be_prepared_is_told_and_stops_no_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryStore()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async with asyncio.timeout(20):
        with monkeypatch.context() as patch:
            patch.setattr(store, "_persist", broken)
            results = await asyncio.gather(store.create("/a"), store.create("/b"), return_exceptions=True)
        assert [type(result) for result in results] == [StoreWriteError] * 2
        assert "ZeroDivisionError" in str(results[0])
        await store.create("/a")
        assert await store.children("/") == ["a"]
        await store.close()


async def test_too_many_waiting_writes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar.metadata.embedded.tree_store.WRITES_WAITING_MAX", 3)
    store = MemoryStore()
    await store.create("/a")
    results = await asyncio.gather(*(store.put("/a", b"") for _ in range(5)), return_exceptions=True)
    assert [isinstance(result, StoreOverloadedError) for result in results] == [False] * 3 + [True] * 2
    assert (await store.put("/a", b"")).version == 4
