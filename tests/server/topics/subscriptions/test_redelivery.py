"""What Shared subscriptions remember of delivered messages, compared with plain dictionaries and sets."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from magnetar.server.topics.subscriptions.redelivery import PendingAcks, RedeliveryCounts, ReplayQueue
from pulsar_proto.ids import Position

LEDGERS = st.integers(1, 4)
ENTRIES = st.integers(0, 30)
OPERATIONS = st.lists(
    st.tuples(st.sampled_from(["add", "discard", "first"]), LEDGERS, ENTRIES, st.integers(1, 6)),
    max_size=60,
)


@settings(deadline=None)
@given(OPERATIONS)
def test_the_replay_queue_is_a_sorted_set_of_positions(operations: list[tuple[str, int, int, int]]) -> None:
    queue = ReplayQueue()
    twin: set[tuple[int, int]] = set()
    for what, ledger_id, entry_id, count in operations:
        ids = range(entry_id, entry_id + count)
        if what == "add":
            queue.add(ledger_id, ids)
            twin |= {(ledger_id, each) for each in ids}
        elif what == "discard":
            queue.discard(ledger_id, ids)
            twin -= {(ledger_id, each) for each in ids}
        elif twin:
            first = min(twin)
            run = 1
            while run < count and (first[0], first[1] + run) in twin:
                run += 1
            assert queue.first_run(count) == (Position(*first), run)
            near = [first[1]]
            for each in sorted(other for ledger, other in twin if ledger == first[0])[1:]:
                if each - near[-1] <= 2 and each < first[1] + 4 * count:
                    near.append(each)
                else:
                    break
            assert queue.nearby(Position(*first), 4 * count, 2) == near[-1] - first[1] + 1
        within = sorted(other for ledger, other in twin if ledger == ledger_id and entry_id <= other < entry_id + count)
        assert queue.within(ledger_id, entry_id, entry_id + count) == within
        assert len(queue) == len(twin)
        assert bool(queue) == bool(twin)
        assert queue.contains(ledger_id, entry_id) == ((ledger_id, entry_id) in twin)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "pop", "pop_singles", "reduce"]), LEDGERS, ENTRIES, st.integers(1, 5)),
        max_size=60,
    )
)
@example([("add", 0, 0, 1), ("pop_singles", 0, 0, 2), ("pop_singles", 0, 0, 3), ("pop_singles", 0, 0, 1)])
@example([("add", 0, 0, 4), ("pop", 0, 0, 1), ("pop", 0, 1, 1), ("pop", 0, 2, 1), ("add", 0, 0, 5), ("pop", 0, 0, 1)])
def test_pending_acks_are_a_dictionary_of_counts(operations: list[tuple[str, int, int, int]]) -> None:
    pending = PendingAcks()
    twin: dict[tuple[int, int], int] = {}
    for what, ledger_id, entry_id, count in operations:
        key = ledger_id, entry_id
        run = range(entry_id, entry_id + 3)
        if what == "add" and not any((ledger_id, each) in twin for each in run):
            counts = [count, 1, count % 2 + 1]
            pending.add(ledger_id, list(run) if count == 3 else run, counts, sum(counts))
            twin.update(((ledger_id, each), counts[index]) for index, each in enumerate(run))
        elif what == "pop":
            assert pending.pop(ledger_id, entry_id) == twin.pop(key, None)
        elif what == "pop_singles":
            asked = [entry_id, *([entry_id] if count == 3 else range(entry_id + 1, entry_id + count))]
            if pending.pop_singles(ledger_id, asked):
                assert [twin.pop((ledger_id, each)) for each in asked] == [1] * len(asked)
        elif what == "reduce" and key in twin:
            pending.reduce(ledger_id, entry_id, count)
            twin[key] = min(count, twin[key])
        assert pending.messages == sum(twin.values())
        assert len(pending) == len(twin)
        assert pending.get(ledger_id, entry_id) == twin.get(key)
    drained = [(ledger_id, entry_id) for ledger_id, entry_ids in pending.drain() for entry_id in entry_ids]
    assert drained == sorted(twin)
    assert pending.messages == len(pending) == 0


def test_held_entries_of_one_message_are_removed_together_or_not_at_all() -> None:
    pending = PendingAcks()
    pending.add(1, range(10, 14), [1, 1, 1, 5], 8)
    for asked in ([10, 13], [10, 14], [10, 10]):
        assert not pending.pop_singles(1, asked)
    assert not pending.pop_singles(2, [10, 11])
    assert pending.messages == 8
    assert pending.pop_singles(1, [12, 10])
    assert pending.messages == 6
    assert [pending.get(1, entry_id) for entry_id in range(10, 14)] == [None, 1, None, 5]


@settings(deadline=None)
@given(st.lists(st.tuples(st.booleans(), LEDGERS, ENTRIES), max_size=60))
def test_redelivery_counts_grow_until_they_are_forgotten(operations: list[tuple[bool, int, int]]) -> None:
    counts = RedeliveryCounts()
    twin: dict[tuple[int, int], int] = {}
    for again, ledger_id, entry_id in operations:
        if again:
            counts.increment(ledger_id, [entry_id])
            twin[ledger_id, entry_id] = twin.get((ledger_id, entry_id), 0) + 1
        else:
            counts.forget(ledger_id, entry_id)
            twin.pop((ledger_id, entry_id), None)
        assert (counts.of_ledger(ledger_id) or {}) == {e: n for (each, e), n in twin.items() if each == ledger_id}
        assert bool(counts) == bool(twin)
