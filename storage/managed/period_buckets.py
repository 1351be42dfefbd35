"""Counts by size or latency in the few buckets that Pulsar's dashboards know, as counts of the last full period.

These are no histograms of Prometheus: each bucket counts only what is above the bound before it, and all counts begin
anew with each period. Source: StatsBuckets of the managed ledger.
"""

from bisect import bisect_left
from collections.abc import Sequence

LATENCY_BOUNDS_S = (0.000_5, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
"""The bounds of ENTRY_LATENCY_BUCKETS_USEC, in seconds."""
SIZE_BOUNDS = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""The bounds of ENTRY_SIZE_BUCKETS_BYTES."""

_NOTHING = {len(bounds): (0,) * (len(bounds) + 1) for bounds in (LATENCY_BOUNDS_S, SIZE_BOUNDS)}
"""The counts of a period in which nothing was counted, by the number of bounds."""


class PeriodBuckets:
    """The buckets of one managed ledger. A managed ledger that gets nothing has no lists, because a broker has many
    idle topics."""

    __slots__ = ("_counts", "_sum", "bounds", "last", "last_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self._counts: list[int] | None = None
        self._sum: float = 0
        self.last: Sequence[int] = _NOTHING[len(bounds)]
        """The counts of the last full period. The last bucket has no upper bound."""
        self.last_sum: float = 0
        """The sum of the values that were counted in the last full period."""

    def add(self, value: float, count: int) -> None:
        """Counts `count` values, each of which is in the bucket of `value`."""
        if self._counts is None:
            self._counts = [0] * (len(self.bounds) + 1)
        self._counts[bisect_left(self.bounds, value)] += count
        self._sum += value * count

    def roll(self) -> None:
        """Ends the period."""
        self.last = _NOTHING[len(self.bounds)] if self._counts is None else self._counts
        self.last_sum, self._counts, self._sum = self._sum, None, 0
