"""One consumer: its permits, the messages that the consumer holds unacknowledged, and the MESSAGE frames that the
broker sends to the consumer.

Permits count messages, not entries. A dispatcher asks `can_take`, then calls `take` and `write`. Work that concerns
several consumers is the task of the subscription.

Sources: Consumer.sendMessages, flowPermits, individualAckNormal, redeliverUnacknowledgedMessages.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.client_connection import CPP_CLIENT, NO_METADATA, ClientConnection
from magnetar.server.topics.counters import ConsumerCounters
from magnetar.server.topics.subscriptions.consumer_owner import ConsumerOwner
from magnetar.server.topics.subscriptions.key_shared_rules import AUTO_SPLIT, SLOTS, KeySharedPolicy, SlotRange
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages
from magnetar.server.topics.subscriptions.read_size_rules import EntryAverage
from magnetar.server.topics.subscriptions.redelivery import PendingAcks
from magnetar.server.topics.subscriptions.seek_target import start_asked_by
from pulsar_proto.errors import MetadataFault, NotAllowed
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import skip_checksum
from pulsar_proto.wire.commands import active_consumer_change_frame, reached_end_of_topic_frame
from pulsar_proto.wire.frame_encoders import MessageFramer
from pulsar_proto.wire.plain_ack import Ack, AcksInTransaction, acks_of

log = logging.getLogger(__name__)

FIRST_VERSION_WITH_BATCHES = 4
FIRST_VERSION_WITH_CHECKSUMS = 11
FIRST_VERSION_WITH_ACTIVE_CONSUMER_CHANGE = 12
FIRST_VERSION_WITH_END_OF_TOPIC = 9
CLIENTS_WITHOUT_END_OF_TOPIC = (CPP_CLIENT, "Pulsar-Go")
"""The beginnings of the client versions that take REACHED_END_OF_TOPIC for an invalid command, up to C++ 4.2 and
Go 0.19. They close the connection, and come back with all of their producers and consumers, ten times a second until
the last such consumer has gone (ClientConnection::handleIncomingCommand, connection.receivedCommand)."""

LISTENS_AFTER_S = 1.0
"""A client that sends no FLOW is told which consumer is active this many seconds after its SUBSCRIBE. Apache's broker
takes at least as long."""

SubType = pb.CommandSubscribe.SubType


class Consumer:
    """One consumer of a subscription. `BaseTopic.subscribe` creates it. Every method is called on the loop's thread."""

    __slots__ = (
        "_active_untold",
        "_blocked_permits",
        "_framer",
        "_listens",
        "_unacked_max",
        "_watches_writable",
        "average",
        "blocked",
        "cnx",
        "connected_ms",
        "consumer_id",
        "counters",
        "epoch",
        "hash_ranges",
        "is_closed",
        "key_shared",
        "metadata",
        "name",
        "pending",
        "permits",
        "priority",
        "read_compacted",
        "start_asked",
        "sub_type",
        "subscription",
        "takes_any_schema",
        "told_end",
    )

    def __init__(
        self,
        subscription: ConsumerOwner,
        cnx: ClientConnection,
        command: pb.CommandSubscribe,
        *,
        partition: int,
        unacked_max: int,
        connected_ms: int,
    ) -> None:
        """`unacked_max` is 0 for no limit. `partition` is the topic's index among its partitions, -1 for a topic that
        is no partition."""
        self.subscription = subscription
        self.cnx = cnx
        self.consumer_id: int = command.consumer_id
        self.name: str = command.consumer_name
        self.priority: int = command.priority_level
        self.sub_type = command.subType
        self.metadata = {pair.key: pair.value for pair in command.metadata} if command.metadata else NO_METADATA
        self.connected_ms = connected_ms
        single_active = command.subType in (SubType.Exclusive, SubType.Failover)
        self.epoch: int | None = (
            command.consumer_epoch if single_active and command.HasField("consumer_epoch") else None
        )
        self.key_shared = AUTO_SPLIT
        """How the Key_Shared subscription shares out its keys. All consumers of a subscription must have the same
        policy."""
        self.hash_ranges: Sequence[SlotRange] = ()
        if command.HasField("keySharedMeta"):
            meta = command.keySharedMeta
            self.key_shared = KeySharedPolicy(meta.keySharedMode == pb.STICKY, meta.allowOutOfOrderDelivery)
            self.hash_ranges = [(each.start, each.end) for each in meta.hashRanges[: SLOTS + 1]]
        self.permits = 0
        """How many messages the broker may still send to the client. The number is negative after a batch that held
        more messages than permits were left."""
        self.pending: PendingAcks | None = None if single_active else PendingAcks()
        """The entries that the consumer holds unacknowledged. None for Exclusive and Failover, where one consumer gets
        all messages and the cursor alone is enough."""
        self.blocked = False
        """Whether the consumer holds too many unacknowledged messages and gets no more. Permits that arrive meanwhile
        are kept aside."""
        self.average = EntryAverage()
        self.counters = ConsumerCounters()
        self.is_closed = False
        self.told_end = False
        self.read_compacted: bool = command.read_compacted
        self.start_asked = start_asked_by(command)
        """Where a new subscription of this consumer begins; None for new messages only."""
        self.takes_any_schema: bool = command.schema.type == pb.Schema.AutoConsume
        """Whether the client has no schema of its own and asks for the schema of each message (AUTO_CONSUME)."""
        self._framer = MessageFramer(self.consumer_id, partition)
        self._unacked_max = unacked_max
        self._listens = False
        """Whether the client has read the answer to SUBSCRIBE; the client's first FLOW proves that. The Go client drops
        commands that arrive before it has read the answer."""
        self._active_untold: bool | None = None
        self._blocked_permits = 0
        self._watches_writable = False

    def __str__(self) -> str:
        return f"consumer {self.consumer_id} ({self.name}) of {self.subscription}"

    # --- the client's commands ---------------------------------------------------------------------------------------

    def set_unacked_max(self, unacked_max: int) -> None:
        """Sets how many messages the consumer may hold unacknowledged; 0 means no limit. The new limit holds at once,
        and also counts messages that were sent before."""
        self._unacked_max = unacked_max
        if self.pending is None:
            return
        if self.blocked and not 0 < unacked_max <= self.pending.messages:
            self._release()
        elif 0 < unacked_max <= self.pending.messages:
            self.blocked = True

    def flow(self, permits: int) -> None:
        """Called when the client sends FLOW: adds `permits` (> 0) to the consumer's permits."""
        if self.is_closed:
            return
        self.counters.flowed()
        if not self._listens:
            self._begin_to_tell()
        if self.blocked:
            self._blocked_permits += permits
        else:
            self.permits += permits
            self.subscription.consumer_may_take(self)

    def ack(self, command: pb.CommandAck) -> Awaitable[None] | None:
        """Applies an ACK. If the ACK has a request id, returns an awaitable that ends when the acknowledgements are
        durable; the caller then answers with ACK_RESPONSE. The same holds for an ACK of a transaction, whose awaitable
        may raise PulsarError; without a request id it raises NotAllowed."""
        if self.is_closed:
            return None
        if command.HasField("txnid_most_bits") or command.HasField("txnid_least_bits"):
            if not command.HasField("request_id"):
                raise NotAllowed("An acknowledgement in a transaction needs a request id.")
            return self.subscription.ack_in_transaction(self, command)
        if command.ack_type == pb.CommandAck.Cumulative:
            self.counters.acked(len(command.message_id))
            if len(command.message_id) != 1 or self.pending is not None:
                # Apache's broker ignores such an ACK too (PersistentSubscription.acknowledgeMessage,
                # Consumer.messageAcked).
                log.warning("%s: cumulative ack of %d ids ignored", self, len(command.message_id))
            else:
                self.subscription.ack_cumulative(self, command.message_id[0])
        else:
            self.ack_individual(acks_of(command.message_id))
        return self._durable() if command.HasField("request_id") else None

    def ack_individual(self, acks: list[Ack]) -> None:
        """Applies an ACK of single messages that needs no answer."""
        if not self.is_closed:
            self.counters.acked(len(acks))
            self.subscription.ack_individual(self, acks)

    def ack_in_transaction(self, acks: AcksInTransaction) -> "asyncio.Future[None] | None":
        """Applies ACKs of one transaction together. Returns None, and has no effect, when that is not possible, for
        example because one of the messages is acknowledged already; the caller then calls `ack` for each. The future
        that is returned is that of `ack`; whoever may be cancelled shields it."""
        return None if self.is_closed else self.subscription.ack_together(self, acks)

    async def _durable(self) -> None:
        with storage_faults_told():
            await self.subscription.cursor.persisted()

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Delivers all unacknowledged messages again, or only the listed messages if the command lists some. For
        Exclusive and Failover, which keep the order, a list also means all messages
        (PersistentDispatcherSingleActiveConsumer.redeliverUnacknowledgedMessages)."""
        if self.is_closed:
            return
        if self.epoch is not None and command.HasField("consumer_epoch"):
            self.epoch = max(self.epoch, command.consumer_epoch)
        self.subscription.redeliver(self, command.message_ids)

    async def unsubscribe(self, force: bool = False) -> None:
        """Deletes the subscription. With `force`, disconnects all other consumers first. Raises MetadataFault without
        `force` when the subscription has other consumers."""
        if self.is_closed:
            raise MetadataFault("Consumer not found")
        await self.subscription.unsubscribe(self, force)

    async def seek(self, command: pb.CommandSeek) -> None:
        """Disconnects all consumers, then moves the subscription. The caller answers with SUCCESS when this call
        returns. Raises PulsarError when the subscription cannot be moved."""
        await self.subscription.seek(command)

    async def last_message_id(self) -> tuple[Position, int, int, Position]:
        """Returns (position of the last message, index of the partition, batch index of the last message, mark-delete
        position). The position is (-1, -1) when there is no message, and the batch index is -1 when the entry is no
        batch."""
        topic, cursor = self.subscription.topic, self.subscription.cursor
        mark_delete = cursor.mark_delete
        if self.read_compacted:
            position, batch_index, mark_delete = await topic.last_message_id_compacted(self.start_asked, cursor)
        else:
            position, batch_index = await topic.last_message_id()
        return position, topic.name.partition_index, batch_index, mark_delete

    def close(self) -> None:
        """Called when the client closed the consumer or has disconnected: detaches the consumer from its subscription.
        The unacknowledged messages of this consumer go to other consumers. Idempotent."""
        self.subscription.remove_consumer(self)

    # --- for dispatchers ---------------------------------------------------------------------------------------------

    @property
    def can_take(self) -> bool:
        """Whether the consumer has permits, is not blocked, and has a writable connection."""
        return self.permits > 0 and not self.blocked and self.cnx.is_writable

    @property
    def why_takes_nothing(self) -> str:
        """The reason why consumers like this one get nothing, for stats; empty while `can_take` is True."""
        if self.blocked:
            return "hold too many unacknowledged messages"
        if self.permits <= 0:
            return "have no permits"
        return "" if self.cnx.is_writable else "do not read their connections"

    @property
    def entries(self) -> float:
        """Estimates how many entries use up the consumer's permits. Only meaningful while `can_take` is True."""
        return self.permits / self.average.value

    @property
    def room(self) -> int:
        """Returns how many messages may be sent to the consumer now, by its permits and by the limit of unacknowledged
        messages."""
        if self.blocked:
            return 0
        if self._unacked_max and self.pending is not None:
            return min(self.permits, self._unacked_max - self.pending.messages)
        return self.permits

    @property
    def unacked_max(self) -> int:
        """The number of messages that the consumer may hold unacknowledged; 0 means no limit."""
        return self._unacked_max

    @property
    def permits_kept_back(self) -> int:
        """The permits that came while the consumer was blocked. The consumer gets them when it is unblocked."""
        return self._blocked_permits

    @property
    def unacked_messages(self) -> int:
        return 0 if self.pending is None else self.pending.messages

    def watch_writable(self) -> None:
        """If nothing but the connection keeps the consumer from taking messages, arranges that the dispatcher is woken
        when the connection is writable again."""
        if not self._watches_writable and self.permits > 0 and not self.blocked and not self.cnx.is_writable:
            self._watches_writable = True
            self.cnx.when_writable(self._writable_again)

    def take(self, messages: OutgoingMessages, start: int, stop: int) -> int:
        """Charges the consumer for the entries [start, stop), which `write` sends next. Returns how many messages these
        entries hold."""
        entry_ids, payloads, counts, total = messages.entry_ids, messages.payloads, messages.counts, messages.total
        if start or stop != len(payloads):
            entry_ids, payloads, counts = entry_ids[start:stop], payloads[start:stop], counts[start:stop]
            total = sum(counts)
        self.permits -= total
        self.average.add(stop - start, total)
        self.counters.sent(total, payloads)
        if self.pending is not None:
            self.pending.add(messages.ledger_id, entry_ids, counts, total)
            if 0 < self._unacked_max <= self.pending.messages:
                self.blocked = True
                log.info("%s: blocked at %d unacknowledged messages", self, self.pending.messages)
        return total

    def write(
        self, messages: OutgoingMessages, start: int, stop: int, redelivery_counts: Mapping[int, int] | None = None
    ) -> None:
        """Sends the entries [start, stop) in one write. Callers call `write` last, because the connection may close,
        and closing removes the consumer."""
        ledger_id = messages.ledger_id
        entry_ids, payloads = messages.entry_ids, messages.payloads
        if start or stop != len(payloads):
            entry_ids, payloads = entry_ids[start:stop], payloads[start:stop]
        if self.cnx.protocol_version < FIRST_VERSION_WITH_CHECKSUMS:
            payloads = self._for_old_client(payloads, sum(messages.counts[start:stop]))
        if redelivery_counts is None and messages.ack_sets is None and self.epoch is None:
            # The common case: the frames' heads differ only in the entry's id and the sizes; one call makes them all.
            chunks = self._framer.frames(ledger_id, entry_ids, payloads)
        else:
            chunks = []
            append = chunks.append
            head = self._framer.head
            again = redelivery_counts or {}
            ack_sets = messages.ack_sets or {}
            for entry_id, payload in zip(entry_ids, payloads, strict=True):
                count = again.get(entry_id, 0)
                append(head(ledger_id, entry_id, len(payload), count, ack_sets.get(entry_id, ()), self.epoch))
                append(payload)
        self.cnx.write_frames(chunks)

    def unblock(self, *, at_half: bool = True) -> bool:
        """Unblocks the consumer if it holds few enough unacknowledged messages: at most half of the limit (`at_half`),
        or less than the limit. Returns True when this call unblocked the consumer."""
        if not self.blocked or self.pending is None:
            return False
        limit = self._unacked_max // 2 if at_half else self._unacked_max - 1
        if self.pending.messages > limit:
            return False
        self._release()
        return True

    def _release(self) -> None:
        self.blocked = False
        self.permits += self._blocked_permits
        self._blocked_permits = 0
        log.info("%s: unblocked at %d unacknowledged messages", self, self.unacked_messages)

    def tell_active(self, is_active: bool) -> None:
        """Tells a Failover consumer whether it is the active consumer, which gets all messages. A new consumer is told
        only after it has read the answer to SUBSCRIBE."""
        if self.cnx.protocol_version < FIRST_VERSION_WITH_ACTIVE_CONSUMER_CHANGE:
            return
        if self._listens:
            self.cnx.write(active_consumer_change_frame(self.consumer_id, is_active))
            return
        if self._active_untold is None:
            asyncio.get_running_loop().call_later(LISTENS_AFTER_S, self._begin_to_tell)
        self._active_untold = is_active

    def _begin_to_tell(self) -> None:
        self._listens = True
        untold, self._active_untold = self._active_untold, None
        if untold is not None and not self.is_closed:
            self.tell_active(untold)

    def tell_end(self) -> None:
        """Tells the client, once for each consumer, that the topic is terminated and all messages are acknowledged."""
        if self.told_end or self.cnx.protocol_version < FIRST_VERSION_WITH_END_OF_TOPIC:
            return
        self.told_end = True
        if not self.cnx.client_version.startswith(CLIENTS_WITHOUT_END_OF_TOPIC):
            self.cnx.write(reached_end_of_topic_frame(self.consumer_id))

    def _writable_again(self) -> None:
        self._watches_writable = False
        if not self.is_closed:
            self.subscription.consumer_may_take(self)

    def _for_old_client(self, payloads: list[bytes], messages: int) -> list[bytes]:
        """Returns the payloads without checksums, because clients below protocol version 11 know no checksums. Clients
        below version 4 know no batches either; when the entries hold a batch, this method closes the connection of such
        a client."""
        if self.cnx.protocol_version < FIRST_VERSION_WITH_BATCHES and messages > len(payloads):
            self.cnx.close("the client is too old for batched messages")
        return [payload[skip_checksum(payload) :] for payload in payloads]
