"""One consumer: its permits, what it holds unacknowledged, and the MESSAGE frames that go to it.

A permit is a message, not an entry. Whoever dispatches asks `can_take` and calls `take` and `write`; everything that
concerns more than this consumer is its subscription's.

Sources: Consumer.sendMessages, flowPermits, individualAckNormal, redeliverUnacknowledgedMessages; facts 5.2 to 5.4.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.client_connection import ClientConnection
from magnetar.server.topics.counters import ConsumerCounters
from magnetar.server.topics.subscriptions.consumer_owner import ConsumerOwner
from magnetar.server.topics.subscriptions.key_shared_rules import AUTO_SPLIT, SLOTS, KeySharedPolicy, SlotRange
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages
from magnetar.server.topics.subscriptions.read_size_rules import EntryAverage
from magnetar.server.topics.subscriptions.redelivery import PendingAcks
from pulsar_proto.errors import MetadataFault, NotAllowed
from pulsar_proto.ids import EARLIEST, LATEST, Position, signed64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import skip_checksum
from pulsar_proto.wire.commands import active_consumer_change_frame, reached_end_of_topic_frame
from pulsar_proto.wire.frame_encoders import MessageFramer

log = logging.getLogger(__name__)

FIRST_VERSION_WITH_BATCHES = 4
FIRST_VERSION_WITH_CHECKSUMS = 11
FIRST_VERSION_WITH_ACTIVE_CONSUMER_CHANGE = 12
FIRST_VERSION_WITH_END_OF_TOPIC = 9

LISTENS_AFTER_S = 1.0
"""Since SUBSCRIBE, a client that gives no permits: the least that Apache takes until it says who is active."""

SubType = pb.CommandSubscribe.SubType


def start_asked_by(command: pb.CommandSubscribe) -> Position | None:
    """From where on a consumer wants messages, if its subscription has not begun: EARLIEST, a message, or None for only
    new ones. Latest is recognised by the ledger alone: C++ keeps 48 bits of the entry id."""
    if command.HasField("start_message_id"):
        ledger_id = signed64(command.start_message_id.ledgerId)
        if ledger_id == LATEST.ledger_id:
            return None
        return EARLIEST if ledger_id < 0 else Position(ledger_id, signed64(command.start_message_id.entryId))
    return EARLIEST if command.initialPosition == pb.CommandSubscribe.Earliest else None


class Consumer:
    """Made by `Topic.subscribe`; every method is called on the loop's thread."""

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
        """`unacked_max` 0: no limit. `partition` is the topic's index, -1 for none."""
        self.subscription = subscription
        self.cnx = cnx
        self.consumer_id: int = command.consumer_id
        self.name: str = command.consumer_name
        self.priority: int = command.priority_level
        self.sub_type = command.subType
        self.metadata = {pair.key: pair.value for pair in command.metadata}
        self.connected_ms = connected_ms
        single_active = command.subType in (SubType.Exclusive, SubType.Failover)
        self.epoch: int | None = (
            command.consumer_epoch if single_active and command.HasField("consumer_epoch") else None
        )
        self.key_shared = AUTO_SPLIT
        """Of a Key_Shared subscription; all of its consumers must agree."""
        self.hash_ranges: Sequence[SlotRange] = ()
        if command.HasField("keySharedMeta"):
            meta = command.keySharedMeta
            self.key_shared = KeySharedPolicy(meta.keySharedMode == pb.STICKY, meta.allowOutOfOrderDelivery)
            self.hash_ranges = [(each.start, each.end) for each in meta.hashRanges[: SLOTS + 1]]
        self.permits = 0
        """Messages that it takes; below zero when a batch was larger than what was left."""
        self.pending: PendingAcks | None = None if single_active else PendingAcks()
        """What it holds unacknowledged; None where one consumer gets everything and the cursor tells enough."""
        self.blocked = False
        """Holds too many unacknowledged messages. Permits that come meanwhile are kept aside."""
        self.average = EntryAverage()
        self.counters = ConsumerCounters()
        self.is_closed = False
        self.told_end = False
        self.read_compacted: bool = command.read_compacted
        self.start_asked = start_asked_by(command)
        """Messages that it wants from there on, if its subscription has not begun; None: only new ones."""
        self.takes_any_schema: bool = command.schema.type == pb.Schema.AutoConsume
        """It asks for each message's schema, and has none of its own."""
        self._framer = MessageFramer(self.consumer_id, partition)
        self._unacked_max = unacked_max
        self._listens = False
        """It has its answer to SUBSCRIBE. Go drops what comes before it has looked at that, and then gives permits."""
        self._active_untold: bool | None = None
        self._blocked_permits = 0
        self._watches_writable = False

    def __str__(self) -> str:
        return f"consumer {self.consumer_id} ({self.name}) of {self.subscription}"

    # --- what the client sends ---------------------------------------------------------------------------------------

    def set_unacked_max(self, unacked_max: int) -> None:
        """0: no limit. Holds at once, for what was sent before too."""
        self._unacked_max = unacked_max
        if self.pending is None:
            return
        if self.blocked and not 0 < unacked_max <= self.pending.messages:
            self._release()
        elif 0 < unacked_max <= self.pending.messages:
            self.blocked = True

    def flow(self, permits: int) -> None:
        """`permits` > 0 more messages may be sent."""
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
        """Where ACK has a request id: done when all of it is durable, then ACK_RESPONSE is due. Raises NotAllowed."""
        if self.is_closed:
            return None
        if command.HasField("txnid_most_bits") or command.HasField("txnid_least_bits"):
            raise NotAllowed("Transactions are not enabled.")
        self.counters.acked(len(command.message_id))
        if command.ack_type == pb.CommandAck.Cumulative:
            if len(command.message_id) != 1 or self.pending is not None:
                # PersistentSubscription.acknowledgeMessage and Consumer.messageAcked ignore both.
                log.warning("%s: cumulative ack of %d ids ignored", self, len(command.message_id))
            else:
                self.subscription.ack_cumulative(self, command.message_id[0])
        else:
            self.subscription.ack_individual(self, command.message_id)
        return self._durable() if command.HasField("request_id") else None

    async def _durable(self) -> None:
        with storage_faults_told():
            await self.subscription.cursor.persisted()

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """Everything unacknowledged, or the listed messages, comes again. A list means everything where the order
        counts (PersistentDispatcherSingleActiveConsumer.redeliverUnacknowledgedMessages)."""
        if self.is_closed:
            return
        if self.epoch is not None and command.HasField("consumer_epoch"):
            self.epoch = max(self.epoch, command.consumer_epoch)
        self.subscription.redeliver(self, command.message_ids)

    async def unsubscribe(self, force: bool = False) -> None:
        """Deletes the subscription. Without force only its single consumer may. Raises MetadataFault."""
        if self.is_closed:
            raise MetadataFault("Consumer not found")
        await self.subscription.unsubscribe(self, force)

    async def seek(self, command: pb.CommandSeek) -> None:
        """Disconnects all consumers, then moves the subscription; SUCCESS is due when done. Raises PulsarError."""
        await self.subscription.seek(command)

    async def last_message_id(self) -> tuple[Position, int, int, Position]:
        """(last message or (-1, -1), partition, its last batch index or -1, mark-delete)."""
        topic, cursor = self.subscription.topic, self.subscription.cursor
        mark_delete = cursor.mark_delete
        if self.read_compacted:
            position, batch_index, mark_delete = await topic.last_message_id_compacted(self.start_asked, cursor)
        else:
            position, batch_index = await topic.last_message_id()
        return position, topic.name.partition_index, batch_index, mark_delete

    def close(self) -> None:
        """The client closed it or is gone: what it holds goes to others. Idempotent."""
        self.subscription.remove_consumer(self)

    # --- for dispatchers ---------------------------------------------------------------------------------------------

    @property
    def can_take(self) -> bool:
        return self.permits > 0 and not self.blocked and self.cnx.is_writable

    @property
    def entries(self) -> float:
        """How many entries it takes by its permits, if it can take any."""
        return self.permits / self.average.value

    @property
    def room(self) -> int:
        """Messages that may be sent to it now, as far as permits and the limit of unacknowledged ones go."""
        if self.blocked:
            return 0
        if self._unacked_max and self.pending is not None:
            return min(self.permits, self._unacked_max - self.pending.messages)
        return self.permits

    @property
    def unacked_messages(self) -> int:
        return 0 if self.pending is None else self.pending.messages

    def watch_writable(self) -> None:
        """Wakes the dispatcher when the connection takes bytes again. For one whose connection is the only obstacle."""
        if not self._watches_writable and self.permits > 0 and not self.blocked and not self.cnx.is_writable:
            self._watches_writable = True
            self.cnx.when_writable(self._writable_again)

    def take(self, messages: OutgoingMessages, start: int, stop: int) -> int:
        """Accounts for entries [start, stop), which `write` sends next. Returns how many messages they are."""
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
        """Sends entries [start, stop) in one write. Last, because a connection that closes takes the consumer away."""
        ledger_id = messages.ledger_id
        entry_ids, payloads = messages.entry_ids, messages.payloads
        if start or stop != len(payloads):
            entry_ids, payloads = entry_ids[start:stop], payloads[start:stop]
        if self.cnx.protocol_version < FIRST_VERSION_WITH_CHECKSUMS:
            payloads = self._for_old_client(payloads, sum(messages.counts[start:stop]))
        if redelivery_counts is None and messages.ack_sets is None and self.epoch is None:
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
        """Goes on when it holds few enough unacknowledged messages: half of the limit, or less than the limit. True
        when it was blocked until now."""
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
        """Failover: whether it is the one that gets messages. A new one is told once it listens."""
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
        """The topic is terminated and everything is acknowledged. Told once: C++ reconnects each time (facts 14)."""
        if not self.told_end and self.cnx.protocol_version >= FIRST_VERSION_WITH_END_OF_TOPIC:
            self.told_end = True
            self.cnx.write(reached_end_of_topic_frame(self.consumer_id))

    def _writable_again(self) -> None:
        self._watches_writable = False
        if not self.is_closed:
            self.subscription.consumer_may_take(self)

    def _for_old_client(self, payloads: list[bytes], messages: int) -> list[bytes]:
        """Facts 1.1, 1.2: no checksum below protocol 11; a batch to a client below 4 ends its connection."""
        if self.cnx.protocol_version < FIRST_VERSION_WITH_BATCHES and messages > len(payloads):
            self.cnx.close("the client is too old for batched messages")
        return [payload[skip_checksum(payload) :] for payload in payloads]
