"""The buckets of latencies and sizes by Pulsar's names, with a metric for each bucket.

Source: TopicStats.printTopicStats. Dashboards ask for two names that Apache's broker does not have:
`pulsar_entry_size_overflow` and `pulsar_storage_write_latency_le_overflow`. All buckets have their overflow under both
names here.
"""

from collections.abc import Sequence

from magnetar.server.process.metric_tables import Column, gauges

LATENCY_BUCKETS = ("0_5", "1", "5", "10", "20", "50", "100", "200", "1000")
SIZE_BUCKETS = ("128", "512", "1_kb", "2_kb", "4_kb", "16_kb", "100_kb", "1_mb")
MICROSECONDS = 1_000_000


def bucket_columns(name: str, buckets: tuple[str, ...]) -> tuple[Column, ...]:
    return gauges(
        *(f"{name}_le_{bucket}" for bucket in buckets),
        f"{name}_overflow",
        f"{name}_le_overflow",
        f"{name}_count",
        f"{name}_sum",
    )


def bucket_values(counts: Sequence[int], total: float) -> list[float]:
    """Returns the values of the columns of `bucket_columns`: the counts of a period, and `total` as the sum of what was
    counted."""
    return [*counts, counts[-1], sum(counts), round(total)]
