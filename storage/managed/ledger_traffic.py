"""Counts what is written to a managed ledger and read from it, for metrics. Source: ManagedLedgerMBeanImpl.

Counting happens once for each group of entries, never for each entry. Two figures are estimates for that reason: the
sizes of entries (`LedgerTraffic.added`) and the bytes of a part of a cached group (`TailCache.hit_bytes`).
"""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar.storage.managed.period_buckets import LATENCY_BOUNDS_S, SIZE_BOUNDS, PeriodBuckets
from pulsar_proto.latency_summary import LatencySummary


class Figures(NamedTuple):
    """What was written and read since the managed ledger was opened, or how much of it in a second."""

    entries_added: float
    bytes_added: float
    groups_added: float
    add_errors: float
    entries_read: float
    bytes_read: float
    reads: float
    read_errors: float
    entries_missed: float
    """The entries that were read from bookies, because they were not in the cache."""
    mark_deletes: float


NOTHING = Figures(*[0] * len(Figures._fields))


class LedgerTraffic:
    """The counters of one managed ledger."""

    __slots__ = (
        "_seen",
        "_write_summary",
        "add_errors",
        "bytes_added",
        "bytes_read",
        "entries_added",
        "entries_missed",
        "entries_read",
        "entry_size",
        "groups_added",
        "ledger_write_latency",
        "per_second",
        "read_errors",
        "reads",
        "switch_latency",
        "write_latency",
    )

    def __init__(self, write_summary: LatencySummary) -> None:
        """`write_summary` gets the latencies of all managed ledgers of the process."""
        self._write_summary = write_summary
        self._seen = NOTHING
        self.per_second = NOTHING
        """The growth of each figure in a second, in the last full period."""
        self.entries_added = 0
        self.bytes_added = 0
        self.groups_added = 0
        self.add_errors = 0
        self.entries_read = 0
        self.bytes_read = 0
        self.reads = 0
        self.read_errors = 0
        self.entries_missed = 0
        self.write_latency = PeriodBuckets(LATENCY_BOUNDS_S)
        """By the time from the append to its confirmation, with the wait for a ledger."""
        self.ledger_write_latency = PeriodBuckets(LATENCY_BOUNDS_S)
        """By the part of that time in which a ledger had the entries."""
        self.entry_size = PeriodBuckets(SIZE_BOUNDS)
        self.switch_latency = PeriodBuckets(LATENCY_BOUNDS_S)
        """By the time that the change to a new ledger took."""

    def added(self, ledger_s: float, waited_s: float, entries: Sequence[bytes], size: int) -> None:
        """Counts a confirmed group of `size` payload bytes. `ledger_s` is the time that the ledger took, and `waited_s`
        the time that the group waited for a ledger before that.

        All entries of the group count with their average size. That is exact for a group of entries of one size, and
        puts some entries of a mixed group into a bucket next to their own.
        """
        count = len(entries)
        total_s = ledger_s + waited_s
        self.entries_added += count
        self.bytes_added += size
        self.groups_added += 1
        self._write_summary.add(total_s, count)
        self.write_latency.add(total_s, count)
        self.ledger_write_latency.add(ledger_s, count)
        self.entry_size.add(size / count, count)

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
            self.groups_added,
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
        totals = self.totals(mark_deletes)
        if totals == self._seen or elapsed_s <= 0:
            self.per_second = NOTHING
        else:
            pairs = zip(totals, self._seen, strict=True)
            self.per_second = Figures(*[max(0, now - before) / elapsed_s for now, before in pairs])
        self._seen = totals
        for buckets in (self.write_latency, self.ledger_write_latency, self.entry_size, self.switch_latency):
            buckets.roll()
