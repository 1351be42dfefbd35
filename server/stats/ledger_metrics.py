"""The metrics of managed ledgers: the buckets of topics, the sums by namespace and domain, the cache, and cursors.

Sources: TopicStats.printTopicStats, ManagedLedgerMetrics, ManagedLedgerCacheMetrics, ManagedCursorMetrics; names as in
Pulsar 4.0.7.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from magnetar.server.stats.bucket_metrics import (
    LATENCY_BUCKETS,
    MICROSECONDS,
    SIZE_BUCKETS,
    bucket_columns,
    bucket_values,
)
from magnetar.server.stats.metric_tables import MetricFamilies, gauges
from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.ledger_traffic import NOTHING, Figures
from magnetar.storage.managed.period_buckets import LATENCY_BOUNDS_S, SIZE_BOUNDS

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


def topic_ledger_values(topic: Topic) -> Iterator[float]:
    """Yields the values of TOPIC_LEDGER_COLUMNS. Nothing is ever offloaded by this broker."""
    traffic = topic.ledger.traffic
    rates = traffic.per_second
    yield rates.entries_added
    yield rates.entries_read
    yield rates.entries_missed
    yield 0
    last = traffic.last
    yield from bucket_values(last.write_latencies, last.write_seconds * MICROSECONDS)
    yield from bucket_values(last.ledger_latencies, last.ledger_seconds * MICROSECONDS)
    yield from bucket_values(last.sizes, last.size_bytes)


class LedgerSums:
    """Adds up the managed ledgers of each namespace and domain, for `pulsar_ml_…{namespace="tenant/ns/persistent"}`."""

    def __init__(self) -> None:
        self._rates: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(Figures._fields))
        self._messages: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])
        self._buckets: dict[str, list[list[int]]] = {}

    def add(self, topic: Topic) -> None:
        traffic = topic.ledger.traffic
        key = f"{topic.name.namespace}/{topic.name.domain}"
        if traffic.per_second is not NOTHING:
            sums = self._rates[key]
            for index, value in enumerate(traffic.per_second):
                sums[index] += value
        of_messages = self._messages[key]
        of_messages[0] += topic.backlog_entries
        of_messages[1] += topic.stored_bytes
        of_messages[3] += traffic.per_second.bytes_added * topic.ledger.config.quorums[1]
        of_messages[2] += topic.publishing.counters.message_rate.value
        last = traffic.last
        lasts = (last.write_latencies, last.ledger_latencies, traffic.switch_latency.last, last.sizes)
        known = self._buckets.setdefault(key, [[0] * len(each) for each in lasts])
        for sums, counts in zip(known, lasts, strict=True):
            if any(counts):
                for index, count in enumerate(counts):
                    sums[index] += count

    def write(self, families: MetricFamilies) -> None:
        for key, (backlog, stored, messages, copied) in self._messages.items():
            labels = families.labels(namespace=key)
            rates = Figures(*self._rates[key])
            families.add_all(
                labels,
                (
                    ("pulsar_ml_AddEntryBytesRate", rates.bytes_added),
                    ("pulsar_ml_AddEntryWithReplicasBytesRate", copied),
                    ("pulsar_ml_AddEntryMessagesRate", messages),
                    ("pulsar_ml_AddEntryErrors", rates.add_errors),
                    ("pulsar_ml_AddEntrySucceed", rates.entries_added),
                    ("pulsar_ml_ReadEntriesRate", rates.entries_read),
                    ("pulsar_ml_ReadEntriesBytesRate", rates.bytes_read),
                    ("pulsar_ml_ReadEntriesErrors", rates.read_errors),
                    ("pulsar_ml_ReadEntriesSucceeded", rates.reads),
                    ("pulsar_ml_ReadEntriesOpsCacheMissesRate", rates.entries_missed),
                    ("pulsar_ml_MarkDeleteRate", rates.mark_deletes),
                    ("pulsar_ml_NumberOfMessagesInBacklog", backlog),
                    ("pulsar_ml_StoredMessagesSize", stored),
                ),
            )
            self._write_buckets(families, key)

    def _write_buckets(self, families: MetricFamilies, key: str) -> None:
        milliseconds = [1000 * bound for bound in LATENCY_BOUNDS_S]
        sizes = [float(bound) for bound in SIZE_BOUNDS]
        names = ("AddEntryLatencyBuckets", "LedgerAddEntryLatencyBuckets", "LedgerSwitchLatencyBuckets")
        bounds = [(f"pulsar_ml_{name}", milliseconds) for name in names] + [("pulsar_ml_EntrySizeBuckets", sizes)]
        for (name, upper), counts in zip(bounds, self._buckets[key], strict=True):
            for low, high, count in zip([0.0, *upper], upper, counts, strict=False):
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


CURSOR_COLUMNS = gauges("pulsar_ml_cursor_nonContiguousDeletedMessagesRange", "pulsar_ml_cursor_backlog")


def cursor_rows(topic: Topic, cluster: str) -> Iterator[tuple[dict[str, str], tuple[float, float]]]:
    """Yields (labels, values of CURSOR_COLUMNS) for each cursor of a topic, those of the topic itself included."""
    for name, cursor in topic.ledger.cursors.items():
        labels = {
            "cluster": cluster,
            "namespace": topic.name.namespace,
            "ledger_name": topic.ledger.name,
            "cursor_name": name,
        }
        yield labels, (cursor.number_of_holes, cursor.backlog)
