"""The metrics of managed ledgers: the buckets of topics, the sums by namespace and domain, the cache, and cursors.

Sources: TopicStats.printTopicStats, ManagedLedgerMetrics, ManagedLedgerCacheMetrics, ManagedCursorMetrics; names as in
Pulsar 4.0.7.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from magnetar.server.process.metric_tables import MetricFamilies, gauges
from magnetar.server.stats.bucket_metrics import (
    LATENCY_BUCKETS,
    MICROSECONDS,
    SIZE_BUCKETS,
    bucket_columns,
    bucket_values,
)
from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.ledger_traffic import IDLE, NOTHING, Figures
from magnetar.storage.managed.period_buckets import LATENCY_BOUNDS_S, NO_LATENCIES, NO_SIZES, SIZE_BOUNDS

if TYPE_CHECKING:
    from magnetar.storage.managed.factory import ManagedLedgerFactory

TOPIC_LEDGER_COLUMNS = (
    *gauges(
        "pulsar_storage_write_rate",
        "pulsar_storage_read_rate",
        "pulsar_storage_read_cache_misses_rate",
        "pulsar_storage_offloaded_size",
    ),
    *bucket_columns("pulsar_storage_write_latency", LATENCY_BUCKETS),
    *bucket_columns("pulsar_storage_ledger_write_latency", LATENCY_BUCKETS),
    *bucket_columns("pulsar_entry_size", SIZE_BUCKETS),
)


_IDLE_VALUES = (0,) * len(TOPIC_LEDGER_COLUMNS)


def topic_ledger_values(topic: Topic) -> Sequence[float]:
    """Returns the values of TOPIC_LEDGER_COLUMNS. Nothing is ever offloaded by this broker."""
    traffic = topic.ledger.traffic
    rates, last = traffic.per_second, traffic.last
    if rates is NOTHING and last is IDLE:
        return _IDLE_VALUES
    return [
        rates.entries_added,
        rates.entries_read,
        rates.entries_missed,
        0,
        *bucket_values(last.write_latencies, last.write_seconds * MICROSECONDS),
        *bucket_values(last.ledger_latencies, last.ledger_seconds * MICROSECONDS),
        *bucket_values(last.sizes, last.size_bytes),
    ]


@dataclass(slots=True)
class _OfNamespace:
    """The sums over the managed ledgers of one namespace and domain."""

    rates: list[float] = field(default_factory=lambda: [0.0] * len(Figures._fields))
    bytes_of_all_copies: float = 0.0
    messages: float = 0.0
    backlog: int = 0
    stored: int = 0
    buckets: tuple[list[int], ...] = field(
        default_factory=lambda: (
            list(NO_LATENCIES),
            list(NO_LATENCIES),
            list(NO_LATENCIES),
            list(NO_SIZES),
        )
    )
    """The counts in the order of BUCKETS."""


BUCKETS = (
    ("pulsar_ml_AddEntryLatencyBuckets", [1000 * bound for bound in LATENCY_BOUNDS_S]),
    ("pulsar_ml_LedgerAddEntryLatencyBuckets", [1000 * bound for bound in LATENCY_BOUNDS_S]),
    ("pulsar_ml_LedgerSwitchLatencyBuckets", [1000 * bound for bound in LATENCY_BOUNDS_S]),
    ("pulsar_ml_EntrySizeBuckets", [float(bound) for bound in SIZE_BOUNDS]),
)
"""The metrics with buckets, and their bounds in milliseconds or bytes."""


class LedgerSums:
    """Adds up the managed ledgers of each namespace and domain, for `pulsar_ml_…{namespace="tenant/ns/persistent"}`."""

    def __init__(self) -> None:
        self._of: dict[str, _OfNamespace] = defaultdict(_OfNamespace)

    def add(self, topic: Topic, backlog: int) -> None:
        """Adds a topic, whose subscriptions have a backlog of so many entries together."""
        traffic, sums = topic.ledger.traffic, self._of[f"{topic.name.namespace}/{topic.name.domain}"]
        sums.messages += topic.publishing.counters.message_rate.value
        sums.backlog += backlog
        sums.stored += topic.stored_bytes * topic.ledger.config.quorums[1]
        if traffic.per_second is not NOTHING:
            sums.rates = [one + other for one, other in zip(sums.rates, traffic.per_second, strict=True)]
            sums.bytes_of_all_copies += traffic.per_second.bytes_added * topic.ledger.config.quorums[1]
        last = traffic.last
        lasts = (last.write_latencies, last.ledger_latencies, traffic.switch_latency.last, last.sizes)
        for known, counts in zip(sums.buckets, lasts, strict=True):
            if counts is not NO_LATENCIES and counts is not NO_SIZES:
                known[:] = [one + other for one, other in zip(known, counts, strict=True)]

    def write(self, families: MetricFamilies) -> None:
        for key, sums in self._of.items():
            rates = Figures(*sums.rates)
            families.add_all(
                families.labels(namespace=key),
                (
                    ("pulsar_ml_AddEntryBytesRate", rates.bytes_added),
                    ("pulsar_ml_AddEntryWithReplicasBytesRate", sums.bytes_of_all_copies),
                    ("pulsar_ml_AddEntryMessagesRate", sums.messages),
                    ("pulsar_ml_AddEntryErrors", rates.add_errors),
                    ("pulsar_ml_AddEntrySucceed", rates.entries_added),
                    ("pulsar_ml_ReadEntriesRate", rates.entries_read),
                    ("pulsar_ml_ReadEntriesBytesRate", rates.bytes_read),
                    ("pulsar_ml_ReadEntriesErrors", rates.read_errors),
                    ("pulsar_ml_ReadEntriesSucceeded", rates.reads),
                    ("pulsar_ml_ReadEntriesOpsCacheMissesRate", rates.entries_missed),
                    ("pulsar_ml_MarkDeleteRate", rates.mark_deletes),
                    ("pulsar_ml_NumberOfMessagesInBacklog", sums.backlog),
                    ("pulsar_ml_StoredMessagesSize", sums.stored),
                ),
            )
            for (name, bounds), counts in zip(BUCKETS, sums.buckets, strict=True):
                for low, high, count in zip([0.0, *bounds[:-1]], bounds, counts[:-1], strict=True):
                    families.add(name, families.labels(namespace=key, quantile=f"{low}_{high}"), count)
                families.add(f"{name}_OVERFLOW", families.labels(namespace=key), counts[-1])


def add_cache(families: MetricFamilies, factory: "ManagedLedgerFactory") -> None:
    """Adds the metrics of the entry cache. Reads from bookies have no limit in bytes here, so -1 stands for the bytes
    that reads may still take."""
    labels = families.labels()
    cache, rates = factory.cache, factory.cache_rates.per_second
    families.add_all(
        labels,
        (
            ("pulsar_ml_count", len(factory.ledgers)),
            ("pulsar_ml_cache_used_size", cache.bytes_held),
            ("pulsar_ml_cache_hits_rate", rates.hit_entries),
            ("pulsar_ml_cache_hits_throughput", rates.hit_bytes),
            ("pulsar_ml_cache_misses_rate", rates.missed_entries),
            ("pulsar_ml_cache_misses_throughput", rates.missed_bytes),
            ("pulsar_ml_cache_evictions", rates.evictions),
            ("pulsar_ml_cache_entries", cache.entries_added - cache.entries_evicted),
            ("pulsar_ml_reads_inflight_bytes", 0),
            ("pulsar_ml_reads_available_inflight_bytes", -1),
        ),
    )
    families.add("pulsar_ml_cache_inserted_entries_total", labels, cache.entries_added, "counter")
    families.add("pulsar_ml_cache_evicted_entries_total", labels, cache.entries_evicted, "counter")


CURSOR_COLUMNS = gauges("pulsar_ml_cursor_nonContiguousDeletedMessagesRange")


def cursor_rows(topic: Topic, cluster: str) -> Iterator[tuple[dict[str, str], tuple[float]]]:
    """Yields (labels, values of CURSOR_COLUMNS) for each cursor of a topic, those of the topic itself included."""
    for name, cursor in topic.ledger.cursors.items():
        labels = {
            "cluster": cluster,
            "namespace": topic.name.namespace,
            "ledger_name": topic.ledger.name,
            "cursor_name": name,
        }
        yield labels, (cursor.number_of_holes,)
