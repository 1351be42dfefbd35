"""The index of delayed messages, compared with a plain dictionary, and how much memory it takes."""

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.topics.subscriptions import delay_index
from magnetar.server.topics.subscriptions.delay_index import DelayIndex
from pulsar_proto.ids import Position
from tests.rounds import rounds

ADD = st.tuples(st.just("add"), st.integers(1, 4), st.integers(0, 40), st.integers(0, 50))
POP = st.tuples(st.just("pop"), st.integers(0, 60), st.integers(1, 10), st.just(0))
FORGET = st.tuples(st.just("forget"), st.integers(1, 4), st.just(0), st.just(0))


@settings(deadline=None, max_examples=rounds(200))
@given(st.lists(st.one_of(ADD, ADD, ADD, POP, FORGET), max_size=80), st.integers(2, 5))
def test_it_is_a_dictionary_sorted_by_time(operations: list[tuple[str, int, int, int]], segment: int) -> None:
    delay_index.SEGMENT_ENTRIES_MAX, before = segment, delay_index.SEGMENT_ENTRIES_MAX
    try:
        index, twin = DelayIndex(), dict[tuple[int, int], int]()
        first_ledger = 0
        for what, first, second, third in operations:
            if what == "add" and first < first_ledger:
                continue  # a ledger that was deleted gets no new messages
            if what == "add":
                assert index.add(first, second, third)
                twin.setdefault((first, second), third)
            elif what == "pop":
                due = index.pop_due(first, second)
                got = [(ledger_id, entry_id) for ledger_id in due for entry_id in due[ledger_id]]
                assert all(due[ledger_id] == sorted(due[ledger_id]) for ledger_id in due)
                times = sorted(twin[each] for each in got)
                assert len(times) == len(set(got)) <= second
                assert all(twin.pop(each) <= first for each in got)
                late = [time for time in twin.values() if time <= first]
                assert not (times and late) or times[-1] <= min(late)
            else:
                index.forget_before(first)
                first_ledger = max(first_ledger, first)
                twin = {each: time for each, time in twin.items() if each[0] >= first}
            assert len(index) == len(twin)
            assert bool(index) == bool(twin)
        for ledger_id in range(1, 5):
            for entry_id in range(42):
                beyond = entry_id
                while (ledger_id, beyond) in twin:
                    beyond += 1
                assert index.pass_over(Position(ledger_id, entry_id)) == (ledger_id, beyond)
                passed = sum(len(entries) for _, entries in index.before(Position(ledger_id, entry_id)))
                assert passed == sum(1 for each in twin if each < (ledger_id, entry_id))
        popped = index.pop_due(100, 1_000)
        assert {(ledger_id, entry_id) for ledger_id in popped for entry_id in popped[ledger_id]} == set(twin)
        assert index.next_due_ms() is None
    finally:
        delay_index.SEGMENT_ENTRIES_MAX = before


def test_a_full_index_takes_no_more_until_something_was_due() -> None:
    index = DelayIndex(2)
    assert index.add(1, 1, 10)
    assert index.add(1, 2, 20)
    assert not index.add(1, 3, 5)
    assert index.add(1, 2, 20), "it is in there"
    assert index.is_full
    assert index.pop_due(10, 9) == {1: [1]}
    assert index.add(2, 3, 5)


def test_what_went_with_its_ledger_is_due_no_more() -> None:
    index = DelayIndex()
    index.add(1, 0, 10)
    index.add(2, 0, 11)
    index.forget_before(2)
    assert index.pop_due(100, 10) == {2: [0]}
    assert (len(index), index.next_due_ms()) == (0, None)


def test_deleted_ledgers_make_room() -> None:
    index = DelayIndex(10)
    for entry_id in range(9):
        index.add(1, entry_id, 100 - entry_id)
    index.add(2, 0, 50)
    index.forget_before(2)
    assert not index.is_full
    assert index.next_due_ms() == 50
    assert index.pop_due(100, 10) == {2: [0]}


@pytest.mark.slow
def test_a_hundred_thousand_messages_take_less_than_two_and_a_half_megabytes() -> None:
    """The messages are due in any order, over a month. A million of them then take less than 25 MB."""
    chance = random.Random(1)
    times = [chance.randrange(30 * 86_400_000) for _ in range(100_000)]
    tracemalloc.start()
    index = DelayIndex()
    for number, time in enumerate(times):
        index.add(7 + number // 50_000, number % 50_000, time)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(index) == 100_000
    assert size < 2_500_000
    assert index.size_bytes < 2_500_000
