"""Counts how long things took, for the quantiles that metrics show. Filling it costs one search in a short table.

Latencies fall into buckets whose bounds grow by BOUND_RATIO, so a quantile that is read from the buckets differs from
the true one by at most 5 %: it is the middle of the bucket that holds the true quantile. What is below the first bound
is reported as half of it, and what is above the last bound as the last bound.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import nan

BOUND_RATIO = 1.1
SHORTEST_SECONDS = 0.000_01
LONGEST_SECONDS = 100.0
PERIOD_SECONDS = 60.0
"""How long a period is. Quantiles are those of the present and the last period, so of the last one to two minutes, as
with BookKeeper's prometheusStatsLatencyRolloverSeconds."""


WELL_KNOWN_SECONDS = (0.000_5, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0)
"""The bounds of the buckets of latencies that Pulsar's dashboards know (ENTRY_LATENCY_BUCKETS_USEC of managed ledgers).
They are bounds here too, so that each bucket lies in one of Pulsar's buckets."""


def _bounds() -> list[float]:
    bounds = [SHORTEST_SECONDS]
    while bounds[-1] < LONGEST_SECONDS:
        bounds.append(bounds[-1] * BOUND_RATIO)
    return sorted({*bounds, *WELL_KNOWN_SECONDS})


BOUNDS = _bounds()
"""The upper bounds of the buckets, in seconds. One more bucket holds what is longer than the last bound."""


class LatencySummary:
    """The latencies of one kind of work. `count` and `seconds` are totals since the start, and quantiles are those of
    the last minutes. One thread adds; another thread may read at the same time, and then sees a number or two late."""

    __slots__ = ("_before", "_now", "_period_began_s", "count", "seconds")

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        """The sum of all latencies."""
        self._now = [0] * (len(BOUNDS) + 1)
        self._before = [0] * (len(BOUNDS) + 1)
        self._period_began_s = 0.0

    def add(self, seconds: float, count: int = 1) -> int:
        """Counts a latency, or `count` things that took equally long, such as the messages of one group. Returns the
        number of the bucket, from 0 to len(BOUNDS)."""
        bucket = bisect_left(BOUNDS, seconds)
        self._now[bucket] += count
        self.count += count
        self.seconds += seconds * count
        return bucket

    def quantiles(self, wanted: Sequence[float], now_s: float) -> Iterator[float]:
        """Yields the wanted quantiles (each from 0.0 to 1.0, ascending) in seconds; NaN when nothing was counted.

        `now_s` is a time of any clock that never jumps. Periods end when somebody reads: the first reading after a long
        pause covers all that came since the reading before it.
        """
        self._end_period(now_s)
        counts = [now + before for now, before in zip(self._now, self._before, strict=True)]
        total = sum(counts)
        bucket, passed = -1, 0
        for quantile in wanted:
            if not total:
                yield nan
                continue
            rank = max(1.0, quantile * total)
            while passed < rank:
                bucket += 1
                passed += counts[bucket]
            yield _middle(bucket)

    def _end_period(self, now_s: float) -> None:
        if now_s - self._period_began_s >= PERIOD_SECONDS:
            self._period_began_s = now_s
            self._before, self._now = self._now, [0] * (len(BOUNDS) + 1)


def _middle(bucket: int) -> float:
    if bucket == 0:
        return SHORTEST_SECONDS / 2
    if bucket == len(BOUNDS):
        return BOUNDS[-1]
    return (BOUNDS[bucket - 1] + BOUNDS[bucket]) / 2
