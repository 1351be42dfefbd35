"""The instruments of Pulsar's brokers: names, kinds, units and descriptions.

Sources: OpenTelemetryTopicStats, OpenTelemetryConsumerStats, OpenTelemetryProducerStats,
OpenTelemetryManagedLedgerStats, OpenTelemetryManagedLedgerCacheStats, OpenTelemetryManagedCursorStats,
BrokerOperabilityMetrics, BrokerService, TopicLookupBase and WebExecutorStats of Pulsar 4.0.7. compat_tests/NOTES.md
says which instruments of Apache's broker are missing here.
"""

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    COUNTER = "counter"
    """A sum that only grows."""
    SUM = "sum"
    """A sum that may also fall (UpDownCounter). Apache's broker reports some values of this kind that are no sums."""
    GAUGE = "gauge"


class Instrument(NamedTuple):
    name: str
    kind: Kind
    unit: str
    description: str


def _counter(name: str, unit: str, description: str) -> Instrument:
    return Instrument(f"pulsar.broker.{name}", Kind.COUNTER, unit, description)


def _sum(name: str, unit: str, description: str) -> Instrument:
    return Instrument(f"pulsar.broker.{name}", Kind.SUM, unit, description)


def _gauge(name: str, unit: str, description: str) -> Instrument:
    return Instrument(f"pulsar.broker.{name}", Kind.GAUGE, unit, description)


TRAFFIC = (
    _sum("topic.subscription.count", "{subscription}", "The number of subscriptions of the topic."),
    _sum("topic.producer.count", "{producer}", "The number of producers that are connected to the topic."),
    _sum("topic.consumer.count", "{consumer}", "The number of consumers that are connected to the topic."),
    _counter("topic.message.incoming.count", "{message}", "The number of messages that the topic received."),
    _counter("topic.message.incoming.size", "By", "The bytes of the messages that the topic received."),
    _counter("topic.message.outgoing.count", "{message}", "The number of messages that were sent to consumers."),
    _counter("topic.message.outgoing.size", "By", "The bytes of the messages that were sent to consumers."),
    _counter("topic.publish.rate.limit.count", "{event}", "How often the publish rate limit made producers wait."),
)
"""The instruments of every topic."""

STORAGE = (
    _sum("topic.storage.size", "By", "The stored bytes of the topic, with all copies."),
    _sum("topic.storage.logical.size", "By", "The stored bytes of the topic, each entry counted once."),
    _sum("topic.storage.backlog.size", "By", "The bytes of the slowest subscription's backlog."),
    _sum("topic.storage.offloaded.size", "By", "The bytes of the topic in tiered storage."),
    _counter("topic.storage.entry.outgoing.count", "{entry}", "The number of entries written to the storage."),
    _counter("topic.storage.entry.incoming.count", "{entry}", "The number of entries read from the storage."),
    _sum("topic.subscription.delayed.entry.count", "{entry}", "The number of messages that wait for their time."),
)
"""The instruments of persistent topics whose values can be added up over topics."""

STORAGE_LIMITS = (
    _sum("topic.storage.backlog.quota.limit.size", "By", "The backlog quota by size; -1 without one."),
    _gauge("topic.storage.backlog.quota.limit.time", "s", "The backlog quota by age; -1 without one."),
    _gauge("topic.storage.backlog.age", "s", "The age of the oldest unacknowledged message; -1 while unknown."),
)
"""The instruments of persistent topics whose values cannot be added up."""

EVICTIONS = (
    _counter(
        "topic.storage.backlog.quota.eviction.count", "{eviction}", "How often a backlog was cut because of its quota."
    ),
)

COMPACTION = (
    _counter("topic.compaction.removed.message.count", "{message}", "The number of messages that compaction dropped."),
    _sum("topic.compaction.duration", "s", "The time that the last compaction took."),
    _counter("topic.compaction.incoming.size", "By", "The bytes that compactions read."),
    _counter("topic.compaction.outgoing.size", "By", "The bytes that compactions wrote."),
)
COMPACTED = (
    _counter("topic.compaction.compacted.entry.count", "{entry}", "The number of entries of the compacted ledger."),
    _counter("topic.compaction.compacted.entry.size", "By", "The bytes of the compacted ledger."),
)
COMPACTION_RUNS = (_counter("topic.compaction.operation.count", "{operation}", "The number of compactions."),)

CONSUMER = (
    _counter("consumer.message.outgoing.count", "{message}", "The number of messages that the consumer was sent."),
    _counter("consumer.message.outgoing.size", "By", "The bytes of the messages that the consumer was sent."),
    _counter("consumer.message.ack.count", "{ack}", "The number of acknowledgements of the consumer."),
    _counter("consumer.message.redeliver.count", "{message}", "The number of messages that were sent to it again."),
    _sum("consumer.message.unack.count", "{message}", "The number of messages that it has not acknowledged."),
    _sum("consumer.blocked", "1", "Whether the consumer gets nothing because of its unacknowledged messages."),
    _sum("consumer.permit.count", "{permit}", "The number of messages that the consumer still takes."),
)

PRODUCER = (
    _counter("producer.message.incoming.count", "{message}", "The number of messages of the producer."),
    _counter("producer.message.incoming.size", "By", "The bytes of the messages of the producer."),
)

LEDGER = (
    _counter("managed_ledger.message.outgoing.logical.size", "By", "The bytes written, each entry counted once."),
    _counter("managed_ledger.message.outgoing.replicated.size", "By", "The bytes written, with all copies."),
    _sum("managed_ledger.backlog.count", "{message}", "The backlogs of all subscriptions."),
    _counter("managed_ledger.message.incoming.size", "By", "The bytes read from this managed ledger."),
    _sum("managed_ledger.message.incoming.cache.miss.count", "{operation}", "The entries that the cache lacked."),
    _counter("managed_ledger.mark_delete.count", "{operation}", "The changes of cursors."),
)
LEDGER_OPERATIONS = (
    _sum("managed_ledger.message.outgoing.count", "{operation}", "The number of writes."),
    _sum("managed_ledger.message.incoming.count", "{operation}", "The number of reads."),
)
CURSOR = (_sum("managed_ledger.message_range.count", "{range}", "The ranges acknowledged behind holes."),)

CACHE_ENTRIES = (_sum("managed_ledger.cache.entry.count", "{entry}", "The entries of the entry cache."),)
CACHE_OPERATIONS = (
    _counter("managed_ledger.cache.operation.count", "{entry}", "The entries that the cache gave or lacked."),
    _counter("managed_ledger.cache.operation.size", "{By}", "The bytes that the cache gave or lacked."),
)
CONNECTIONS = (_counter("connection.count", "{connection}", "The connections of clients."),)
CONNECTION_CREATIONS = (
    _counter("connection.create.operation.count", "{operation}", "The connections that clients tried to open."),
)
BROKER = (
    _sum("managed_ledger.count", "{managed_ledger}", "The number of open managed ledgers."),
    _sum("managed_ledger.cache.entry.size", "{By}", "The bytes of the entry cache."),
    _counter("managed_ledger.cache.eviction.count", "{eviction}", "How often entries left the cache for lack of room."),
    _sum("topic.load.concurrent.usage", "{operation}", "The topics that are being loaded."),
    _sum("topic.load.concurrent.limit", "{operation}", "How many topics may be loaded at once."),
    _sum("request.topic.lookup.concurrent.usage", "{operation}", "The lookups in progress."),
    _sum("request.topic.lookup.concurrent.limit", "{operation}", "How many lookups may be in progress at once."),
)
HTTP_LIMITS = (Instrument("pulsar.web.executor.thread.limit", Kind.SUM, "{thread}", "The limits of HTTP calls."),)
HTTP_CALLS = (Instrument("pulsar.web.executor.thread.usage", Kind.SUM, "{thread}", "The HTTP calls at once."),)
