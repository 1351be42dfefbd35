"""Sizes of reads, compared with a plan that counts one entry after the other."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.server.topics.subscriptions.read_size_rules import EntryAverage, entries_to_read, entries_within

COUNTS = st.lists(st.integers(1, 20), max_size=30)


@settings(deadline=None)
@given(COUNTS, st.integers(0, 30), st.integers(-5, 100))
def test_entries_are_taken_until_permits_are_used_up(counts: list[int], start: int, permits: int) -> None:
    start = min(start, len(counts))
    taken = 0
    left = permits
    while left > 0 and start + taken < len(counts):
        left -= counts[start + taken]
        taken += 1
    assert entries_within(counts, sum(counts), start, permits) == taken


@settings(deadline=None)
@given(st.integers(1, 200), st.integers(0, 150), st.integers(-5, 300))
def test_unbatched_entries_cost_one_permit_each(size: int, start: int, permits: int) -> None:
    start = min(start, size)
    assert entries_within([1] * size, size, start, permits) == max(0, min(size - start, permits))


@settings(deadline=None)
@given(st.integers(-10, 10_000), st.floats(1, 1_000), st.integers(1, 500))
def test_a_read_is_empty_only_without_permits_and_never_beyond_its_limit(
    permits: int, average: float, limit: int
) -> None:
    entries = entries_to_read(permits, average, limit)
    assert (entries == 0) == (permits <= 0)
    assert entries <= limit
    if entries > 1:
        # 170 entries of 1.1 messages need 187 permits, but 170 * 1.1 is a little more than 187 in floating point.
        assert entries * average <= permits * (1 + 1e-9)


def test_the_first_group_sets_the_average() -> None:
    average = EntryAverage()
    assert average.is_new
    average.add(1, 50)
    assert (average.value, average.is_new) == (50.0, False)
    average.add(1, 1)
    assert average.value == pytest.approx(45.1)


def test_the_average_follows_batches_and_returns_to_single_messages() -> None:
    average = EntryAverage()
    average.add(10, 10)
    assert average.value == 1.0
    for _ in range(100):
        average.add(1, 120)
    assert 119 < average.value <= 120
    for _ in range(200):
        average.add(5, 5)
    assert 1.0 <= average.value < 1.01


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 10_000)), max_size=50))
def test_the_average_never_falls_below_one_message(groups: list[tuple[int, int]]) -> None:
    average = EntryAverage()
    for entries, messages in groups:
        average.add(entries, messages)
        assert average.value >= 1.0
