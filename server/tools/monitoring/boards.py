"""Our dashboards: the cluster at a glance, topics and subscriptions, and bookies."""

from magnetar.server.tools.monitoring.grafana import Dashboard, Panel, Query, Row, Variable

CLUSTER = Variable("cluster", "label_values(pulsar_version_info, cluster)")
NAMESPACE = Variable("namespace", 'label_values(pulsar_topics_count{cluster=~"$cluster"}, namespace)')
TOPIC = Variable("topic", 'label_values(pulsar_rate_in{cluster=~"$cluster", namespace=~"$namespace"}, topic)')
BOOKIE = Variable("bookie", "label_values(bookie_SERVER_STATUS, instance)")

OF_CLUSTER = 'cluster=~"$cluster"'
OF_TOPIC = 'cluster=~"$cluster", namespace=~"$namespace", topic=~"$topic"'
OF_BOOKIE = 'instance=~"$bookie"'


def by_broker(title: str, unit: str, metric: str, description: str = "") -> Panel:
    return Panel(title, unit, [Query(f"{metric}{{{OF_CLUSTER}}}", "{{instance}}")], description)


def summed(title: str, unit: str, *series: tuple[str, str], by: str = "", where: str = OF_CLUSTER) -> Panel:
    """Returns a panel with the sums of metrics. `series` are pairs of (metric, legend)."""
    of = f" by ({by})" if by else ""
    return Panel(title, unit, [Query(f"sum{of} ({metric}{{{where}}})", legend) for metric, legend in series])


def growth(title: str, unit: str, *series: tuple[str, str], by: str = "instance", where: str = OF_CLUSTER) -> Panel:
    """Returns a panel with how much counters grow in a second."""
    return Panel(
        title,
        unit,
        [Query(f"sum by ({by}) (rate({metric}{{{where}}}[$__rate_interval]))", legend) for metric, legend in series],
    )


def quantiles(title: str, unit: str, metric: str, where: str, wanted: tuple[str, ...] = ("0.5", "0.99")) -> Panel:
    queries = [
        Query(f'max by (instance) ({metric}{{{where}, quantile="{quantile}"}})', f"{{{{instance}}}} {quantile}")
        for quantile in wanted
    ]
    return Panel(title, unit, queries)


OVERVIEW = Dashboard(
    "overview.json",
    "Pulsar / overview",
    "The brokers of a cluster: traffic, latency, backlog, connections, memory.",
    [CLUSTER],
    [
        Row(
            "Traffic",
            [
                summed("Messages", "cps", ("pulsar_broker_rate_in", "in"), ("pulsar_broker_rate_out", "out")),
                summed("Bytes", "Bps", ("pulsar_broker_throughput_in", "in"), ("pulsar_broker_throughput_out", "out")),
                quantiles("Publish latency", "ms", "pulsar_broker_publish_latency", OF_CLUSTER, ("0.5", "0.99", "1.0")),
            ],
        ),
        Row(
            "What is there",
            [
                summed(
                    "Topics and clients",
                    "short",
                    ("pulsar_broker_topics_count", "topics"),
                    ("pulsar_broker_subscriptions_count", "subscriptions"),
                    ("pulsar_broker_producers_count", "producers"),
                    ("pulsar_broker_consumers_count", "consumers"),
                ),
                summed("Backlog", "short", ("pulsar_broker_msg_backlog", "entries")),
                summed("Stored", "bytes", ("pulsar_broker_storage_size", "bytes")),
            ],
        ),
        Row(
            "Brokers",
            [
                growth("CPU", "percentunit", ("process_cpu_seconds_total", "{{instance}}")),
                by_broker("Memory", "bytes", "process_resident_memory_bytes"),
                by_broker("Connections", "short", "pulsar_active_connections"),
                by_broker("Throttled connections", "short", "pulsar_broker_throttled_connections"),
                by_broker("Not yet sent to clients", "bytes", "pulsar_broker_pending_bytes_to_dispatch"),
                by_broker("Health check", "short", "pulsar_health", "1 healthy, 0 not, -1 not checked yet"),
            ],
        ),
        Row(
            "Entry cache",
            [
                by_broker("Size", "bytes", "pulsar_ml_cache_used_size"),
                Panel(
                    "Read from the cache and past it",
                    "Bps",
                    [
                        Query(f"sum (pulsar_ml_cache_hits_throughput{{{OF_CLUSTER}}})", "from the cache"),
                        Query(f"sum (pulsar_ml_cache_misses_throughput{{{OF_CLUSTER}}})", "from bookies"),
                    ],
                ),
                by_broker("Evictions in a period", "short", "pulsar_ml_cache_evictions"),
            ],
        ),
        Row(
            "Lookups and metadata",
            [
                growth("Lookups", "cps", ("pulsar_broker_lookup_answers_total", "{{instance}}")),
                growth("Failed lookups", "cps", ("pulsar_broker_lookup_failures_total", "{{instance}}")),
                Panel(
                    "Metadata store, 99 % of the calls take less",
                    "ms",
                    [
                        Query(
                            "histogram_quantile(0.99, sum by (le, type) "
                            f"(rate(pulsar_metadata_store_ops_latency_ms_bucket{{{OF_CLUSTER}}}[$__rate_interval])))",
                            "{{type}}",
                        )
                    ],
                ),
            ],
        ),
    ],
)

TOPICS = Dashboard(
    "topics.json",
    "Pulsar / topics and subscriptions",
    "Topics, and why a subscription gets nothing.",
    [CLUSTER, NAMESPACE, TOPIC],
    [
        Row(
            "Topics",
            [
                summed("Messages in", "cps", ("pulsar_rate_in", "{{topic}}"), by="topic", where=OF_TOPIC),
                summed("Messages out", "cps", ("pulsar_rate_out", "{{topic}}"), by="topic", where=OF_TOPIC),
                summed("Stored", "bytes", ("pulsar_storage_size", "{{topic}}"), by="topic", where=OF_TOPIC),
                Panel(
                    "Average size of a message",
                    "bytes",
                    [Query(f"avg by (topic) (pulsar_average_msg_size{{{OF_TOPIC}}})", "{{topic}}")],
                ),
                summed(
                    "Slow writes in a period",
                    "short",
                    ("pulsar_storage_write_latency_le_1000", "200 ms to 1 s"),
                    ("pulsar_storage_write_latency_overflow", "above 1 s"),
                    where=OF_TOPIC,
                ),
                summed(
                    "Throttled publishers",
                    "short",
                    ("pulsar_publish_rate_limit_times", "{{topic}}"),
                    by="topic",
                    where=OF_TOPIC,
                ),
            ],
        ),
        Row(
            "Subscriptions",
            [
                summed(
                    "Backlog",
                    "short",
                    ("pulsar_subscription_back_log", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
                Panel(
                    "Age of the oldest unacknowledged message",
                    "s",
                    [
                        Query(
                            "max by (topic, subscription) "
                            f"(pulsar_subscription_storage_backlog_age_seconds{{{OF_TOPIC}}})",
                            "{{topic}} {{subscription}}",
                        )
                    ],
                    "-1 until the next check of backlog quotas has read the message.",
                ),
                summed(
                    "Unacknowledged at consumers",
                    "short",
                    ("pulsar_subscription_unacked_messages", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
                summed(
                    "Acknowledged",
                    "cps",
                    ("pulsar_subscription_msg_ack_rate", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
                summed(
                    "Redelivered",
                    "cps",
                    ("pulsar_subscription_msg_rate_redeliver", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
                summed(
                    "Delayed",
                    "short",
                    ("pulsar_subscription_delayed", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
                summed(
                    "Consumers",
                    "short",
                    ("pulsar_subscription_consumers_count", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
                summed(
                    "Blocked on unacknowledged messages",
                    "short",
                    ("pulsar_subscription_blocked_on_unacked_messages", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
                summed(
                    "Acknowledged ranges behind holes",
                    "short",
                    ("magnetar_subscription_ack_holes", "{{topic}} {{subscription}}"),
                    by="topic, subscription",
                    where=OF_TOPIC,
                ),
            ],
        ),
    ],
)

BOOKIES = Dashboard(
    "bookies.json",
    "Pulsar / bookies",
    "Bookies: state, disks, journal, reads, garbage collection, copies.",
    [BOOKIE],
    [
        Row(
            "State",
            [
                Panel(
                    "State",
                    "short",
                    [Query(f"bookie_SERVER_STATUS{{{OF_BOOKIE}}}", "{{instance}}")],
                    "1 writable, 0 read-only, -1 not registered",
                ),
                Panel("Disk used", "percent", [Query(f"bookie_ledger_dir_usage{{{OF_BOOKIE}}}", "{{instance}}")]),
                Panel("Ledgers", "short", [Query(f"bookie_ledgers_count{{{OF_BOOKIE}}}", "{{instance}}")]),
            ],
        ),
        Row(
            "Adds",
            [
                growth("Entries", "cps", ("bookkeeper_server_ADD_ENTRY_count", "{{instance}}"), where=OF_BOOKIE),
                growth("Bytes", "Bps", ("bookie_WRITE_BYTES", "{{instance}}"), where=OF_BOOKIE),
                quantiles("Latency", "ms", "bookkeeper_server_ADD_ENTRY", f'{OF_BOOKIE}, success="true"'),
                quantiles("Journal sync", "ms", "bookie_journal_JOURNAL_SYNC", f'{OF_BOOKIE}, success="true"'),
                Panel(
                    "Groups in the journal's queue",
                    "short",
                    [Query(f"sum by (instance) (bookie_journal_JOURNAL_QUEUE_SIZE{{{OF_BOOKIE}}})", "{{instance}}")],
                ),
                Panel("Write cache", "bytes", [Query(f"bookie_write_cache_size{{{OF_BOOKIE}}}", "{{instance}}")]),
            ],
        ),
        Row(
            "Reads",
            [
                growth("Entries", "cps", ("bookkeeper_server_READ_ENTRY_count", "{{instance}}"), where=OF_BOOKIE),
                quantiles("Latency", "ms", "bookkeeper_server_READ_ENTRY", f'{OF_BOOKIE}, success="true"'),
                growth(
                    "Found in a cache, and not",
                    "cps",
                    ("bookie_read_cache_hits", "{{instance}} found"),
                    ("bookie_read_cache_misses", "{{instance}} not found"),
                    where=OF_BOOKIE,
                ),
            ],
        ),
        Row(
            "Upkeep",
            [
                growth(
                    "Space given back",
                    "Bps",
                    ("bookie_RECLAIMED_DELETION_SPACE_BYTES", "{{instance}} by deletion"),
                    ("bookie_RECLAIMED_COMPACTION_SPACE_BYTES", "{{instance}} by compaction"),
                    where=OF_BOOKIE,
                ),
                growth(
                    "Entries copied",
                    "cps",
                    ("replication_replication_worker_NUM_ENTRIES_WRITTEN", "{{instance}}"),
                    where=OF_BOOKIE,
                ),
                Panel(
                    "Ledgers that cannot be healed now",
                    "short",
                    [Query(f"magnetar_replication_worker_ledgers_held{{{OF_BOOKIE}}}", "{{instance}}")],
                ),
            ],
        ),
    ],
)

BOARDS = (OVERVIEW, TOPICS, BOOKIES)
