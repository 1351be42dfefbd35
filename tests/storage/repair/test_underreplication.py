"""The records of under-replicated ledgers: marks that grow, locks, switches, and what stays when others write too."""

from random import Random

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.repair.auditor_election import current_auditor
from magnetar.storage.repair.underreplication import LockedLedger, ReplicationDisabled, Underreplication
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records import underreplication_record as records
from pulsar_proto.records.underreplication_record import UnderreplicatedLedger

NOW = 1_700_000_000_000
BIG = 4_294_967_303


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def book(store: MemoryStore) -> Underreplication:
    made = Underreplication(store, now_ms=lambda: NOW)
    await made.prepare()
    await made.prepare()
    return made


async def test_a_new_cluster_has_apaches_records(store: MemoryStore, book: Underreplication) -> None:
    record = await store.get(records.LAYOUT)
    assert record is not None
    assert record.value == records.LAYOUT_VALUE
    assert await current_auditor(store) is None


async def test_another_layout_is_refused(store: MemoryStore, book: Underreplication) -> None:
    await store.put(records.LAYOUT, b'type: "FLAT"\nversion: 1\n')
    with pytest.raises(MalformedRecord, match="FLAT"):
        await book.prepare()


async def test_marks_grow_and_are_listed_in_order(book: Underreplication) -> None:
    for ledger_id in (70_000, 3, BIG):
        await book.mark(ledger_id, ["b1"])
    await book.mark(3, ["b2", "b1"])
    assert [ledger_id async for ledger_id in book.marked()] == [3, 70_000, BIG]
    assert sorted([ledger_id async for ledger_id in book.marked(Random(1))]) == [3, 70_000, BIG]
    assert await book.get(3) == UnderreplicatedLedger(("b1", "b2"), NOW)
    assert await book.get(4) is None


async def test_one_worker_at_a_time_holds_a_ledger(store: MemoryStore, book: Underreplication) -> None:
    other = Underreplication(store.session(), now_ms=lambda: NOW)
    await book.mark(3, ["b1"])
    locked = await book.lock(3, "w1")
    assert locked == LockedLedger(3, 0)
    assert await other.lock(3, "w2") is None
    assert await other.lock_any("w2", Random(1)) is None
    assert await other.lock_holder(3) == "w1"
    assert await other.locks() == [3]
    await book.release(locked)
    await book.release(locked)
    assert await other.lock_any("w2", Random(1)) == locked


async def test_a_lock_ends_with_its_session(store: MemoryStore, book: Underreplication) -> None:
    worker = store.session()
    await book.mark(3, ["b1"])
    assert await Underreplication(worker, now_ms=lambda: NOW).lock(3, "w1") is not None
    await worker.close()
    assert await book.lock(3, "w2") is not None


async def test_a_mark_that_grew_since_it_was_locked_stays(store: MemoryStore, book: Underreplication) -> None:
    await book.mark(3, ["b1"])
    locked = await book.lock(3, "w1")
    assert locked is not None
    await book.mark(3, ["b2"])
    await book.forget(3, locked.mark_version)
    assert await book.get(3) is not None
    await book.mark(4, ["b1"])
    await book.forget(3, 1)
    assert [ledger_id async for ledger_id in book.marked()] == [4]
    await book.forget(4)
    assert await store.children(records.LEDGERS) == [], "empty parents go away too"
    await book.forget(4)


async def test_a_ledger_without_a_mark_is_not_locked(book: Underreplication) -> None:
    assert await book.lock(3, "w1") is None
    assert await book.locks() == []


async def test_switches_say_whether_they_changed_anything(book: Underreplication) -> None:
    assert await book.is_enabled()
    assert not await book.enable()
    assert await book.disable()
    assert not await book.disable()
    with pytest.raises(ReplicationDisabled):
        await book.trigger_audit()
    assert await book.enable()


async def test_the_recovery_delay_is_the_clusters(store: MemoryStore, book: Underreplication) -> None:
    assert await book.recovery_delay() is None
    assert await book.prepare_recovery_delay(30) == 30
    assert await book.prepare_recovery_delay(60) == 30, "the first auditor's counts"
    await book.set_recovery_delay(90)
    stat = await store.exists(records.LOST_BOOKIE_RECOVERY_DELAY)
    await book.trigger_audit()
    again = await store.exists(records.LOST_BOOKIE_RECOVERY_DELAY)
    assert stat is not None
    assert again is not None
    assert again.version == stat.version + 1
    assert await book.recovery_delay() == 90


async def test_the_time_of_a_check_is_kept(book: Underreplication) -> None:
    assert await book.check_time(records.CHECK_ALL_LEDGERS_TIME) is None
    await book.set_check_time(records.CHECK_ALL_LEDGERS_TIME)
    await book.set_check_time(records.CHECK_ALL_LEDGERS_TIME)
    assert await book.check_time(records.CHECK_ALL_LEDGERS_TIME) == NOW
