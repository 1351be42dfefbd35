"""Gathers the points of one export on the event loop, from the counters that the page of /metrics reads, too.

Attributes are those of OpenTelemetryAttributes in Pulsar 4.0.7. A partition has the name of its partitioned topic, and
the number of the partition as an attribute of its own.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.server.process.turns import in_portions
from magnetar.server.telemetry import instruments
from magnetar.server.telemetry.points import Attributes, PointTable
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.topic import Topic
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker
    from magnetar.server.compaction.topic_compaction import TopicCompaction
    from magnetar.server.topics.base_topic import BaseTopic


async def gather(broker: "Broker") -> Sequence[PointTable]:
    """Returns the points of all instruments, always with the same tables in the same order."""
    points = Points()
    async for topic in in_portions(broker.service.all_topics):
        points.add_topic(topic)
    points.add_broker(broker)
    return points.tables


class Points:
    """The tables of one export."""

    def __init__(self) -> None:
        self._traffic = PointTable(instruments.TRAFFIC)
        self._storage = PointTable(instruments.STORAGE)
        self._limits = PointTable(instruments.STORAGE_LIMITS, can_be_summed=False)
        self._evictions = PointTable(instruments.EVICTIONS)
        self._compaction = PointTable(instruments.COMPACTION)
        self._compacted = PointTable(instruments.COMPACTED)
        self._runs = PointTable(instruments.COMPACTION_RUNS)
        self._consumers = PointTable(instruments.CONSUMER)
        self._producers = PointTable(instruments.PRODUCER)
        self._ledgers = PointTable(instruments.LEDGER)
        self._operations = PointTable(instruments.LEDGER_OPERATIONS)
        self._cursors = PointTable(instruments.CURSOR)
        self._broker = PointTable(instruments.BROKER)
        self._cache_entries = PointTable(instruments.CACHE_ENTRIES)
        self._cache_operations = PointTable(instruments.CACHE_OPERATIONS)
        self._connections = PointTable(instruments.CONNECTIONS)
        self._creations = PointTable(instruments.CONNECTION_CREATIONS)
        self._http_limits = PointTable(instruments.HTTP_LIMITS)
        self._http_calls = PointTable(instruments.HTTP_CALLS)
        self.tables: Sequence[PointTable] = [each for each in vars(self).values() if isinstance(each, PointTable)]

    def add_topic(self, topic: "BaseTopic") -> None:
        """Adds a topic with its consumers, producers and, if it is persistent, its managed ledger."""
        attributes, out = topic_attributes(topic.name), topic.counters_out()
        for subscription in topic.subscriptions.values():
            self._add_consumers(attributes, subscription)
        for producer in topic.producers.values():
            self._add_producer(attributes, producer)
        publishing = topic.publishing
        self._traffic.add(
            attributes,
            len(topic.subscriptions),
            len(publishing.by_name),
            topic.consumer_count,
            publishing.counters.messages_in,
            publishing.counters.bytes_in,
            out.messages_out,
            out.bytes_out,
            publishing.rate_limited_times,
        )
        if isinstance(topic, Topic):
            self._add_storage(attributes, topic)
            self._add_ledger(topic)
            if topic.compaction is not None:
                self._add_compaction(attributes, topic.compaction)

    def _add_consumers(self, of_topic: Attributes, subscription: BaseSubscription) -> None:
        for consumer in subscription.consumers:
            counts = consumer.counters
            self._consumers.add(
                {
                    **of_topic,
                    "pulsar.subscription.name": subscription.name,
                    "pulsar.subscription.type": subscription.type_name,
                    "pulsar.consumer.name": consumer.name,
                    "pulsar.consumer.id": consumer.consumer_id,
                },
                counts.messages_out,
                counts.bytes_out,
                counts.acks,
                counts.redelivered,
                consumer.unacked_messages,
                int(consumer.blocked),
                consumer.permits,
            )

    def _add_producer(self, of_topic: Attributes, producer: Producer) -> None:
        self._producers.add(
            {
                **of_topic,
                "pulsar.producer.name": producer.name,
                "pulsar.producer.id": producer.producer_id,
                "pulsar.producer.access_mode": pb.ProducerAccessMode.Name(producer.access_mode).lower(),
            },
            producer.counters.messages_in,
            producer.counters.bytes_in,
        )

    def _add_storage(self, attributes: Attributes, topic: Topic) -> None:
        traffic, quotas, oldest_ms = topic.ledger.traffic, topic.policies.backlog_quotas, topic.quota.oldest.known_ms()
        self._storage.add(
            attributes,
            topic.stored_bytes * topic.ledger.config.quorums[1],
            topic.stored_bytes,
            topic.backlog_size,
            0,  # Nothing is ever offloaded by this broker.
            traffic.entries_added,
            traffic.entries_read,
            sum(each.delayed_messages for each in topic.subscriptions.values()),
        )
        self._limits.add(
            attributes,
            quotas.destination_storage.limit,
            quotas.message_age.limit,
            -1 if oldest_ms is None else (now_ms() - oldest_ms) // 1000,
        )
        for kind in ("size", "time"):
            self._evictions.add({**attributes, "pulsar.backlog.quota.type": kind}, topic.quota.evictions.get(kind, 0))

    def _add_compaction(self, attributes: Attributes, compaction: "TopicCompaction") -> None:
        """Adds the compactions of a topic that was compacted since it was loaded."""
        counts, opened = compaction.counters, compaction.opened
        if counts.succeeded or counts.failed:
            self._compaction.add(
                attributes, counts.removed, counts.last_duration_ms / 1000, counts.read_bytes, counts.written_bytes
            )
            for status, count in (("success", counts.succeeded), ("failure", counts.failed)):
                self._runs.add({**attributes, "pulsar.compaction.status": status}, count)
        if opened is not None:
            self._compacted.add(attributes, opened.entries, opened.size_bytes)

    def _add_ledger(self, topic: Topic) -> None:
        ledger, traffic = topic.ledger, topic.ledger.traffic
        attributes = {"pulsar.namespace": topic.name.namespace, "pulsar.managed_ledger.name": ledger.name}
        changes = 0
        for name, cursor in ledger.cursors.items():
            changes += cursor.changes
            self._cursors.add({**attributes, "pulsar.managed_ledger.cursor.name": name}, cursor.number_of_holes)
        self._ledgers.add(
            attributes,
            traffic.bytes_added,
            traffic.bytes_added * ledger.config.quorums[1],
            topic.backlog_entries,
            traffic.bytes_read,
            traffic.entries_missed,
            changes,
        )
        status = "pulsar.managed_ledger.operation.status"
        self._operations.add({**attributes, status: "success"}, traffic.entries_added, traffic.reads)
        self._operations.add({**attributes, status: "failure"}, traffic.add_errors, traffic.read_errors)

    def add_broker(self, broker: "Broker") -> None:
        """Adds what the broker counts as a whole."""
        factory, clients, http = broker.service.managed_ledgers, broker.clients, broker.http_calls
        cache = factory.cache
        self._broker.add(
            {},
            len(factory.ledgers),
            cache.bytes_held,
            cache.evictions,
            broker.service.load_permits.held,
            broker.service.settings.max_concurrent_topic_load_request,
            broker.lookups_in_progress,
            broker.limits.max_concurrent_lookup_request,
        )
        _by_status(
            self._cache_entries,
            "pulsar.managed_ledger.cache.entry.status",
            active=(cache.entries_added - cache.entries_evicted,),
            inserted=(cache.entries_added,),
            evicted=(cache.entries_evicted,),
        )
        _by_status(
            self._cache_operations,
            "pulsar.managed_ledger.cache.operation.status",
            hit=(cache.hit_entries, cache.hit_bytes),
            miss=(cache.missed_entries, cache.missed_bytes),
        )
        _by_status(
            self._connections,
            "pulsar.connection.status",
            active=(clients.active,),
            open=(clients.created,),
            close=(clients.closed,),
        )
        _by_status(
            self._creations,
            "pulsar.connection.create.operation.status",
            success=(clients.accepted,),
            failure=(clients.refused,),
        )
        limit, usage = "pulsar.web.executor.thread.limit.type", "pulsar.web.executor.thread.usage.type"
        _by_status(self._http_limits, limit, min=(0,), max=(http.calls_max,))
        _by_status(
            self._http_calls,
            usage,
            active=(http.in_progress,),
            current=(http.in_progress,),
            idle=(http.calls_max - http.in_progress,),
        )


def topic_attributes(name: TopicName) -> Attributes:
    """Returns the attributes of a topic or a partition."""
    attributes: dict[str, str | int] = {
        "pulsar.domain": name.domain,
        "pulsar.tenant": name.tenant,
        "pulsar.namespace": name.namespace,
        "pulsar.topic": name.base.full,
    }
    if name.is_partition:
        attributes["pulsar.partition.index"] = name.partition_index
    return attributes


def _by_status(table: PointTable, attribute: str, **values: Sequence[float]) -> None:
    for status, each in values.items():
        table.add({attribute: status}, *each)
