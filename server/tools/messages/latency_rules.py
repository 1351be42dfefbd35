"""A histogram of latencies that takes little memory however many there are, and whose quantiles are right to within one
percent. This module does no I/O."""

from collections import Counter
from collections.abc import Iterable, Mapping

EXACT_BITS = 7
"""Values below 2 to this power have a bucket each, and each doubling above it has as many buckets: a value is known
to within one part in 128."""
EXACT = 1 << EXACT_BITS


def bucket_of(value: int) -> int:
    """Returns the number of the bucket that a value of 0 or more belongs to."""
    shift = max(0, value.bit_length() - EXACT_BITS - 1)
    return (shift << EXACT_BITS) + (value >> shift)


def bucket_top(bucket: int) -> int:
    """Returns the greatest value of a bucket."""
    if bucket < 2 * EXACT:
        return bucket
    shift = (bucket >> EXACT_BITS) - 1
    return ((bucket - (shift << EXACT_BITS) + 1) << shift) - 1


class LatencyHistogram:
    """Latencies in microseconds. Histograms of several clients are added up with `merge`."""

    def __init__(self, buckets: Mapping[int, int] | None = None, largest_us: int = 0, sum_us: int = 0) -> None:
        self.buckets = Counter(buckets or {})
        self.largest_us = largest_us
        self.sum_us = sum_us

    def record(self, latency_us: int) -> None:
        """Adds one latency. One below 0, which two clocks may make, counts as 0."""
        latency_us = max(latency_us, 0)
        self.buckets[bucket_of(latency_us)] += 1
        self.sum_us += latency_us
        self.largest_us = max(self.largest_us, latency_us)

    def merge(self, others: Iterable["LatencyHistogram"]) -> "LatencyHistogram":
        """Adds other histograms to this one, and returns it."""
        for other in others:
            self.buckets.update(other.buckets)
            self.sum_us += other.sum_us
            self.largest_us = max(self.largest_us, other.largest_us)
        return self

    @property
    def count(self) -> int:
        return self.buckets.total()

    def quantile_us(self, quantile: float) -> int:
        """Returns the latency that this share of all latencies does not exceed; 0 when there are none."""
        wanted = max(1, -int(-quantile * self.count // 1))
        seen = 0
        for bucket in sorted(self.buckets):
            seen += self.buckets[bucket]
            if seen >= wanted:
                return min(bucket_top(bucket), self.largest_us)
        return 0

    @property
    def mean_us(self) -> float:
        return self.sum_us / self.count if self.count else 0.0
