"""Counts values in fixed buckets, as a histogram of Prometheus does."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


class Histogram:
    """The values of one kind since the start of the process."""

    __slots__ = ("_counts", "bounds", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds` are the upper bounds of the buckets, ascending. One more bucket has no bound."""
        self.bounds = bounds
        self.sum = 0.0
        """The sum of all values."""
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Returns for each bound how many values do not exceed it, and then the number of all values."""
        return list(accumulate(self._counts))
