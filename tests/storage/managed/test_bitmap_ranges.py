"""Runs in bitmaps, checked against a walk over all numbers."""

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.storage.managed.bitmap_ranges import ENTRY_ID_END, count_ranges, first_missing, next_set, range_ends


@given(st.sets(st.integers(0, 300)), st.integers(0, 300))
def test_first_missing_is_the_least_absent_number(numbers: set[int], start: int) -> None:
    expected = next(number for number in range(start, 302) if number not in numbers)
    assert first_missing(BitMap(numbers), start) == expected


@given(st.sets(st.integers(0, 300)), st.integers(0, 301))
def test_next_set_is_the_least_number_that_is_there(numbers: set[int], start: int) -> None:
    assert next_set(BitMap(numbers), start) == min((n for n in numbers if n >= start), default=ENTRY_ID_END)


@given(st.sets(st.integers(0, 300)))
def test_ranges_begin_and_end_where_a_neighbour_is_missing(numbers: set[int]) -> None:
    firsts, lasts = range_ends(BitMap(numbers))
    assert list(firsts) == sorted(n for n in numbers if n - 1 not in numbers)
    assert list(lasts) == sorted(n for n in numbers if n + 1 not in numbers)
    assert count_ranges(BitMap(numbers)) == len(firsts)
