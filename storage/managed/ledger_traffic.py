"""Counts what is written to a managed ledger and read from it, for metrics. Source: ManagedLedgerMBeanImpl.

Counting happens once for each group of entries, never for each entry. Two figures are estimates for that reason: the
sizes of entries (`LedgerTraffic.added`) and the bytes of a part of a cached group (`TailCache.hit_bytes`).
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from magnetar.storage.managed.period_buckets import (
    LATENCY_BOUNDS_S,
    LATENCY_BUCKET_OF,
    NO_LATENCIES,
    NO_SIZES,
    SIZE_BOUNDS,
    LatencyBuckets,
)
from pulsar_proto.latency_summary import LatencySummary

_SIZES_AT = len(NO_LATENCIES)
"""Where the counts of sizes begin in the list of counts."""


class Figures(NamedTuple):
    """What was written and read since the managed ledger was opened, or how much of it in a second."""

    entries_added: float
    bytes_added: float
    add_errors: float
    entries_read: float
    bytes_read: float
    reads: float
    read_errors: float
    entries_missed: float
    """The entries that were read from bookies, because they were not in the cache."""
    mark_deletes: float


NOTHING = Figures(*[0] * len(Figures._fields))


class PeriodCounts(NamedTuple):
    """What was appended in the last full period, by Pulsar's buckets (`period_buckets`)."""

    write_latencies: Sequence[int] = NO_LATENCIES
    """The entries by the time from the append to its confirmation, with the wait for a ledger."""
    write_seconds: float = 0.0
    """The sum of these times."""
    ledger_latencies: Sequence[int] = NO_LATENCIES
    """The entries by the part of that time in which a ledger had them."""
    ledger_seconds: float = 0.0
    sizes: Sequence[int] = NO_SIZES
    """The entries by their size."""
    size_bytes: float = 0


IDLE = PeriodCounts()


class LedgerTraffic:
    """The counters of one managed ledger."""

    __slots__ = (
        "_counts",
        "_ledger_seconds",
        "_moved",
        "_seconds",
        "_seen",
        "_write_summary",
        "add_errors",
        "bytes_added",
        "bytes_read",
        "entries_added",
        "entries_missed",
        "entries_read",
        "last",
        "per_second",
        "read_errors",
        "reads",
        "switch_latency",
    )

    def __init__(self, write_summary: LatencySummary) -> None:
        """`write_summary` gets the latencies of all managed ledgers of the process."""
        self._write_summary = write_summary
        self._counts: list[int] | None = None
        """The entries of this period by write latency, and after that by size. None while there are none, because a
        broker has many idle topics."""
        self._seconds = 0.0
        self._moved: list[int] | None = None
        """What to add to the counts by write latency to get those by the latency of ledgers. The two differ only when
        groups wait for a ledger."""
        self._ledger_seconds = 0.0
        self._seen = NOTHING
        self.per_second = NOTHING
        """The growth of each figure in a second, in the last full period."""
        self.last = IDLE
        self.entries_added = 0
        self.bytes_added = 0
        self.add_errors = 0
        self.entries_read = 0
        self.bytes_read = 0
        self.reads = 0
        self.read_errors = 0
        self.entries_missed = 0
        self.switch_latency = LatencyBuckets()
        """By the time that the change to a new ledger took."""

    def added(self, ledger_s: float, waited_s: float, entries: Sequence[bytes], size: int) -> None:
        """Counts a confirmed group of `size` payload bytes. `ledger_s` is the time that the ledger took, and `waited_s`
        the time that the group waited for a ledger before that.

        All entries of the group count with their average size. That is exact for a group of entries of one size, and
        puts some entries of a mixed group into a bucket next to their own. This runs for each group of a producer, so
        it is one list and one search for each kind of bucket.
        """
        count = len(entries)
        total_s = ledger_s + waited_s
        self.entries_added += count
        self.bytes_added += size
        self._seconds += total_s * count
        counts = self._counts
        if counts is None:
            counts = self._counts = [*NO_LATENCIES, *NO_SIZES]
        bucket = LATENCY_BUCKET_OF[self._write_summary.add(total_s, count)]
        counts[bucket] += count
        counts[_SIZES_AT + bisect_left(SIZE_BOUNDS, size / count)] += count
        if waited_s:
            self._waited(bucket, ledger_s, waited_s, count)

    def _waited(self, bucket: int, ledger_s: float, waited_s: float, count: int) -> None:
        moved = self._moved
        if moved is None:
            moved = self._moved = list(NO_LATENCIES)
        moved[bucket] -= count
        moved[bisect_left(LATENCY_BOUNDS_S, ledger_s)] += count
        self._ledger_seconds -= waited_s * count

    def read(self, entries: int, size: int) -> None:
        """Counts a read of entries, from the cache or from bookies."""
        self.reads += 1
        self.entries_read += entries
        self.bytes_read += size

    def totals(self, mark_deletes: int) -> Figures:
        """Returns all counts so far. `mark_deletes` is the number of all mark-deletes, which the cursors know."""
        return Figures(
            self.entries_added,
            self.bytes_added,
            self.add_errors,
            self.entries_read,
            self.bytes_read,
            self.reads,
            self.read_errors,
            self.entries_missed,
            mark_deletes,
        )

    def roll(self, elapsed_s: float, mark_deletes: int) -> None:
        """Ends a period of `elapsed_s` seconds; `mark_deletes` is as in `totals`."""
        totals, seen = self.totals(mark_deletes), self._seen
        if totals == seen or elapsed_s <= 0:
            self.per_second = NOTHING
        else:
            pairs = zip(totals, seen, strict=True)
            self.per_second = Figures(*[max(0, now - before) / elapsed_s for now, before in pairs])
        self._seen = totals
        self.last = IDLE if self._counts is None else self._period(self._counts, totals.bytes_added - seen.bytes_added)
        self._counts = self._moved = None
        self._seconds = self._ledger_seconds = 0.0
        self.switch_latency.roll()

    def _period(self, counts: list[int], size_bytes: float) -> PeriodCounts:
        latencies = counts[:_SIZES_AT]
        moved = self._moved
        of_ledger = latencies if moved is None else [sum(both) for both in zip(latencies, moved, strict=True)]
        ledger_seconds = self._seconds + self._ledger_seconds
        return PeriodCounts(latencies, self._seconds, of_ledger, ledger_seconds, counts[_SIZES_AT:], size_bytes)
