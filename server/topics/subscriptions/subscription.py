"""A subscription of a persistent topic: a cursor, the consumers that share it, and the dispatcher of their type.

Source: PersistentSubscription.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pyroaring import BitMap

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.counters import ExpiryCounters, now_ms
from magnetar.server.topics.subscriptions.acks_in_transactions import ack_in_transaction
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.subscriptions.compacted_view import CompactedView
from magnetar.server.topics.subscriptions.consumer import Consumer, SubType
from magnetar.server.topics.subscriptions.delayed_delivery import DelayedDelivery
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import Throttle
from magnetar.server.topics.subscriptions.dispatcher import Dispatcher
from magnetar.server.topics.subscriptions.dispatcher_factory import new_dispatcher
from magnetar.server.topics.subscriptions.individual_acks import ack_individual
from magnetar.server.topics.subscriptions.key_shared_dispatcher import KeySharedDispatcher
from magnetar.server.topics.subscriptions.outgoing_messages import AckView, OutgoingMessages, bits_set
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import PendingAckLogs
from magnetar.server.topics.subscriptions.pending_acks.pending_acks import PendingAcksOfTransactions
from magnetar.server.topics.subscriptions.pending_acks.withheld_acks import WithheldAcks
from magnetar.server.topics.subscriptions.seek_target import SeekTarget, target_of
from magnetar.server.topics.subscriptions.shared_dispatcher import SharedDispatcher
from magnetar.server.topics.subscriptions.single_active_dispatcher import SingleActiveDispatcher
from magnetar.server.topics.subscriptions.subscription_topic import PersistentSubscriptionTopic
from magnetar.server.topics.transactions.readable_log import ReadableLog
from magnetar.storage.managed.bitmap_ranges import ENTRY_ID_END
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.errors import ConsumerBusy, ServiceNotReady
from pulsar_proto.ids import Position, TxnId, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.plain_ack import Ack, AcksInTransaction

log = logging.getLogger(__name__)

ACK_SET_WORDS_MAX = 1024
"""The longest ack set, in words of 64 messages each. An ack with a longer ack set is ignored, because such an ack set
would only cost the broker memory. The whole batch is then delivered again, as happens without acknowledgement at batch
index level. Clients put a thousand messages in a batch."""

RECONNECT_SECONDS = 60.0
"""After a seek, the cursor of a reader is kept for this time, so that the reader can reconnect."""


class Subscription(BaseSubscription):
    """A subscription of a persistent topic. The topic creates it."""

    __slots__ = ("_deleting", "_seeking", "_sought", "dispatcher", "expired", "messages_filled", "pending_acks")

    topic: PersistentSubscriptionTopic
    cursor: Cursor

    def __init__(self, topic: PersistentSubscriptionTopic, name: str, cursor: Cursor) -> None:
        super().__init__(topic, name, cursor)
        self.dispatcher: Dispatcher | None = None
        self.messages_filled = 0
        """How many messages were delivered again because they lay in holes for too long."""
        self._seeking: asyncio.Future[None] | None = None
        self._sought: Position | None = None
        """The target of the last seek. This position may be before the first message that is still stored."""
        self._deleting = False
        self.expired = ExpiryCounters()
        self.pending_acks: PendingAcksOfTransactions | None = None
        """The acknowledgements in transactions; None while no transaction has acknowledged anything here."""

    @property
    def active_consumer(self) -> Consumer | None:
        return self.dispatcher.active if isinstance(self.dispatcher, SingleActiveDispatcher) else None

    @property
    def is_durable(self) -> bool:
        return self.cursor.durable

    @property
    def last_active_ms(self) -> int:
        return self.cursor.last_active_ms

    @property
    def _is_fenced(self) -> bool:
        return self._deleting or super()._is_fenced

    @property
    def is_moving(self) -> bool:
        """Whether a seek is under way."""
        return self._seeking is not None

    @property
    def unacked_messages(self) -> int:
        """How many messages the consumers hold unacknowledged; always 0 for Exclusive and Failover."""
        return self.dispatcher.unacked_messages if isinstance(self.dispatcher, SharedDispatcher) else 0

    @property
    def is_blocked(self) -> bool:
        """Whether no message is sent because the consumers together hold as many unacknowledged messages as policies
        allow."""
        return isinstance(self.dispatcher, SharedDispatcher) and self.dispatcher.blocked

    @property
    def messages_in_replay(self) -> int:
        """How many entries wait to be delivered again."""
        return len(self.dispatcher.replay) if isinstance(self.dispatcher, SharedDispatcher) else 0

    @property
    def delayed_messages(self) -> int:
        """Returns how many entries the dispatcher passed over because they are not due."""
        return self.dispatcher.delayed_messages if isinstance(self.dispatcher, SharedDispatcher) else 0

    # --- for the dispatcher: see `DispatchSource` ---------------------------------------------------------------------

    @property
    def ledger(self) -> ReadableLog:
        return self.topic.readable_log

    @property
    def settings(self) -> TopicSettings:
        return self.topic.settings

    @property
    def messages_of(self) -> Callable[[EntryRun], OutgoingMessages]:
        return self.topic.messages_of

    @property
    def delayed(self) -> DelayedDelivery:
        return self.topic.delayed

    def throttles(self) -> tuple[Throttle, ...]:
        return self.topic.dispatch_limits.of(self.name)

    def is_aborted(self, txn_id: TxnId) -> bool:
        return self.topic.is_aborted(txn_id)

    def compacted_view(self) -> CompactedView | None:
        topic = self.topic
        if topic.compaction is None:
            return None
        return CompactedView(str(self), topic.readable_log, topic.compaction, self.cursor, self._sought)

    def roll_rates(self, elapsed_s: float) -> None:
        super().roll_rates(elapsed_s)
        self.expired.roll(elapsed_s)

    def policies_changed(self, old: EffectivePolicies, new: EffectivePolicies) -> None:
        for consumer in self.consumers:
            consumer.set_unacked_max(new.max_unacked_messages_per_consumer)
        if self.dispatcher is not None:
            self.dispatcher.set_policies(new)

    # --- consumers ---------------------------------------------------------------------------------------------------

    async def add_consumer(self, consumer: Consumer) -> None:
        """Attaches a consumer. Waits for a seek that is under way. If a connected consumer stands in the way (see
        `_rival_of`), waits until its connection has been probed. Raises ConsumerBusy, ConsumerAssignFault or
        ServiceNotReady when the consumer is refused."""
        while True:
            if self._seeking is not None:
                await asyncio.shield(self._seeking)
                continue
            if self.pending_acks is not None:
                await self.pending_acks.ready()  # until then it is unknown which messages are to be withheld
            await self._make_room(consumer)
            if self._seeking is not None:
                continue
            self._check_admits(consumer)
            rival = self._rival_of(consumer)
            if rival is None:
                break
            if await rival.cnx.check_liveness() and rival in self.consumers:
                if consumer.sub_type == SubType.Exclusive:
                    raise ConsumerBusy("Exclusive consumer is already connected")
                self._check_admits(consumer)
                break  # the dispatcher refuses the newcomer, and says which ranges collide
            self.remove_consumer(rival)
        self._attach(consumer)

    def _rival_of(self, consumer: Consumer) -> Consumer | None:
        """Returns the connected consumer that must leave before `consumer` can be attached, or None. Often the rival
        belongs to the same client, on a connection that is dead."""
        if self.consumers and consumer.sub_type == SubType.Exclusive:
            return self.consumers[0]
        if isinstance(self.dispatcher, KeySharedDispatcher) and consumer.sub_type == SubType.Key_Shared:
            return self.dispatcher.rival_of(consumer)
        return None

    def _difference_from(self, consumer: Consumer) -> str | None:
        if self.sub_type != consumer.sub_type:
            return (
                f"Subscription is of different type. Active subscription type of '{self.type_name}' is different than "
                f"the connecting consumer's type '{SubType.Name(consumer.sub_type)}'."
            )
        if isinstance(self.dispatcher, KeySharedDispatcher) and self.dispatcher.policy != consumer.key_shared:
            return (
                f"Subscription is of different type. Its consumers' Key_Shared policy is {self.dispatcher.policy}, the "
                f"connecting consumer's is {consumer.key_shared}"
            )
        return None

    def _attach(self, consumer: Consumer) -> None:
        dispatcher = self._dispatcher_for(consumer)
        dispatcher.add(consumer)
        if not self.consumers:
            self.topic.ledger.activate(self.cursor)
        self.consumers.append(consumer)
        self.cursor.touch(now_ms())
        log.info("%s connected", consumer)
        if self.topic.is_terminated:
            asyncio.get_running_loop().call_soon(self.tell_end_if_reached)

    def _dispatcher_for(self, consumer: Consumer) -> Dispatcher:
        """Returns the present dispatcher if it is of the consumer's type, otherwise a new dispatcher. `_check_admits`
        makes sure that a dispatcher is replaced only while no consumer is connected."""
        dispatcher = self.dispatcher
        if dispatcher is not None:
            same_policy = not isinstance(dispatcher, KeySharedDispatcher) or dispatcher.policy == consumer.key_shared
            if self.sub_type == consumer.sub_type and same_policy:
                return dispatcher
            dispatcher.close()
        self.sub_type = consumer.sub_type
        topic = self.topic
        dispatcher = self.dispatcher = new_dispatcher(self, consumer, topic.name)
        dispatcher.set_policies(topic.policies)
        return dispatcher

    def _detach(self, consumer: Consumer) -> None:
        assert self.dispatcher is not None
        self.dispatcher.remove(consumer)
        self.cursor.touch(now_ms())

    def _last_consumer_left(self) -> None:
        self.topic.ledger.deactivate(self.cursor)
        super()._last_consumer_left()

    def consumer_may_take(self, consumer: Consumer) -> None:
        if self.dispatcher is not None:
            self.dispatcher.kick()

    # --- acknowledgements --------------------------------------------------------------------------------------------

    def ack_cumulative(self, consumer: Consumer, message_id: pb.MessageIdData) -> None:
        """Acknowledges all messages up to and including `message_id`. If `message_id` has an ack set, only those
        messages of its batch are acknowledged whose bits in the ack set are 0."""
        ledger_id, entry_id = signed64(message_id.ledgerId), signed64(message_id.entryId)
        ack_set: Sequence[int] | None = message_id.ack_set or None
        if ack_set is not None and bits_set(ack_set) and not self.keeps(ack_set):
            # The whole batch must be delivered again, so only the entries before the batch are acknowledged.
            ledger_id, entry_id = self.topic.ledger.previous_position(Position(ledger_id, entry_id))
            ack_set = None
        self.cursor.ack_cumulative(ledger_id, entry_id, ack_set)
        self.tell_end_if_reached()

    def ack_individual(self, consumer: Consumer, acks: list[Ack]) -> None:
        words_max = ACK_SET_WORDS_MAX if self.topic.settings.acknowledgment_at_batch_index_level_enabled else 0
        ack_individual(self.cursor, self.dispatcher, consumer, acks, words_max)
        if self.topic.is_terminated:
            self.tell_end_if_reached()

    def ack_in_transaction(self, consumer: Consumer, command: pb.CommandAck) -> Awaitable[None]:
        return ack_in_transaction(self, consumer, command)

    def ack_together(self, consumer: Consumer, acks: AcksInTransaction) -> "asyncio.Future[None] | None":
        pending = self.pending_acks
        return None if pending is None else pending.ack_entries(acks.txn_id, consumer, acks.entries)

    def deliverable(self, acks: AckView) -> AckView:
        """Returns the acknowledgements together with what transactions withhold from consumers."""
        return acks if self.pending_acks is None else WithheldAcks(acks, self.pending_acks.rules)

    def keeps(self, ack_set: Sequence[int]) -> bool:
        return self.topic.settings.acknowledgment_at_batch_index_level_enabled and len(ack_set) <= ACK_SET_WORDS_MAX

    def redeliver(self, consumer: Consumer, message_ids: Sequence[pb.MessageIdData]) -> None:
        dispatcher = self.dispatcher
        if isinstance(dispatcher, SingleActiveDispatcher):
            dispatcher.rewind_for(consumer)
        elif isinstance(dispatcher, SharedDispatcher):
            known = [(each.ledgerId, each.entryId) for each in message_ids if each.entryId < ENTRY_ID_END]
            positions = known if message_ids else None
            consumer.counters.redelivered += dispatcher.redeliver(consumer, positions)

    def fill(self, ledger_id: int, entries: BitMap) -> None:
        """Called by `HoleFiller`: delivers those of `entries` again that consumers hold unacknowledged."""
        if self.dispatcher is not None:
            self.messages_filled += self.dispatcher.fill(ledger_id, entries)

    def tell_end_if_reached(self) -> None:
        """Sends REACHED_END_OF_TOPIC if the topic is terminated and all messages are acknowledged."""
        if self.topic.is_terminated and self.consumers and self.cursor.backlog == 0:
            for consumer in self.consumers:
                consumer.tell_end()

    def backlog_shrank(self) -> None:
        """Called after the broker itself acknowledged entries that expired or were skipped; tells the dispatcher."""
        if self.dispatcher is not None:
            self.dispatcher.backlog_shrank()
        self.tell_end_if_reached()

    # --- the whole subscription --------------------------------------------------------------------------------------

    async def delete(self, but: Consumer | None = None) -> None:
        """Disconnects all consumers and deletes the cursor. The consumer `but` is not told, because its client asked
        for the deletion. Raises ServiceNotReady when the subscription is already being deleted or moved, and
        PulsarError when the cursor cannot be deleted. The subscription stays after an error."""
        if self._is_fenced or self._seeking is not None:
            raise ServiceNotReady("Subscription is fenced")
        self._deleting = True
        try:
            self.disconnect_all(but)
            if but is not None:
                self.remove_consumer(but)
            with storage_faults_told():
                if self.topic.pending_ack_logs is not None and self.cursor.durable:
                    await self._delete_pending_acks(self.topic.pending_ack_logs)
                await self.topic.delete_cursor(self)
        except Exception:
            if but is not None:
                but.cnx.close_consumer(but.consumer_id)  # so that the consumer's client subscribes again
            raise
        finally:
            self._deleting = False
        log.info("%s: deleted", self)

    async def _delete_pending_acks(self, logs: PendingAckLogs) -> None:
        """Deletes the log of acknowledgements in transactions before the cursor, so that a new subscription of this
        name never finds the log of this one."""
        if self.pending_acks is not None:
            await self.pending_acks.close()
            self.pending_acks = None
        await logs.delete(self.topic.name, self.name)

    async def seek(self, command: pb.CommandSeek) -> None:
        """Disconnects all consumers, then moves the cursor. Consumers that reconnect meanwhile wait. Raises
        ConsumerBusy when another seek is under way, and PulsarError when the cursor cannot be moved. The cursor stays
        where it is after an error."""
        await self._reset(target_of(command))

    async def reset(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        """Moves the cursor so that the next message is the message at `position` or, if no message is there, the first
        message after `position`. EARLIEST and LATEST stand for the beginning and the end of the log. `ack_set` holds
        the batch indexes that are delivered of a batch at `position`; an empty one means all."""
        await self._reset(SeekTarget(position, ack_set=ack_set))

    async def reset_to_time(self, publish_time_ms: int) -> None:
        """Moves the cursor so that the next message is the first message that was published at `publish_time_ms` or
        later."""
        await self._reset(SeekTarget(None, publish_time_ms))

    async def _reset(self, target: SeekTarget) -> None:
        if self._seeking is not None or self._is_fenced:
            raise ConsumerBusy("Failed to fence subscription")
        self._seeking = asyncio.get_running_loop().create_future()
        position, publish_time_ms, ack_set = target
        try:
            self.disconnect_all()
            if self.pending_acks is not None:
                await self.pending_acks.forget_the_past()
            with storage_faults_told():
                sought = position
                if position is None:
                    position = await self.topic.first_published_at(publish_time_ms)
                    sought = await self.topic.sought(position, publish_time_ms)
                await self.cursor.reset(position, ack_set if ack_set and self.keeps(ack_set) else None)
            self._sought = sought
            if self.dispatcher is not None:
                self.dispatcher.rewind()
            log.info("%s: moved to %s", self, position)
        finally:
            self._seeking.set_result(None)
            self._seeking = None
            if not self.cursor.durable:
                asyncio.get_running_loop().call_later(RECONNECT_SECONDS, self.forget_if_left)

    def forget_if_left(self) -> None:
        """Ends the subscription of a reader that has left. After a seek, a reader first has time to reconnect to its
        cursor."""
        if not self.consumers and not self.cursor.durable and self._seeking is None:
            self.topic.forget(self)

    def close(self) -> None:
        """Disconnects all consumers and stops sending. The topic closes the cursor."""
        self.disconnect_all()
        if self.dispatcher is not None:
            self.dispatcher.close()
