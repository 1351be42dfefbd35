"""How batches are cut off counted entries, compared with a model that lists every message."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from magnetar.spark.source.ranges.bounds import BEFORE_ALL, WHOLE_ENTRY, Bound
from magnetar.spark.source.ranges.counting_rules import Counts, Tally

Sizes = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 100)), min_size=1, max_size=12)
Limit = st.none() | st.integers(1, 20)


def counts(sizes: list[tuple[int, int]]) -> Counts:
    """Returns entries of the given numbers of messages and bytes, which lie in ledgers of three entries."""
    rows = [(10 + number // 3, number % 3, *each, 1000 + number) for number, each in enumerate(sizes)]
    return Counts(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def messages(given: Counts) -> list[Bound]:
    """Returns the place of each message."""
    return [
        Bound(int(ledger), int(entry), index)
        for ledger, entry, count in zip(given.ledgers, given.entries, given.messages, strict=True)
        for index in range(int(count))
    ]


@st.composite
def ends(draw: st.DrawFn, sizes: list[tuple[int, int]]) -> Bound:
    """Draws a place in a topic: the end of an entry, or of a message."""
    given = counts(sizes)
    place = given.place(draw(st.integers(0, len(given) - 1)))
    return draw(st.sampled_from([place, *(each for each in messages(given) if each[:2] == place[:2])]))


@given(st.data(), Sizes, Limit, st.none() | st.integers(1, 300), st.lists(st.integers(1, 11)))
def test_batches_hold_each_message_once_and_as_many_as_the_limits_let_through(
    data: st.DataObject, sizes: list[tuple[int, int]], messages_max: int | None, bytes_max: int | None, cuts: list[int]
) -> None:
    given_counts, upto = counts(sizes), data.draw(ends(sizes))
    tally = Tally(BEFORE_ALL)
    for first, last in zip([0, *sorted(cuts)], [*sorted(cuts), len(sizes)], strict=True):
        tally.add(given_counts.pick(slice(first, last)))
    wanted = [each for each in messages(given_counts) if each <= upto]
    taken: list[Bound] = []
    while tally.place < upto:
        before = tally.place
        batch = tally.take(upto, messages_max, bytes_max, force=True)
        assert before < batch.end <= upto
        held = [each for each in wanted if before < each <= batch.end]
        assert batch.messages == len(held)
        assert messages_max is None or len(held) <= messages_max
        touched = [
            int(size)
            for ledger, entry, size in zip(given_counts.ledgers, given_counts.entries, given_counts.sizes, strict=True)
            if before < (ledger, entry, WHOLE_ENTRY) and (ledger, entry, -1) < batch.end
        ]
        assert batch.size == sum(touched)
        assert bytes_max is None or sum(touched) <= bytes_max or len(touched) == 1
        if bytes_max is None and len(taken) + len(held) < len(wanted):
            assert len(held) == messages_max
        taken += held
    assert taken == wanted


def test_a_batch_ends_inside_an_entry_and_the_rest_begins_the_next_one() -> None:
    tally = Tally(BEFORE_ALL)
    tally.add(counts([(2, 10), (50, 900), (1, 10)]))
    upto = Bound(10, 2)
    assert tally.take(upto, 10, None) == (Bound(10, 1, 7), 10, 910)
    assert tally.waiting(upto).messages.tolist() == [42, 1]
    assert tally.take(upto, 42, None) == (Bound(10, 1), 42, 900)
    assert tally.take(upto, 42, None) == (upto, 1, 10)


def test_an_entry_over_the_limit_of_bytes_is_taken_only_when_it_has_to_be() -> None:
    tally = Tally(BEFORE_ALL)
    tally.add(counts([(1, 900), (1, 10)]))
    assert tally.take(Bound(10, 1), None, 100) == (BEFORE_ALL, 0, 0)
    assert tally.take(Bound(10, 1), None, 100, force=True) == (Bound(10, 0), 1, 900)


def test_a_place_inside_an_entry_has_its_entry_still_to_be_counted() -> None:
    tally = Tally(Bound(10, 0, 14))
    assert tally.seen < Bound(10, 0)
    tally.add(counts([(40, 10)]))
    assert tally.take(Bound(10, 0), 15, None) == (Bound(10, 0, 29), 15, 10)


def test_an_end_whose_entry_is_gone_is_reached_by_the_entry_before_it() -> None:
    """A compacted view, or a topic that was trimmed, may not have the entry that a batch was to end with."""
    tally = Tally(BEFORE_ALL)
    tally.add(counts([(1, 10), (1, 10), (1, 10), (1, 10)]))
    assert tally.take(Bound(10, 9), 5, None) == (Bound(10, 9), 3, 30)
