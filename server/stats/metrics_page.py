"""The page of /metrics: the metrics of Pulsar that this broker has, gathered at each scrape.

Nothing is counted only for this page but latencies and sizes; a scrape reads the counters of topics, subscriptions and
connections. A scrape reads many topics in portions, so that clients are served meanwhile, and the page is compressed as
it grows. Sources: NamespaceStatsAggregator, TopicStats, PrometheusMetricsGenerator; names and labels are those of
Pulsar 4.0.7.
"""

from typing import TYPE_CHECKING

from magnetar.server.process.compressed_text import CompressedText, compressed
from magnetar.server.process.metric_tables import MetricFamilies, MetricTable, escaped, label_text, page_text
from magnetar.server.process.turns import Turns, in_portions
from magnetar.server.stats import ledger_metrics, subscription_metrics, topic_metrics
from magnetar.server.stats.broker_metrics import add_broker, add_schemas
from magnetar.server.stats.pending_ack_stats import add_pending_ack_metrics
from magnetar.server.stats.process_metrics import add_process
from magnetar.server.topics.counters import ConsumerCounters, now_ms
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from pulsar_proto.system_topics import is_system_topic

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.topics.base_topic import BaseTopic
    from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def render(broker: "Broker") -> CompressedText:
    """Returns the whole page, compressed."""
    page = _Page(broker)
    async for topic in in_portions(broker.service.all_topics):
        page.add_topic(topic)
    families = page.families
    for namespace, count in page.topics_of.items():
        families.add("pulsar_topics_count", families.labels(namespace=namespace), count)
    if page.sums is not None:
        page.sums.write(families)
    if broker.metrics_settings.expose_managed_ledger_metrics_in_prometheus:
        page.ledgers.write(families)
    ledger_metrics.add_cache(families, broker.service.managed_ledgers)
    add_schemas(families, broker.service.schemas.registry.counters)
    page.add_totals()
    await Turns().run(add_broker(families, broker, page.totals, sum(page.topics_of.values())))
    await add_process(families, broker.service.managed_ledgers.cache)
    return await compressed(page_text(page.tables, families))


class _Page:
    """The samples of topics, subscriptions, producers and consumers, as far as the settings want them."""

    def __init__(self, broker: "Broker") -> None:
        self.families = MetricFamilies(cluster=broker.cluster)
        self.topics_of: dict[str, int] = {}
        """How many topics each namespace has."""
        self.totals: dict[str, float] = dict.fromkeys(topic_metrics.SUMMED, 0)
        """The sums over all topics, by what follows `pulsar_broker_` in their names."""
        self.totals |= dict.fromkeys(("storage_write_rate", "storage_read_rate", "storage_read_cache_misses_rate"), 0)
        self.ledgers = ledger_metrics.LedgerSums()
        self._settings = settings = broker.metrics_settings
        self._cluster = broker.cluster
        self.sums = None if settings.expose_topic_level_metrics_in_prometheus else topic_metrics.NamespaceSums()
        """The sums of each namespace; None if each topic has metrics of its own."""
        self._persistent = MetricTable([*topic_metrics.TRAFFIC_COLUMNS, *topic_metrics.STORAGE_COLUMNS])
        self._volatile = MetricTable(topic_metrics.TRAFFIC_COLUMNS)
        out = subscription_metrics.OUT_COLUMNS
        self._subscriptions = MetricTable([*out, *subscription_metrics.BACKLOG_COLUMNS])
        self._volatile_subscriptions = MetricTable(out)
        self._consumers = MetricTable(subscription_metrics.CONSUMER_COLUMNS)
        self._producers = MetricTable(topic_metrics.PRODUCER_COLUMNS)
        self._cursors = MetricTable(ledger_metrics.CURSOR_COLUMNS)
        self.tables = (
            self._persistent,
            self._volatile,
            self._subscriptions,
            self._volatile_subscriptions,
            self._consumers,
            self._producers,
            self._cursors,
        )
        self._now_ms = now_ms()
        self._bytes_in = {False: 0, True: 0}
        """The bytes that were published to ordinary topics and to system topics."""
        self._bytes_out = {False: 0, True: 0}
        self._evictions = {"size": 0, "time": 0}

    def add_topic(self, topic: "BaseTopic") -> None:
        """Adds the samples of a topic and all that belongs to it."""
        namespace = topic.name.namespace
        self.topics_of[namespace] = self.topics_of.get(namespace, 0) + 1
        out = topic.counters_out_removed()
        text = "" if self.sums is not None else label_text(**self._labels_of(topic))
        for name, subscription in topic.subscriptions.items():
            out.add(self._add_subscription(f'{text},subscription="{escaped(name)}"', topic, subscription))
        values = topic_metrics.traffic_values(topic, out)
        for name, value in zip(topic_metrics.SUMMED, values, strict=False):
            self.totals[name] += value
        of_system = is_system_topic(topic.name)
        self._bytes_in[of_system] += topic.publishing.counters.bytes_in
        self._bytes_out[of_system] += out.bytes_out
        if isinstance(topic, Topic):
            self._add_ledger(topic, int(values[topic_metrics.BACKLOG_AT]))
            values += topic_metrics.storage_values(topic)
        if self.sums is not None:
            self.sums.add(topic, values, out)
            return
        if isinstance(topic, Topic):
            self._persistent.add(text, values)
            topic_metrics.add_rare_metrics(self.families, text, topic)
        else:
            self._volatile.add(text, values)
        if self._settings.expose_producer_level_metrics_in_prometheus:
            for producer in topic.producers.values():
                of_producer = label_text(producer_name=producer.name, producer_id=str(producer.producer_id))
                self._producers.add(f"{text},{of_producer}", topic_metrics.producer_values(producer))

    def add_totals(self) -> None:
        """Adds the sums over all topics that have labels of their own."""
        for of_system, text in ((False, "false"), (True, "true")):
            incoming = self.families.labels(system_topic=text)
            self.families.add("pulsar_broker_in_bytes_total", incoming, self._bytes_in[of_system], "counter")
            outgoing = self.families.labels(system_subscription=text)
            self.families.add("pulsar_broker_out_bytes_total", outgoing, self._bytes_out[of_system], "counter")
        for kind, count in self._evictions.items():
            name = "pulsar_broker_storage_backlog_quota_exceeded_evictions_total"
            self.families.add(name, self.families.labels(quota_type=kind), count, "counter")

    def _labels_of(self, topic: "BaseTopic") -> dict[str, str]:
        labels = {"cluster": self._cluster, "namespace": topic.name.namespace}
        if not self._settings.split_topic_and_partition_label_in_prometheus:
            return {**labels, "topic": topic.name.full}
        return {**labels, "topic": topic.name.base.full, "partition": str(topic.name.partition_index)}

    def _add_ledger(self, topic: Topic, backlog: int) -> None:
        rates = topic.ledger.traffic.per_second
        self.totals["storage_write_rate"] += rates.entries_added
        self.totals["storage_read_rate"] += rates.entries_read
        self.totals["storage_read_cache_misses_rate"] += rates.entries_missed
        self.ledgers.add(topic, backlog)
        for kind, count in topic.quota.evictions.items():
            self._evictions[kind] += count
        if self._settings.expose_managed_cursor_metrics_in_prometheus:
            for labels, values in ledger_metrics.cursor_rows(topic, self._cluster):
                self._cursors.add(label_text(**labels), values)

    def _add_subscription(self, text: str, topic: "BaseTopic", subscription: "BaseSubscription") -> ConsumerCounters:
        """Adds a subscription, whose label set is `text`, and, if the settings want them, its consumers. Returns the
        sums of the consumers."""
        out = subscription.counters_out()
        if self.sums is not None:
            return out
        values = subscription_metrics.out_values(subscription, out)
        if isinstance(subscription, Subscription):
            assert isinstance(topic, Topic)
            age_s = topic.backlog_ages.age_seconds(subscription.cursor, self._now_ms)
            values += subscription_metrics.backlog_values(subscription, age_s)
            self._subscriptions.add(text, values)
            subscription_metrics.add_throttling(self.families, text, subscription)
            if subscription.pending_acks is not None:
                labels = {**self._labels_of(topic), "subscription": subscription.name}
                add_pending_ack_metrics(self.families, labels, subscription.pending_acks)
        else:
            self._volatile_subscriptions.add(text, values)
        if self._settings.expose_consumer_level_metrics_in_prometheus:
            for consumer in subscription.consumers:
                of_consumer = label_text(consumer_name=consumer.name, consumer_id=str(consumer.consumer_id))
                self._consumers.add(f"{text},{of_consumer}", subscription_metrics.consumer_values(consumer))
        return out
