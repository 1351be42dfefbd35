"""How records were put together in the entries of logs of transactions, for metrics. Does no I/O.

The buckets are those of Apache's broker (TxnLogBufferedWriterMetricsStats).
"""

from enum import Enum

from pulsar_proto.histogram import Histogram


class Flush(Enum):
    """Why records that waited became an entry. Each value ends the name of a metric."""

    MAX_RECORDS = "max_records"
    MAX_SIZE = "max_size"
    MAX_DELAY = "max_delay"
    LARGE_DATA = "large_data"
    """A record came that is too large for a batch, and is stored alone, after those that waited."""


class BatchCounters:
    """The batches of all logs of one kind: those of coordinators, or those of pending acknowledgements. Entries that
    are no batches do not count."""

    __slots__ = ("delays_s", "flushes", "records", "sizes")

    def __init__(self) -> None:
        self.records = Histogram((10, 50, 100, 200, 500, 1_000))
        """How many records the batches have."""
        self.sizes = Histogram((128, 512, 1_024, 2_048, 4_096, 16_384, 102_400, 1_232_896))
        """How many bytes the records of a batch have together."""
        self.delays_s = Histogram((1, 5, 10))
        """How long the first record of a batch waited for the others, in seconds."""
        self.flushes = dict.fromkeys(Flush, 0)

    def flushed(self, reason: Flush, records: int, size: int, delay_s: float) -> None:
        self.flushes[reason] += 1
        self.records.add(records)
        self.sizes.add(size)
        self.delays_s.add(delay_s)
