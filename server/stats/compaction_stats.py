"""The stats and metrics of a topic's compaction. The names are those of CompactionStatsImpl,
PersistentTopicInternalStats and CompactorMXBeanImpl, as Pulsar 4.0.7 answers them.
"""

from collections.abc import Iterator

from magnetar.server.compaction.topic_compaction import TopicCompaction
from magnetar.server.stats.bucket_metrics import LATENCY_BUCKETS, MICROSECONDS, bucket_columns, bucket_values


def compaction_stats(compaction: TopicCompaction | None) -> dict[str, int]:
    """Returns the member `compaction` of the answer to `…/stats`."""
    counters = None if compaction is None else compaction.counters
    return {
        "lastCompactionRemovedEventCount": counters.last_removed if counters else 0,
        "lastCompactionSucceedTimestamp": counters.last_succeeded_ms if counters else 0,
        "lastCompactionFailedTimestamp": counters.last_failed_ms if counters else 0,
        "lastCompactionDurationTimeInMills": counters.last_duration_ms if counters else 0,
    }


def compacted_ledger_stats(compaction: TopicCompaction | None) -> dict[str, object]:
    """Returns the member `compactedLedger` of the answer to `…/internalStats`, which describes the compacted ledger in
    use. The number of entries and the size are shown as -1 until the ledger has been read."""
    opened = None if compaction is None else compaction.opened
    ledger_id = None if compaction is None else compaction.ledger_id
    return {
        "ledgerId": -1 if ledger_id is None else ledger_id,
        "entries": opened.entries if opened else -1,
        "size": opened.size_bytes if opened else -1,
        "offloaded": False,
        "underReplicated": False,
    }


def compaction_metrics(compaction: TopicCompaction) -> Iterator[tuple[str, float]]:
    """Yields (name, value) for the metrics of a topic's compaction. The metrics of compactions come once the topic was
    compacted since it was loaded, and the metrics of the compacted ledger come while that ledger is open."""
    counters = compaction.counters
    if counters.succeeded or counters.failed:
        yield "pulsar_compaction_removed_event_count", counters.removed
        yield "pulsar_compaction_succeed_count", counters.succeeded
        yield "pulsar_compaction_failed_count", counters.failed
        yield "pulsar_compaction_duration_time_in_mills", counters.last_duration_ms
        seconds = max(counters.last_duration_ms, 1) / 1000
        yield "pulsar_compaction_read_throughput", counters.last_read_bytes / seconds
        yield "pulsar_compaction_write_throughput", counters.last_written_bytes / seconds
    latency = counters.write_latency
    if latency is not None:
        names = [column.name for column in bucket_columns("pulsar_compaction_latency", LATENCY_BUCKETS)]
        yield from zip(names, bucket_values(latency.last, latency.last_seconds * MICROSECONDS), strict=True)
    opened = compaction.opened
    if opened is not None:
        yield "pulsar_compaction_compacted_entries_count", opened.entries
        yield "pulsar_compaction_compacted_entries_size", opened.size_bytes
