"""What the published dashboards and alert rules for Apache Pulsar ask for: names of metrics with the labels that their
queries filter or group by. Labels that Prometheus adds itself (job, instance, pod, …) are left out, and so is `cluster`
of bookies, which no bookie writes.

The sources, by the letters that `boards` has:

    S  streamnative/apache-pulsar-grafana-dashboard
    H  lhotari/pulsar-grafana-dashboards, which Apache's Helm chart installs
    A  apache/pulsar, grafana/dashboards
    D  datastax/pulsar-helm-chart
    R  the rules for Pulsar of samber/awesome-prometheus-alerts

The list has every name that these ask for and that Apache Pulsar 4.0.7 in standalone mode and a bookie 4.17.2 show. It
has none of the names of other features: functions, transactions, geo-replication, offloading, the proxy, ZooKeeper.
"""

from typing import NamedTuple


class Queried(NamedTuple):
    """A metric that dashboards ask for."""

    name: str
    labels: str
    """The labels that queries use, with blanks between them."""
    boards: str


def every(prefix: str, suffixes: str, labels: str, boards: str) -> list[Queried]:
    return [Queried(f"{prefix}{suffix}", labels, boards) for suffix in suffixes.split()]


OF_BROKERS = [
    *every("pulsar_", "version_info", "cluster", "SH"),
    *every("pulsar_", "topics_count", "cluster namespace", "SHAD"),
    *every("pulsar_", "subscriptions_count producers_count consumers_count", "cluster namespace topic", "SHAD"),
    *every("pulsar_", "rate_in rate_out throughput_in throughput_out", "cluster namespace topic", "SHAD"),
    *every("pulsar_", "msg_backlog", "cluster namespace topic", "SHAD"),
    *every("pulsar_", "storage_size", "cluster namespace topic", "SHADR"),
    *every("pulsar_storage_", "backlog_size backlog_quota_limit", "cluster namespace topic", "SHA"),
    *every("pulsar_storage_", "write_rate read_rate", "cluster namespace topic", "SHAD"),
    *every("pulsar_", "in_bytes_total in_messages_total", "cluster", "HD"),
    *every("pulsar_", "out_bytes_total out_messages_total", "cluster", "HD"),
    *every(
        "pulsar_storage_write_latency_",
        "le_0_5 le_1 le_5 le_10 le_20 le_50 le_100 le_200 le_1000 count",
        "cluster namespace topic",
        "SHAD",
    ),
    *every("pulsar_storage_write_latency_", "overflow", "cluster namespace topic", "SHADR"),
    *every(
        "pulsar_entry_size_",
        "le_128 le_512 le_1_kb le_2_kb le_4_kb le_16_kb le_100_kb le_1_mb",
        "cluster namespace topic",
        "SHAD",
    ),
    *every("pulsar_entry_size_", "le_overflow", "cluster namespace topic", "A"),
    *every("pulsar_subscription_", "back_log", "cluster namespace topic subscription", "SHADR"),
    *every(
        "pulsar_subscription_",
        "delayed msg_rate_out msg_rate_redeliver msg_throughput_out unacked_messages",
        "cluster namespace topic subscription",
        "SHAD",
    ),
    *every("pulsar_broker_", "publish_latency", "cluster quantile", "S"),
    *every(
        "pulsar_ml_cache_",
        "used_size hits_rate hits_throughput misses_rate misses_throughput evictions",
        "cluster",
        "HD",
    ),
    *every("pulsar_ml_", "AddEntryBytesRate", "cluster namespace", "D"),
    *every("pulsar_storage_", "offloaded_size", "cluster namespace topic", "SHD"),
]

OF_BROKERS_BY_KEY = every("pulsar_consumer_", "msg_rate_redeliver", "cluster namespace topic", "HD")
"""What Apache's broker has only with exposeConsumerLevelMetricsInPrometheus."""

NEVER_AT_APACHE = [
    *every("pulsar_entry_size_", "overflow", "cluster namespace topic", "SHADR"),
    *every("pulsar_storage_write_latency_", "le_overflow", "cluster namespace topic", "A"),
]
"""What dashboards ask for although no version of Apache's broker had it, and this broker has."""

OF_BOOKIES = [
    *every("bookie_", "SERVER_STATUS", "", "SHADR"),
    *every("bookie_", "ledger_writable_dirs", "", "SHAD"),
    *every("bookie_", "ledgers_count entries_count write_cache_size read_cache_size", "", "SHAD"),
    *every("bookie_", "READ_BYTES WRITE_BYTES", "", "SHAD"),
    *every("bookie_", "read_cache_hits read_cache_misses", "", "SH"),
    *every("bookie_journal_", "JOURNAL_SYNC JOURNAL_ADD_ENTRY", "quantile success", "SHAD"),
    *every("bookie_journal_", "JOURNAL_SYNC_count JOURNAL_ADD_ENTRY_count", "success", "SHAD"),
    *every("bookie_journal_", "JOURNAL_QUEUE_SIZE JOURNAL_FORCE_WRITE_QUEUE_SIZE", "", "SHAD"),
    *every("bookie_journal_", "JOURNAL_CB_QUEUE_SIZE", "", "SHAD"),
    *every("bookie_", "readahead_batch_count_count readahead_batch_count_sum", "", "HD"),
    *every("bookie_", "read_entry_count read_entry_sum", "", "HD"),
    *every("bookie_", "ACTIVE_ENTRY_LOG_TOTAL ACTIVE_LEDGER_TOTAL", "", "H"),
    *every("bookie_", "DELETED_LEDGER_TOTAL MINOR_COMPACTION_TOTAL MAJOR_COMPACTION_TOTAL", "", "SH"),
    *every("bookie_", "RECLAIMED_COMPACTION_SPACE_BYTES RECLAIMED_DELETION_SPACE_BYTES", "", "SHD"),
    *every("bookkeeper_server_", "ADD_ENTRY READ_ENTRY", "quantile success", "SHAD"),
    *every("bookkeeper_server_", "ADD_ENTRY_count READ_ENTRY_count", "success", "SHAD"),
    *every("bookkeeper_server_", "ADD_ENTRY_REQUEST READ_ENTRY_REQUEST", "quantile success", "SHAD"),
    *every("bookkeeper_server_", "ADD_ENTRY_REQUEST_count READ_ENTRY_REQUEST_count", "success", "SHAD"),
    *every("bookkeeper_server_", "ADD_ENTRY_IN_PROGRESS READ_ENTRY_IN_PROGRESS", "", "SH"),
    *every("bookkeeper_server_", "ADD_ENTRY_BLOCKED READ_ENTRY_BLOCKED", "", "SH"),
    *every("bookkeeper_server_", "thread_executor_queue", "thread", "S"),
]

OF_OLDER_BOOKIES = every(
    "bookie_",
    "read_cache_hits_count read_cache_misses_count DELETED_LEDGER_COUNT MINOR_COMPACTION_COUNT MAJOR_COMPACTION_COUNT "
    "ACTIVE_ENTRY_LOG_COUNT ACTIVE_LEDGER_COUNT",
    "",
    "SHD",
)
"""Names of older bookies that dashboards still ask for, and 4.17.2 does not have."""

OF_RECOVERY = [
    *every("auditor_", "NUM_UNDER_REPLICATED_LEDGERS_count", "success", "S"),
    *every("replication_worker_", "NUM_BYTES_READ_count NUM_BYTES_READ_sum NUM_BYTES_WRITTEN_sum", "success", "S"),
    *every("replication_worker_", "NUM_ENTRIES_READ NUM_ENTRIES_WRITTEN", "", "S"),
]
"""What the boards ask of auto-recovery in a process of its own."""

OF_LOAD_BALANCE = [
    *every(
        "pulsar_lb_",
        "cpu_usage memory_usage directMemory_usage bandwidth_in_usage bandwidth_out_usage",
        "broker cluster metric",
        "SHD",
    ),
    *every("pulsar_lb_", "unload_bundle_total unload_broker_total bundles_split_total", "cluster metric", "SH"),
    *every("pulsar_lb_", "unload_bundle_count unload_broker_count bundles_split_count", "cluster metric", "HD"),
]
"""What a broker of a cluster has; a standalone server has no load manager."""

OF_PROCESSES = [
    *every(
        "process_",
        "cpu_seconds_total open_fds resident_memory_bytes virtual_memory_bytes start_time_seconds",
        "",
        "SHD",
    ),
]

OF_JVMS = [
    *every("jvm_", "info", "", "H"),
    *every("jvm_", "memory_bytes_used memory_bytes_committed memory_bytes_max", "area", "SHAD"),
    *every("jvm_", "memory_direct_bytes_used memory_direct_bytes_max", "", "SHAD"),
    *every("jvm_", "memory_pool_bytes_used", "pool", "SHA"),
    *every("jvm_", "gc_collection_seconds_sum", "gc", "SHAD"),
    *every("jvm_", "classes_loaded threads_current threads_deadlocked pause_time_ms_sum", "", "SHA"),
    *every("jvm_", "threads_state", "state", "SHA"),
    *every(
        "caffeine_cache_",
        "hit_total miss_total eviction_total estimated_size loads_total load_duration_seconds_count "
        "load_duration_seconds_sum",
        "cache",
        "SH",
    ),
    *every("jetty_", "requests_total", "", "SHD"),
]
"""Metrics of a Java process, for which this broker has stand-ins (compat_tests/NOTES.md). Apache's broker has all but
two of them."""
