"""Groups the due times of delayed messages into buckets of equal width, for a picture of when they become due. The
module does no I/O."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

BUCKETS_MAX: Final = 40
WIDTHS_MS: Final = tuple(
    seconds * 1_000
    for seconds in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 43_200, 86_400, 604_800)
)
"""The widths that buckets may have. When even the largest would make too many buckets, a multiple of it is taken."""


def width_of(first_ms: int, last_ms: int) -> int:
    """Returns the smallest width with which the times from first to last fit into BUCKETS_MAX buckets."""
    for width in WIDTHS_MS:
        if last_ms // width - first_ms // width < BUCKETS_MAX:
            return width
    largest = WIDTHS_MS[-1]
    multiple = (last_ms - first_ms) // (largest * (BUCKETS_MAX - 1)) + 1
    return largest * multiple


def buckets_of(times_ms: Sequence[int]) -> list[dict[str, Any]]:
    """Returns the buckets of times in ascending order, each with its bounds and the number of its messages. Buckets
    without messages are left out."""
    if not times_ms:
        return []
    width = width_of(times_ms[0], times_ms[-1])
    counts = Counter(time // width for time in times_ms)
    return [
        {"from": number * width, "to": (number + 1) * width, "messages": count}
        for number, count in sorted(counts.items())
    ]
