"""The state of auto-recovery, as its records tell it."""

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.storage.repair import recovery_state as states
from magnetar.storage.repair.recovery_state import MarkedLedger, recovery_state
from magnetar.storage.repair.underreplication import Underreplication
from pulsar_proto.records import underreplication_record as records

NOW_MS = 1_700_000_000_000


async def test_a_cluster_without_auto_recovery_has_no_auditor_and_no_marks() -> None:
    state = await recovery_state(MemoryStore())
    assert state == (True, None, [], 0, False)


async def test_marks_are_listed_with_who_holds_their_locks() -> None:
    store = MemoryStore()
    book = Underreplication(store, now_ms=lambda: NOW_MS)
    await book.mark(7, ["b1", "b2"])
    await book.mark(300_000, ["b2"])
    await book.lock(7, "b3")
    await store.create(f"{records.VOTE_PREFIX}0000000000", records.vote_value("b3"), make_parents=True)
    await book.disable()
    state = await recovery_state(store)
    assert (state.is_enabled, state.auditor, state.marked, state.is_cut) == (False, "b3", 2, False)
    assert state.ledgers == [
        MarkedLedger(7, ("b1", "b2"), NOW_MS, "b3"),
        MarkedLedger(300_000, ("b2",), NOW_MS, None),
    ]


async def test_of_very_many_marks_some_are_counted_and_fewer_are_listed() -> None:
    store = MemoryStore()
    book = Underreplication(store, now_ms=lambda: NOW_MS)
    for ledger_id in range(states.COUNTED_MAX):
        await book.mark(ledger_id, ["b1"])
    state = await recovery_state(store)
    assert (len(state.ledgers), state.marked, state.is_cut) == (states.LISTED_MAX, states.COUNTED_MAX, False)
    await book.mark(states.COUNTED_MAX, ["b1"])
    state = await recovery_state(store)
    assert (len(state.ledgers), state.marked, state.is_cut) == (states.LISTED_MAX, states.COUNTED_MAX, True)
