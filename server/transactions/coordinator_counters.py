"""What one transaction coordinator has done since it was opened, for its metrics. Does no I/O."""

from pulsar_proto.histogram import Histogram
from pulsar_proto.records.transaction_log import TxnStatus

LATENCY_BOUNDS_MS = (10, 20, 50, 100, 500, 1_000, 5_000, 15_000, 30_000, 60_000, 300_000, 1_500_000, 3_000_000)
"""The buckets of Apache's broker (TransactionMetadataStoreStats)."""


class CoordinatorCounters:
    """The counters of one coordinator."""

    __slots__ = ("aborted", "committed", "created", "lifetimes_ms", "timed_out")

    def __init__(self) -> None:
        self.created = 0
        self.committed = 0
        self.aborted = 0
        self.timed_out = 0
        self.lifetimes_ms = Histogram(LATENCY_BOUNDS_MS)
        """How long transactions lived, from their begin to their end."""

    def changed(self, status: TxnStatus, lifetime_ms: int) -> None:
        """Counts a transaction that has reached a final state."""
        if status is TxnStatus.COMMITTED:
            self.committed += 1
        elif status is TxnStatus.ABORTED:
            self.aborted += 1
        else:
            return
        self.lifetimes_ms.add(lifetime_ms)
