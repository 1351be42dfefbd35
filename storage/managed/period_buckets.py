"""Counts by size or latency in the few buckets that Pulsar's dashboards know, as counts of the last full period.

These are no histograms of Prometheus: each bucket counts only what is above the bound before it, and all counts begin
anew with each period. Source: StatsBuckets of the managed ledger.
"""

from bisect import bisect_left
from collections.abc import Sequence

from pulsar_proto.latency_summary import BOUNDS, WELL_KNOWN_SECONDS

LATENCY_BOUNDS_S = WELL_KNOWN_SECONDS
LATENCY_BUCKET_OF = [bisect_left(LATENCY_BOUNDS_S, bound) for bound in BOUNDS] + [len(LATENCY_BOUNDS_S)]
"""Maps the number of a bucket of `LatencySummary` to the number of the bucket that it lies in."""
SIZE_BOUNDS = (128, 512, 1024, 2048, 4096, 16_384, 102_400, 1_048_576)
"""The bounds of ENTRY_SIZE_BUCKETS_BYTES."""

NO_LATENCIES = (0,) * (len(LATENCY_BOUNDS_S) + 1)
NO_SIZES = (0,) * (len(SIZE_BOUNDS) + 1)
"""The counts of a period in which nothing was counted. The last bucket of each kind has no upper bound."""


class LatencyBuckets:
    """The buckets of work that is rare, so that it is counted piece by piece."""

    __slots__ = ("_counts", "_seconds", "last", "last_seconds")

    def __init__(self) -> None:
        self._counts: list[int] | None = None
        """None while nothing was counted, because a broker has many idle topics."""
        self._seconds = 0.0
        self.last: Sequence[int] = NO_LATENCIES
        """The counts of the last full period."""
        self.last_seconds = 0.0
        """The sum of the latencies of the last full period."""

    def add(self, seconds: float, count: int) -> None:
        """Counts `count` things that took so long."""
        if self._counts is None:
            self._counts = list(NO_LATENCIES)
        self._counts[bisect_left(LATENCY_BOUNDS_S, seconds)] += count
        self._seconds += seconds * count

    def roll(self) -> None:
        """Ends the period."""
        self.last = NO_LATENCIES if self._counts is None else self._counts
        self.last_seconds, self._counts, self._seconds = self._seconds, None, 0.0
