"""A subscription of a non-persistent topic: the consumers, and the number of messages that were dropped because no
consumer took them.

No message is stored, so acknowledging and redelivery have no effect.

Source: NonPersistentSubscription.
"""

import logging
from collections.abc import Sequence
from typing import Protocol

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.topics.counters import NO_RATE, now_ms
from magnetar.server.topics.non_persistent.receivers import ByKey, InTurns, OneActive, Receivers
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription, SubscriptionTopic
from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages
from pulsar_proto.errors import ConsumerBusy, TransactionConflict
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.plain_ack import Ack, AcksInTransaction

log = logging.getLogger(__name__)


class NoCursor:
    """Stands in for the cursor, because the subscription of a non-persistent topic has no cursor."""

    mark_delete: Position = EARLIEST
    backlog = 0
    durable = False

    async def persisted(self) -> None:
        """Returns at once, because nothing has to be stored."""


class NonPersistentSubscriptionTopic(SubscriptionTopic, Protocol):
    """The subscriptions of a non-persistent topic use the topic through this interface."""

    def forget(self, subscription: "NonPersistentSubscription") -> None:
        """Removes a subscription that has ended from the topic."""


class NonPersistentSubscription(BaseSubscription):
    """A subscription of a non-persistent topic. `NonPersistentTopic.add_subscription` creates it."""

    __slots__ = ("_is_durable", "_last_active_ms", "_receivers", "drop_rate", "dropped", "properties")

    topic: NonPersistentSubscriptionTopic

    def __init__(
        self, topic: NonPersistentSubscriptionTopic, name: str, *, durable: bool, properties: dict[str, str]
    ) -> None:
        """A `durable` subscription outlives its last consumer, as long as the topic is loaded."""
        super().__init__(topic, name, NoCursor())
        self.properties = properties
        self.dropped = 0
        """How many messages were dropped because no consumer took them."""
        self.drop_rate = NO_RATE
        self._is_durable = durable
        self._last_active_ms = now_ms()
        self._receivers: Receivers | None = None

    @property
    def active_consumer(self) -> Consumer | None:
        return None if self._receivers is None else self._receivers.active

    @property
    def is_durable(self) -> bool:
        return self._is_durable

    @property
    def last_active_ms(self) -> int:
        return self._last_active_ms

    def roll_rates(self, elapsed_s: float) -> None:
        super().roll_rates(elapsed_s)
        self.drop_rate = self.drop_rate.roll(self.dropped, elapsed_s)

    def policies_changed(self, old: EffectivePolicies, new: EffectivePolicies) -> None:
        """Has no effect, because a subscription of a non-persistent topic keeps nothing that depends on policies."""

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def add_consumer(self, consumer: Consumer) -> None:
        await self._make_room(consumer)
        self._check_admits(consumer)
        while self.consumers and consumer.sub_type == SubType.Exclusive:
            rival = self.consumers[0]
            if await rival.cnx.check_liveness() and rival in self.consumers:
                raise ConsumerBusy("Exclusive consumer is already connected")
            self.remove_consumer(rival)
            self._check_admits(consumer)
        receivers = self._receivers_for(consumer)
        receivers.add(consumer)
        consumer.pending = None  # non-persistent messages are not acknowledged
        self.consumers.append(consumer)
        log.info("%s connected", consumer)

    def _difference_from(self, consumer: Consumer) -> str | None:
        same_type = self.sub_type == consumer.sub_type
        if same_type and not (isinstance(self._receivers, ByKey) and self._receivers.policy != consumer.key_shared):
            return None
        return "Subscription is of different type"

    def _receivers_for(self, consumer: Consumer) -> Receivers:
        """Returns the receivers of the connected consumers. The first consumer gets new receivers of its own type."""
        if self.consumers and self._receivers is not None:
            return self._receivers
        settings, name = self.topic.settings, self.topic.name
        self.sub_type = consumer.sub_type
        if consumer.sub_type == SubType.Shared:
            self._receivers = InTurns()
        elif consumer.sub_type == SubType.Key_Shared:
            self._receivers = ByKey(consumer.key_shared, settings)
        else:
            self._receivers = OneActive(consumer.sub_type, name.full, name.partition_index, settings)
        return self._receivers

    def _detach(self, consumer: Consumer) -> None:
        assert self._receivers is not None
        self._receivers.remove(consumer)
        self._last_active_ms = now_ms()

    def forget_if_left(self) -> None:
        if not self.consumers and not self._is_durable:
            self.topic.forget(self)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, messages: OutgoingMessages) -> None:
        """Gives messages to the consumers that can take messages now, and counts the messages that no consumer took as
        dropped."""
        if self._receivers is None or not self.consumers:
            self.dropped += messages.total
        else:
            self.dropped += self._receivers.send(messages)

    def consumer_may_take(self, consumer: Consumer) -> None:
        """Has no effect, because no messages wait for a consumer."""

    def ack_cumulative(self, consumer: Consumer, message_id: pb.MessageIdData) -> None:
        """Has no effect: nothing can be acknowledged."""

    def ack_individual(self, consumer: Consumer, acks: list[Ack]) -> None:
        """Has no effect: nothing can be acknowledged."""

    async def ack_in_transaction(self, consumer: Consumer, command: pb.CommandAck) -> None:
        # The text is that of Apache's Consumer.transactionIndividualAcknowledge.
        raise TransactionConflict("Transaction acknowledge only support the `PersistentSubscription`.")

    def ack_together(self, consumer: Consumer, acks: AcksInTransaction) -> None:
        """Has no effect, so that `ack_in_transaction` refuses the acknowledgements."""

    def redeliver(self, consumer: Consumer, message_ids: Sequence[pb.MessageIdData]) -> None:
        """Has no effect, because no message is kept that could be delivered again."""

    async def seek(self, command: pb.CommandSeek) -> None:
        """Returns without changing anything, as Apache's NonPersistentSubscription.resetCursor does."""

    # --- the whole subscription --------------------------------------------------------------------------------------

    async def delete(self, but: Consumer | None = None) -> None:
        for consumer in self.consumers.copy():
            self.remove_consumer(consumer)
            if consumer is not but:
                consumer.cnx.close_consumer(consumer.consumer_id)
        self.topic.forget(self)
