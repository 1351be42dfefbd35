"""A subscription of a non-persistent topic: consumers, and what was dropped because none of them took it.

There is nothing to acknowledge, to come back to, or to look at again.

Sources: NonPersistentSubscription.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.topics.counters import ConsumerCounters, Rate, now_ms
from magnetar.server.topics.non_persistent.receivers import ByKey, InTurns, OneActive, Receivers
from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.messages import Messages
from pulsar_proto.errors import ConsumerBusy, MetadataFault, ServiceNotReady
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.topics.non_persistent.topic import NonPersistentTopic

log = logging.getLogger(__name__)


class Nowhere:
    """The place in the log of who has none."""

    mark_delete: Position = EARLIEST
    backlog = 0
    durable = False

    async def persisted(self) -> None:
        """There is nothing to store."""


class NonPersistentSubscription:
    """Made by `NonPersistentTopic`. Every method is called on the loop's thread."""

    def __init__(self, topic: "NonPersistentTopic", name: str, *, durable: bool, properties: dict[str, str]) -> None:
        """`durable`: it stays when its last consumer goes, as long as the topic is loaded."""
        self.topic = topic
        self.name = name
        self.is_durable = durable
        self.properties = properties
        self.cursor = Nowhere()
        self.consumers: list[Consumer] = []
        self.sub_type: SubType.ValueType | None = None
        """Of the consumers that are, or were last, connected."""
        self.dropped = 0
        """Messages that nobody took."""
        self.drop_rate = Rate()
        self.last_active_ms = now_ms()
        """When somebody was connected last."""
        self._receivers: Receivers | None = None
        self._counters_of_gone = ConsumerCounters()

    def __str__(self) -> str:
        return f"{self.topic.name.full} / {self.name}"

    @property
    def type_name(self) -> str:
        """As stats name it."""
        return "None" if self.sub_type is None else SubType.Name(self.sub_type)

    @property
    def active_consumer(self) -> Consumer | None:
        return None if self._receivers is None else self._receivers.active

    def counters_out(self) -> ConsumerCounters:
        """Of all consumers that are or were connected."""
        result = ConsumerCounters()
        result.add(self._counters_of_gone)
        for consumer in self.consumers:
            result.add(consumer.counters)
        return result

    def roll_rates(self, elapsed_s: float) -> None:
        self.drop_rate.roll(self.dropped, elapsed_s)
        for consumer in self.consumers:
            consumer.counters.roll(elapsed_s)

    def policies_changed(self, old: EffectivePolicies, new: EffectivePolicies) -> None:
        """Nothing here is made of policies."""

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def add_consumer(self, consumer: Consumer) -> None:
        """Waits for the answer of an Exclusive consumer's old connection. Raises ConsumerBusy, ConsumerAssignFault,
        ServiceNotReady."""
        self._check_admits(consumer)
        while self.consumers and consumer.sub_type == SubType.Exclusive:
            rival = self.consumers[0]
            if await rival.cnx.check_liveness() and rival in self.consumers:
                raise ConsumerBusy("Exclusive consumer is already connected")
            self.remove_consumer(rival)
            self._check_admits(consumer)
        receivers = self._receivers_for(consumer)
        receivers.add(consumer)
        consumer.pending = None  # nothing is acknowledged here
        self.consumers.append(consumer)
        log.info("%s connected", consumer)

    def _check_admits(self, consumer: Consumer) -> None:
        if not self.topic.is_open or self.topic.subscriptions.get(self.name) is not self:
            raise ServiceNotReady("Subscription is fenced")
        if not self.consumers:
            return
        if self.sub_type != consumer.sub_type:
            raise ConsumerBusy("Subscription is of different type")
        if isinstance(self._receivers, ByKey) and self._receivers.policy != consumer.key_shared:
            raise ConsumerBusy("Subscription is of different type")
        limit = self.topic.policies.max_consumers_per_subscription
        if 0 < limit <= len(self.consumers):
            raise ConsumerBusy("Subscription reached max consumers limit")

    def _receivers_for(self, consumer: Consumer) -> Receivers:
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

    def remove_consumer(self, consumer: Consumer) -> None:
        """One that is not durable goes with its last consumer. Idempotent."""
        if consumer.is_closed:
            return
        consumer.is_closed = True
        self.consumers.remove(consumer)
        assert self._receivers is not None
        self._receivers.remove(consumer)
        consumer.counters.forget_rates()
        self._counters_of_gone.add(consumer.counters)
        self.last_active_ms = now_ms()
        log.info("%s disconnected", consumer)
        if not self.consumers and not self.is_durable:
            self.topic.forget(self)

    def disconnect_all(self, but: Consumer | None = None) -> None:
        """CLOSE_CONSUMER to everybody but one."""
        for consumer in self.consumers.copy():
            self.remove_consumer(consumer)
            if consumer is not but:
                consumer.cnx.close_consumer(consumer.consumer_id)

    # --- messages ----------------------------------------------------------------------------------------------------

    def send(self, messages: Messages) -> None:
        """To those who take them now."""
        if self._receivers is None or not self.consumers:
            self.dropped += messages.total
        else:
            self.dropped += self._receivers.send(messages)

    def consumer_may_take(self, consumer: Consumer) -> None:
        """Nothing waits for it."""

    def ack_cumulative(self, consumer: Consumer, message_id: pb.MessageIdData) -> None:
        """Nothing to acknowledge."""

    def ack_individual(self, consumer: Consumer, message_ids: Sequence[pb.MessageIdData]) -> None:
        """Nothing to acknowledge."""

    def redeliver(self, consumer: Consumer, message_ids: Sequence[pb.MessageIdData]) -> None:
        """Nothing comes again."""

    async def seek(self, command: pb.CommandSeek) -> None:
        """Java answers SUCCESS and does nothing (NonPersistentSubscription.resetCursor)."""

    # --- the whole subscription --------------------------------------------------------------------------------------

    async def unsubscribe(self, consumer: Consumer, force: bool) -> None:
        """Raises MetadataFault."""
        if not force and (len(self.consumers) > 1 or self.active_consumer not in (None, consumer)):
            raise MetadataFault("Unconnected or shared consumer attempting to unsubscribe")
        await self.delete(but=consumer)

    async def delete(self, but: Consumer | None = None) -> None:
        """Disconnects everybody; `but` is not told, because it asked."""
        self.disconnect_all(but)
        self.topic.forget(self)
