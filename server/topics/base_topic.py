"""The base of persistent and non-persistent topics: names, policies, producers, and the admission of consumers.

Source: AbstractTopic.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import Enum

from magnetar.server.compaction.topic_compaction import COMPACTION_CURSOR
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import EffectivePolicies, of_broker
from magnetar.server.process.left_objects import leave
from magnetar.server.topics.client_connection import ClientConnection
from magnetar.server.topics.counters import ConsumerCounters, now_ms
from magnetar.server.topics.inactivity_rules import TopicUse
from magnetar.server.topics.liveness import close_dead
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.publishing.publish_limiter import PublishLimiter
from magnetar.server.topics.publishing.receipt_writers import ReceiptWriter
from magnetar.server.topics.publishing.send_rules import SendChecks
from magnetar.server.topics.publishing.topic_producers import TopicProducers
from magnetar.server.topics.refusals import Refusals
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.consumer_owner import SubscriptionCursor
from magnetar.server.topics.subscriptions.subscribe_rate_rules import (
    CONSUMER_NAME_MAX,
    ConsumerIdentity,
    SubscribeLimiter,
)
from magnetar.server.topics.topic_schemas import TopicSchemas
from magnetar.server.topics.transactions.transaction_buffer import TransactionBuffer
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import ConsumerBusy, MetadataFault, NotAllowed, ProducerBusy, PulsarError, ServiceNotReady
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

log = logging.getLogger(__name__)

RESERVED_PREFIXES = ("pulsar.repl", "pulsar.dedup")
SYSTEM_CURSORS = (COMPACTION_CURSOR, "transaction.subscription", "__pending_ack_state")
"""Cursors that belong to the topic itself and are no subscriptions. Cursors whose names begin with one of
RESERVED_PREFIXES belong to the topic, too."""


NO_NAMES_OF_RECORDS = (".", "..")
"""No subscription may have one of these two names: the metadata store keeps a record under each subscription's name,
and would take `.` and `..` for steps of a path."""


def is_reserved(subscription: str) -> bool:
    """Whether the name is reserved for a cursor of the topic itself. No client may subscribe under a reserved name. A
    consumer on the compaction cursor could acknowledge messages that compaction has not seen, and these messages would
    be lost. (Apache's PulsarCompactorSubscription accepts only acknowledgements that name a compacted ledger.)"""
    return subscription.startswith(RESERVED_PREFIXES) or subscription in (*SYSTEM_CURSORS, *NO_NAMES_OF_RECORDS)


class TopicState(Enum):
    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


class BaseTopic(ABC):
    """The base of all topics. `TopicOpener` and `NonPersistentTopics` create topics. Every method is called on the
    loop's thread. The subclass sets `publishing` and `subscriptions`."""

    __slots__ = (
        "__weakref__",
        "_refusals",
        "_subscribe_limiter",
        "broker_limiter",
        "bytes_out_removed",
        "created_ms",
        "last_active_s",
        "messages_out_removed",
        "name",
        "policies",
        "schemas",
        "settings",
        "state",
    )

    publishing: TopicProducers
    subscriptions: Mapping[str, BaseSubscription]
    """Name -> subscription, for the topic's subscriptions."""

    def __init__(self, name: TopicName, settings: TopicSettings, policies: EffectivePolicies | None) -> None:
        """`policies` are the topic's first policies; `set_policies` replaces them later. By default the first policies
        are those of `settings`."""
        self.name = name
        self.settings = settings
        self.policies = policies or of_broker(settings)
        """The policies that hold now. Code that needs a policy reads the policy from here, never from `settings`."""
        self.state = TopicState.OPEN
        self.created_ms = now_ms()
        self.schemas: TopicSchemas | None = None
        """The schemas of all topics, set by `TopicOpener.equip`. None means that schemas are neither stored nor
        checked."""
        self.broker_limiter: PublishLimiter | None = None
        """The broker's limit for publishing to all topics together; set by `TopicOpener.equip`."""
        self._refusals: Refusals | None = None
        self._subscribe_limiter: SubscribeLimiter | None = None
        self.last_active_s = time.monotonic()
        """When the periodic jobs (`server/upkeep`) last saw the topic in use, in seconds of the monotonic clock."""
        self.messages_out_removed = self.bytes_out_removed = 0
        """What was sent to subscriptions that were removed since."""

    def __str__(self) -> str:
        return self.name.full

    @property
    def refusals(self) -> Refusals:
        """The clients that this topic refused last, for people who ask why a client gets nothing."""
        if self._refusals is None:
            self._refusals = Refusals()
        return self._refusals

    @property
    def is_open(self) -> bool:
        return self.state is TopicState.OPEN

    @property
    def producers(self) -> dict[str, Producer]:
        return self.publishing.by_name

    @property
    @abstractmethod
    def is_terminated(self) -> bool:
        """Whether the topic takes no more messages."""

    @property
    def consumer_count(self) -> int:
        return sum(len(subscription.consumers) for subscription in self.subscriptions.values())

    @property
    def consumers_with_schema(self) -> int:
        """How many connected consumers have a schema of their own. Consumers that take any schema (AUTO_CONSUME) do not
        count."""
        subscriptions = self.subscriptions.values()
        return sum(not consumer.takes_any_schema for each in subscriptions for consumer in each.consumers)

    @property
    def stored_bytes(self) -> int:
        """The size of the stored messages, in bytes. Each message counts once."""
        return 0

    @property
    def backlog_entries(self) -> int:
        """The sum of the backlogs of all durable subscriptions, in entries."""
        return 0

    def use(self) -> TopicUse:
        """Returns how the topic is used now: its clients and its backlog."""
        producers = len(self.publishing.by_name) + len(self.publishing.access.waiting)
        return TopicUse(producers, self.consumer_count, len(self.subscriptions), self.backlog_entries)

    # --- policies ----------------------------------------------------------------------------------------------------

    def set_policies(self, new: EffectivePolicies) -> None:
        """Applies the policies that hold from now on. Has no effect when the new policies equal the present
        policies."""
        old, self.policies = self.policies, new
        if old is not new and old != new:  # most topics share one object
            self.policies_changed(old, new)

    def policies_changed(self, old: EffectivePolicies, new: EffectivePolicies) -> None:
        """Called after `policies` changed: updates the parts of the topic that were built from the old policies. All
        other code reads `policies` at each use."""
        log.info("%s: its policies changed", self)
        self.apply_send_policies()
        for subscription in self.subscriptions.values():
            subscription.policies_changed(old, new)

    def apply_send_policies(self) -> None:
        """Makes the checks and limits for SENDs follow the policies."""
        self.publishing.check(self.publishing.dedup, SendChecks.of(self.policies))
        self.publishing.limit(self.policies.publish_rate, self.broker_limiter)

    # --- producers and consumers -------------------------------------------------------------------------------------

    async def add_producer(
        self, cnx: ClientConnection, command: pb.CommandProducer, receipts: ReceiptWriter | None = None
    ) -> Producer:
        """Admits a producer: checks quotas, encryption and schema, creates the initial subscription, and waits for the
        producer's turn, in the order of Apache's ServerCnx.handleProducer. For WaitForExclusive this method writes the
        first answer, "not ready". The producer's receipts go to `receipts`, or to the client as frames. Raises
        PulsarError when the producer is refused."""
        try:
            return await self._admit_producer(cnx, command, receipts)
        except PulsarError as error:
            self.refusals.producer_refused(cnx.remote_address, error)
            raise

    async def _admit_producer(
        self, cnx: ClientConnection, command: pb.CommandProducer, receipts: ReceiptWriter | None
    ) -> Producer:
        self.check_takes_producers()
        if self.policies.encryption_required and not command.encrypted:
            raise MetadataFault(f"Encryption is required in {self.name.full}")
        schema_version = b""
        if self.schemas is not None:
            schema = command.schema if command.HasField("schema") else None
            schema_version = await self.schemas.admit_producer(self, schema)
        await self._make_initial_subscription(command.initial_subscription_name)
        producer = await self.publishing.add(cnx, command, receipts)
        producer.schema_version = schema_version
        return producer

    @abstractmethod
    def check_takes_producers(self) -> None:
        """Raises QuotaExceededHold or QuotaExceeded when the backlog exceeds a quota that stops producers."""

    async def _make_initial_subscription(self, name: str) -> None:
        """Creates the subscription that a producer names, so that a dead letter topic keeps the messages that come
        before its first consumer (PIP-124)."""
        if not name or name in self.subscriptions:
            return
        if not self.policies.allow_auto_subscription_creation:
            raise NotAllowed(
                "Could not create the initial subscription due to the auto subscription creation is not allowed."
            )
        await self.make_subscription(name)

    @abstractmethod
    async def make_subscription(self, name: str) -> None:
        """Creates a durable subscription that begins at the first message. Raises PulsarError when the subscription
        cannot be created."""

    async def admit_schema_of(self, command: pb.CommandSubscribe) -> None:
        """Adds a consumer's schema to the topic, or checks the schema, before the subscription is created. Raises
        PulsarError when the schema is refused."""
        if self.schemas is not None and command.HasField("schema"):
            await self.schemas.admit_consumer(self, command.schema)

    async def subscribe(self, cnx: ClientConnection, command: pb.CommandSubscribe) -> Consumer:
        """Attaches a new consumer to the subscription that the command names. Creates a missing subscription if the
        command and the policies allow that. Raises PulsarError when the consumer is refused."""
        try:
            return await self._admit_consumer(cnx, command)
        except PulsarError as error:
            self.refusals.consumer_refused(command.subscription, cnx.remote_address, error)
            raise

    async def _admit_consumer(self, cnx: ClientConnection, command: pb.CommandSubscribe) -> Consumer:
        await self.admit_schema_of(command)
        self.check_subscribe(cnx, command)
        await self._check_room_for_consumer(cnx)
        subscription = await self._subscription_for(command)
        consumer = Consumer(
            subscription,
            cnx,
            command,
            partition=self.name.partition_index,
            unacked_max=self.policies.max_unacked_messages_per_consumer,
            connected_ms=now_ms(),
        )
        try:
            await subscription.add_consumer(consumer)
        except BaseException:
            subscription.forget_if_left()
            raise
        if not cnx.is_open:
            consumer.close()
            raise ServiceNotReady("The connection was closed while the consumer was created")
        return consumer

    @abstractmethod
    async def _subscription_for(self, command: pb.CommandSubscribe) -> BaseSubscription:
        """Returns the subscription that a SUBSCRIBE names. Creates a missing subscription if the command and the
        policies allow that. Raises PulsarError when the subscription is refused."""

    def _check_may_add_subscription(self) -> None:
        """Raises NotAllowed when the topic has as many subscriptions as policies allow."""
        limit = self.policies.max_subscriptions_per_topic
        if 0 < limit <= len(self.subscriptions):
            raise NotAllowed(f"Exceed the maximum number of subscriptions of the topic: {self.name.full}")

    def check_subscribe(self, cnx: ClientConnection, command: pb.CommandSubscribe) -> None:
        """Checks a SUBSCRIBE in the order of Apache's ServerCnx.handleSubscribe and PersistentTopic.internalSubscribe.
        Raises PulsarError when the SUBSCRIBE is refused. For a reserved name the error is ProducerBusy, because Apache
        maps NamingException to that code."""
        if not self.is_open:
            raise ServiceNotReady("Topic is temporarily unavailable")
        type_name = SubType.Name(command.subType)
        if not command.subscription.strip():
            raise ProducerBusy("Empty subscription name")
        if is_reserved(command.subscription):
            raise ProducerBusy("Subscription with reserved subscription name attempted")
        if type_name not in self.policies.subscription_types_enabled:
            raise NotAllowed(f"Topic[{{{self.name.full}}}] doesn't support {{{type_name}}} sub type!")
        if command.read_compacted and command.subType not in (SubType.Exclusive, SubType.Failover):
            raise NotAllowed("readCompacted only allowed on failover or exclusive subscriptions")
        if self.policies.subscribe_rate.subscribes > 0:
            self._check_subscribe_rate(cnx, command)

    async def _check_room_for_consumer(self, cnx: ClientConnection) -> None:
        """Raises ConsumerBusy when the topic has as many consumers as policies allow, all of them of live clients."""
        if self.has_all_consumers:
            await close_dead([each for some in self.subscriptions.values() for each in some.consumers], cnx)
            if self.has_all_consumers:
                raise ConsumerBusy("Topic reached max consumers limit")

    @property
    def has_all_consumers(self) -> bool:
        """Whether the topic has as many consumers as policies allow."""
        return 0 < self.policies.max_consumers_per_topic <= self.consumer_count

    def _check_subscribe_rate(self, cnx: ClientConnection, command: pb.CommandSubscribe) -> None:
        limiter, rate = self._subscribe_limiter, self.policies.subscribe_rate
        if limiter is None or limiter.rate != rate:
            limiter = self._subscribe_limiter = SubscribeLimiter(rate)
        host = cnx.remote_address.rpartition(":")[0]
        identity = ConsumerIdentity(host, command.consumer_name[:CONSUMER_NAME_MAX], command.consumer_id)
        if not limiter.admit(identity, time.monotonic()):
            raise NotAllowed("Subscribe limited by subscribe rate limit per consumer.")

    @abstractmethod
    async def last_message_id(self) -> tuple[Position, int]:
        """Returns (position of the last message, batch index of the last message or -1 if the entry is no batch).
        Raises PulsarError when the log cannot be read."""

    async def last_message_id_compacted(
        self, asked: Position | None, cursor: SubscriptionCursor
    ) -> tuple[Position, int, Position]:
        """Returns the result of `last_message_id` as a consumer with `read_compacted` sees the topic, followed by the
        mark-delete position as that consumer sees the cursor. `asked` is where the consumer asked to begin. Raises
        PulsarError when the log cannot be read."""
        return *await self.last_message_id(), cursor.mark_delete

    # --- the whole topic ---------------------------------------------------------------------------------------------

    def begin_transactions(self) -> TransactionBuffer | None:
        """See `ProducersTopic.begin_transactions`."""
        return None

    @abstractmethod
    def lost_ledger(self, error: ManagedLedgerError) -> None:
        """Called when the log cannot be used any more, because another broker owns the log or because the log is
        closed. The topic is then closed, and loaded again at its next use."""

    @abstractmethod
    async def terminate(self) -> Position:
        """Terminates the topic, which then takes no more messages. Returns the last message's position. Raises
        PulsarError when the topic cannot be terminated."""

    @abstractmethod
    def detach(self) -> None:
        """Disconnects all clients, as the first step of closing. From then on the topic admits no client.
        Idempotent."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnects all clients and stores all state that is not stored yet. The clients reconnect by themselves.
        Called once."""

    def _become_closed(self) -> None:
        """The last step of closing."""
        self.state = TopicState.CLOSED
        leave(self)
        log.info("%s: closed", self)

    # --- stats -------------------------------------------------------------------------------------------------------

    def counters_out_removed(self) -> ConsumerCounters:
        """Returns the counts of the subscriptions that were removed, which still count for the topic
        (PersistentTopic.removeSubscription)."""
        result = ConsumerCounters()
        result.messages_out, result.bytes_out = self.messages_out_removed, self.bytes_out_removed
        return result

    def counters_out(self) -> ConsumerCounters:
        """Returns the sums of the counters of all subscriptions that are or were there."""
        result = self.counters_out_removed()
        for subscription in self.subscriptions.values():
            result.add(subscription.counters_out())
        return result

    def _removed(self, removed: BaseSubscription) -> None:
        """Called after a subscription was removed and its consumers have left. The topic keeps its counts."""
        leave(removed)
        out = removed.counters_out()
        self.messages_out_removed += out.messages_out
        self.bytes_out_removed += out.bytes_out

    def roll_rates(self, elapsed_s: float) -> None:
        """Computes the rates over the last `elapsed_s` seconds."""
        self.publishing.roll_rates(elapsed_s)
        for subscription in self.subscriptions.values():
            subscription.roll_rates(elapsed_s)

    @abstractmethod
    def roll_storage(self, elapsed_s: float) -> None:
        """Computes the rates of the storage over the last `elapsed_s` seconds."""
