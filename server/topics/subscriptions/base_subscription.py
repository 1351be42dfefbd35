"""The base of the subscriptions of persistent and non-persistent topics: their consumers, the rules for admitting a
consumer, and the sums of the consumers' counters."""

import logging
from abc import ABC, abstractmethod
from asyncio import Future
from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.topics.counters import ConsumerCounters
from magnetar.server.topics.liveness import close_dead
from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.consumer_owner import ConsumerTopic, SubscriptionCursor
from pulsar_proto.errors import ConsumerBusy, MetadataFault, ServiceNotReady
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.plain_ack import Ack, AcksInTransaction

log = logging.getLogger(__name__)

NO_COUNTS = ConsumerCounters()
"""The counters of all subscriptions that never had a consumer. Nobody changes them."""


class SubscriptionTopic(ConsumerTopic, Protocol):
    """The subscriptions of any topic, persistent or not, use the topic through this interface."""

    @property
    def is_open(self) -> bool: ...

    @property
    def settings(self) -> TopicSettings: ...

    @property
    def policies(self) -> EffectivePolicies: ...

    @property
    def has_all_consumers(self) -> bool: ...

    @property
    def subscriptions(self) -> Mapping[str, object]:
        """Name -> subscription, for the subscriptions that exist. A deleted subscription is not in the mapping."""


class BaseSubscription(ABC):
    """The base of all subscriptions. The topic creates its subscriptions. Every method is called on the loop's
    thread."""

    __slots__ = ("__weakref__", "_counters_of_gone", "consumers", "cursor", "name", "sub_type", "topic")

    def __init__(self, topic: SubscriptionTopic, name: str, cursor: SubscriptionCursor) -> None:
        self.topic = topic
        self.name = name
        self.cursor = cursor
        self.consumers: list[Consumer] = []
        self.sub_type: SubType.ValueType | None = None
        """The subscription type of the connected consumers or, while no consumer is connected, of the consumers that
        were connected last."""
        self._counters_of_gone: ConsumerCounters | None = None

    def __str__(self) -> str:
        return f"{self.topic.name.full} / {self.name}"

    @property
    def type_name(self) -> str:
        """The name of the subscription's type in stats."""
        return "None" if self.sub_type is None else SubType.Name(self.sub_type)

    @property
    @abstractmethod
    def active_consumer(self) -> Consumer | None:
        """Returns the consumer that gets all messages, or None for the subscription types that share messages among
        several consumers."""

    @property
    @abstractmethod
    def is_durable(self) -> bool:
        """Whether the subscription stays when its last consumer leaves."""

    @property
    @abstractmethod
    def last_active_ms(self) -> int:
        """When a consumer last connected or left, in ms since the epoch."""

    @property
    def _is_fenced(self) -> bool:
        """Whether the subscription has ended. An ended subscription admits no consumer and does not change any more."""
        return self.topic.subscriptions.get(self.name) is not self

    @property
    def has_ended(self) -> bool:
        """Whether the subscription has ended, is being deleted, or its topic is being closed."""
        return self._is_fenced or not self.topic.is_open

    def counters_out(self) -> ConsumerCounters:
        """Returns the sums of the counters of all consumers that are or were connected. The caller does not change
        them: without consumers they are those that the subscription keeps."""
        of_gone = self._counters_of_gone or NO_COUNTS
        if not self.consumers:
            return of_gone
        result = ConsumerCounters()
        result.add(of_gone)
        for consumer in self.consumers:
            result.add(consumer.counters)
        return result

    def roll_rates(self, elapsed_s: float) -> None:
        """Computes the rates over the last `elapsed_s` seconds."""
        for consumer in self.consumers:
            consumer.counters.roll(elapsed_s)

    @abstractmethod
    def policies_changed(self, old: EffectivePolicies, new: EffectivePolicies) -> None:
        """Called after the topic's policies changed: updates the parts of the subscription that were built from the old
        policies."""

    # --- consumers ---------------------------------------------------------------------------------------------------

    @abstractmethod
    async def add_consumer(self, consumer: Consumer) -> None:
        """Attaches a consumer. If connected consumers stand in its way, first waits until the broker has probed their
        connections. Raises ConsumerBusy, ConsumerAssignFault or ServiceNotReady when the consumer is
        refused."""

    def _check_admits(self, consumer: Consumer) -> None:
        """Raises ServiceNotReady when the subscription has ended, and ConsumerBusy when the consumer's type conflicts
        with the type of the connected consumers, or when the topic or the subscription has as many consumers as the
        policies allow. The caller attaches the consumer without waiting for anything after this check: the topic's own
        check comes before the subscription is created, when others may be on their way, too."""
        if self._is_fenced or not self.topic.is_open:
            raise ServiceNotReady("Subscription is fenced")
        refusal = self._refusal_of(consumer)
        if refusal is not None:
            raise ConsumerBusy(refusal)

    async def _make_room(self, consumer: Consumer) -> None:
        """Called before `_check_admits`: closes the consumers whose connections are dead if the new consumer would be
        refused because of the connected ones."""
        if self._refusal_of(consumer) is not None:
            await close_dead(self.consumers, consumer.cnx)

    def _refusal_of(self, consumer: Consumer) -> str | None:
        if self.topic.has_all_consumers:
            return "Topic reached max consumers limit"
        if not self.consumers:
            return None
        limit = self.topic.policies.max_consumers_per_subscription
        reached = "Subscription reached max consumers limit" if 0 < limit <= len(self.consumers) else None
        return self._difference_from(consumer) or reached

    @abstractmethod
    def _difference_from(self, consumer: Consumer) -> str | None:
        """Returns the reason why the consumer's type conflicts with the type of the connected consumers, or None when
        there is no conflict."""

    def remove_consumer(self, consumer: Consumer) -> None:
        """Detaches a consumer. The unacknowledged messages of the consumer go to the remaining consumers. A
        subscription that is not durable ends when its last consumer leaves. Idempotent."""
        if consumer.is_closed:
            return
        consumer.is_closed = True
        self.consumers.remove(consumer)
        self._detach(consumer)
        consumer.counters.forget_rates()
        if self._counters_of_gone is None:
            self._counters_of_gone = ConsumerCounters()
        self._counters_of_gone.add(consumer.counters)
        log.info("%s disconnected", consumer)
        if not self.consumers:
            self._last_consumer_left()

    @abstractmethod
    def _detach(self, consumer: Consumer) -> None:
        """Removes a consumer from the dispatcher (or from the receivers of a non-persistent subscription), and notes
        the time."""

    def _last_consumer_left(self) -> None:
        """Called right after the last consumer was detached. Ends a subscription that is not durable."""
        self.forget_if_left()

    @abstractmethod
    def forget_if_left(self) -> None:
        """Ends a subscription that is not durable and has no consumers."""

    def disconnect_all(self, but: Consumer | None = None) -> None:
        """Detaches every consumer except `but`, and sends CLOSE_CONSUMER to each detached consumer."""
        for consumer in self.consumers.copy():
            if consumer is not but:
                self.remove_consumer(consumer)
                consumer.cnx.close_consumer(consumer.consumer_id)

    @abstractmethod
    def consumer_may_take(self, consumer: Consumer) -> None:
        """Called when a consumer got permits, or when the consumer's connection became writable again: sends messages
        that wait."""

    # --- clients' commands -------------------------------------------------------------------------------------------

    @abstractmethod
    def ack_cumulative(self, consumer: Consumer, message_id: pb.MessageIdData) -> None:
        """Applies a cumulative ACK."""

    @abstractmethod
    def ack_individual(self, consumer: Consumer, acks: list[Ack]) -> None:
        """Applies an individual ACK."""

    @abstractmethod
    def ack_in_transaction(self, consumer: Consumer, command: pb.CommandAck) -> Awaitable[None]:
        """Applies an ACK of a transaction. The result ends when the acknowledgement is durable. The call and the result
        may raise PulsarError; then nothing is acknowledged."""

    @abstractmethod
    def ack_together(self, consumer: Consumer, acks: AcksInTransaction) -> "Future[None] | None":
        """See `Consumer.ack_in_transaction`."""

    @abstractmethod
    def redeliver(self, consumer: Consumer, message_ids: Sequence[pb.MessageIdData]) -> None:
        """Sends the listed messages again, or all messages that the consumer holds if `message_ids` is empty."""

    @abstractmethod
    async def seek(self, command: pb.CommandSeek) -> None:
        """Moves the subscription to the position that the command asks for. Raises PulsarError when the subscription
        cannot be moved."""

    async def unsubscribe(self, consumer: Consumer, force: bool) -> None:
        """Deletes the subscription because one of its consumers asks for the deletion. With `force`, disconnects all
        other consumers first. Raises MetadataFault without `force` when the subscription has other consumers. Also
        raises the errors of `delete`."""
        if not force and (len(self.consumers) > 1 or self.active_consumer not in (None, consumer)):
            raise MetadataFault("Unconnected or shared consumer attempting to unsubscribe")
        await self.delete(but=consumer)

    @abstractmethod
    async def delete(self, but: Consumer | None = None) -> None:
        """Disconnects all consumers and deletes the subscription. The consumer `but` is not told, because its client
        asked for the deletion. Raises PulsarError when the subscription cannot be deleted."""
