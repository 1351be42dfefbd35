"""The metrics of topics and of their producers, by Pulsar's names, and the choice between topics and sums.

Source: TopicStats.printTopicStats, AggregatedNamespaceStats; names as in Pulsar 4.0.7.
"""

from collections import defaultdict
from collections.abc import Sequence

from magnetar.server.process.metric_tables import MetricFamilies, counters, gauges
from magnetar.server.stats.compaction_stats import compaction_metrics
from magnetar.server.stats.ledger_metrics import TOPIC_LEDGER_COLUMNS, topic_ledger_values
from magnetar.server.stats.transaction_buffer_stats import transaction_metrics
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import ConsumerCounters, now_ms
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.topic import Topic

SUMMED = (
    "subscriptions_count",
    "producers_count",
    "consumers_count",
    "rate_in",
    "rate_out",
    "throughput_in",
    "throughput_out",
    "storage_size",
    "storage_logical_size",
    "msg_backlog",
)
"""The metrics that each topic has as `pulsar_…`, and the broker summed up as `pulsar_broker_…`."""

TRAFFIC_COLUMNS = (
    *gauges(*(f"pulsar_{name}" for name in SUMMED)),
    *counters("pulsar_in_messages_total", "pulsar_in_bytes_total"),
    *gauges("pulsar_publish_rate_limit_times", "pulsar_average_msg_size"),
)
"""The columns of every topic."""

STORAGE_COLUMNS = (
    *gauges(
        "pulsar_storage_backlog_size",
        "pulsar_storage_backlog_quota_limit",
        "pulsar_storage_backlog_quota_limit_time",
        "pulsar_storage_backlog_age_seconds",
        "pulsar_delayed_message_index_size_bytes",
        "magnetar_storage_unreadable_entries",
        "magnetar_storage_unreadable_entries_skipped",
    ),
    *TOPIC_LEDGER_COLUMNS,
)
"""The further columns of persistent topics."""

PRODUCER_COLUMNS = gauges(
    "pulsar_producer_msg_rate_in", "pulsar_producer_msg_throughput_in", "pulsar_producer_msg_average_Size"
)

BACKLOG_AT = SUMMED.index("msg_backlog")
"""Where the values of TRAFFIC_COLUMNS have the entries in the backlogs of all subscriptions together."""

OF_TOPICS_ONLY = (
    "pulsar_publish_rate_limit_times",
    "pulsar_average_msg_size",
    "pulsar_storage_backlog_quota_limit",
    "pulsar_storage_backlog_quota_limit_time",
    "pulsar_storage_backlog_age_seconds",
)
"""The columns whose sum over the topics of a namespace says nothing."""

OUT_TOTALS = counters("pulsar_out_messages_total", "pulsar_out_bytes_total")


def traffic_values(topic: BaseTopic, out: ConsumerCounters) -> list[float]:
    """Returns the values of TRAFFIC_COLUMNS. `out` holds the sums of all consumers of the topic."""
    publishing = topic.publishing
    counts = publishing.counters
    copies = topic.ledger.config.quorums[1] if isinstance(topic, Topic) else 1
    return [
        len(topic.subscriptions),
        len(publishing.by_name),
        topic.consumer_count,
        counts.message_rate.value,
        out.message_rate.value,
        counts.byte_rate.value,
        out.byte_rate.value,
        topic.stored_bytes * copies,  # ManagedLedgerMBeanImpl.getStoredMessagesSize
        topic.stored_bytes,  # getStoredMessagesLogicalSize
        topic.backlog_entries,
        counts.messages_in,
        counts.bytes_in,
        publishing.rate_limited_times,
        counts.average_size,
    ]


def storage_values(topic: Topic) -> list[float]:
    """Returns the values of STORAGE_COLUMNS."""
    quotas = topic.policies.backlog_quotas
    oldest_ms = topic.quota.oldest.known_ms()
    return [
        topic.backlog_size,
        quotas.destination_storage.limit,
        quotas.message_age.limit,
        -1 if oldest_ms is None else (now_ms() - oldest_ms) // 1000,
        topic.delayed.index.size_bytes if topic.delayed.index else 0,
        topic.ledger.gaps.entries,
        topic.ledger.gaps.entries_skipped,
        *topic_ledger_values(topic),
    ]


def producer_values(producer: Producer) -> tuple[float, float, float]:
    """Returns the values of PRODUCER_COLUMNS."""
    counts = producer.counters
    return counts.message_rate.value, counts.byte_rate.value, counts.average_size


def add_rare_metrics(families: MetricFamilies, labels: str, topic: Topic) -> None:
    """Adds the metrics that only few topics have: those of compaction, of transactions, and of evictions for a backlog
    quota."""
    if topic.compaction is not None:
        families.add_all(labels, compaction_metrics(topic.compaction))
    if topic.transactions is not None:
        for name, value, metric_type in transaction_metrics(topic.transactions):
            families.add(name, labels, value, metric_type)
    for kind, count in topic.quota.evictions.items():
        name = "pulsar_storage_backlog_quota_exceeded_evictions_total"
        families.add(name, f'{labels},quota_type="{kind}"', count, "counter")


class NamespaceSums:
    """Adds up the topics of each namespace, for brokers that do not show single topics
    (exposeTopicLevelMetricsInPrometheus=false)."""

    def __init__(self) -> None:
        self.columns = [*TRAFFIC_COLUMNS, *STORAGE_COLUMNS]
        self._sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * (len(self.columns) + len(OUT_TOTALS)))

    def add(self, topic: BaseTopic, values: Sequence[float], out: ConsumerCounters) -> None:
        """Adds a topic with its values of TRAFFIC_COLUMNS and, if it is persistent, STORAGE_COLUMNS."""
        sums = self._sums[topic.name.namespace]
        for index, value in enumerate(values):
            sums[index] += value
        sums[-2] += out.messages_out
        sums[-1] += out.bytes_out

    def write(self, families: MetricFamilies) -> None:
        for namespace, sums in self._sums.items():
            labels = families.labels(namespace=namespace)
            for column, value in zip([*self.columns, *OUT_TOTALS], sums, strict=True):
                if column.name == "pulsar_msg_backlog":
                    families.add(column.name, f'{labels},remote_cluster="local"', value)
                elif column.name not in OF_TOPICS_ONLY:
                    families.add(column.name, labels, value, column.kind)
