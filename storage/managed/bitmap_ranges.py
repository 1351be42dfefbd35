"""Runs of neighbouring numbers in a bitmap of entry ids. Pure."""

from collections.abc import Sequence

from pyroaring import BitMap

ENTRY_ID_END = 2**32
"""Bitmaps hold numbers of 32 bits, so a ledger has fewer entries than this."""


def first_missing(bitmap: BitMap, start: int) -> int:
    """Returns the least number >= start that is not in the bitmap. The search gallops: the step doubles while the
    bitmap has all numbers up to the step's end; then a binary search goes through the last step. So a run of n numbers
    costs O(log n) range tests."""
    if start not in bitmap:
        return start
    step = 1
    while bitmap.contains_range(start, start + 2 * step):
        step *= 2
    low, high = start + step, start + 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        if bitmap.contains_range(start, middle):
            low = middle
        else:
            high = middle
    return low


def next_set(bitmap: BitMap, start: int) -> int:
    """Returns the least number >= start that is in the bitmap, or ENTRY_ID_END when there is none."""
    try:
        found: int = bitmap.next_set_bit(start)
    except ValueError:
        return ENTRY_ID_END
    return found


def range_ends(bitmap: BitMap) -> tuple[Sequence[int], Sequence[int]]:
    """Returns the first and the last number of each run, both rising.

    A number begins a run if the bitmap shifted up by one does not have the number, and ends a run if the bitmap shifted
    down does not have the number. Both tests work on whole words, however many runs there are:

        bitmap             . 1 1 1 . . 1 .
        shifted up         . . 1 1 1 . . 1      first: in the bitmap, not in this one
        shifted down       1 1 1 . . 1 . .      last: in the bitmap, not in this one
    """
    return (bitmap - bitmap.shift(1)).to_array(), (bitmap - bitmap.shift(-1)).to_array()


def count_ranges(bitmap: BitMap) -> int:
    """Returns how many runs there are."""
    return len(bitmap - bitmap.shift(1))
