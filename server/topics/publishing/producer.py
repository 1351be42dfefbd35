"""One producer: its SENDs go to the topic's log in groups, and the receipts of a group are written at once.

A group consists of all SENDs of this producer in one socket read. The connection has verified checksums and sizes
before, so the only object that this module creates for each message is a tuple of the message's sequence ids.

Sources: Producer.publishMessage, MessagePublishContext.
"""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from magnetar.server.topics.client_connection import NO_METADATA, ClientConnection
from magnetar.server.topics.counters import ProducerCounters
from magnetar.server.topics.publishing.receipt_writers import FramedReceipts, ReceiptWriter
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.frame_encoders import Receipt
from pulsar_proto.wire.send_run import Send, single_sends

if TYPE_CHECKING:
    from magnetar.server.topics.publishing.checked_publish import CheckedPublisher
    from magnetar.server.topics.publishing.topic_producers import TopicProducers

Sends = Sequence[tuple[Send, bytes]]

REFUSALS_MAX = 1_000
"""How many refusals may wait until earlier receipts are written. Further refusals are written at once, out of order."""


class Producer:
    """One producer of a topic. `BaseTopic.add_producer` creates it. Every method is called on the loop's thread."""

    __slots__ = (
        "_answered",
        "_checked",
        "_drained",
        "_receipts",
        "_refusals",
        "_registry",
        "access_mode",
        "cnx",
        "connected_ms",
        "counters",
        "epoch",
        "has_own_name",
        "is_closed",
        "is_disconnected",
        "last_sequence_id",
        "metadata",
        "name",
        "pending",
        "producer_id",
        "schema_version",
        "topic_epoch",
    )

    def __init__(
        self,
        registry: "TopicProducers",
        cnx: ClientConnection,
        command: pb.CommandProducer,
        name: str,
        connected_ms: int,
        receipts: ReceiptWriter | None = None,
    ) -> None:
        """`receipts` takes the receipts; by default they go to the client as frames."""
        self.cnx = cnx
        self.producer_id: int = command.producer_id
        self.name = name
        self.has_own_name: bool = command.user_provided_producer_name
        """Whether the application chose the producer's name. If not, the broker generated the name, and only one
        producer object of one client has that name."""
        self.epoch: int = command.epoch
        """How often the client has reconnected this producer."""
        self.access_mode = command.producer_access_mode
        self.metadata = {pair.key: pair.value for pair in command.metadata} if command.metadata else NO_METADATA
        self.connected_ms = connected_ms
        self.last_sequence_id = -1
        """The highest sequence id that was published under this name before, or -1 when that is unknown. Without
        deduplication the id is always unknown."""
        self.schema_version = b""
        self.topic_epoch: int | None = None
        self.pending = 0
        """The number of SENDs that were accepted and are not answered yet."""
        self.counters = ProducerCounters()
        self.is_closed = False
        """Whether the producer takes no more SENDs. SENDs that are under way are still answered, unless
        `is_disconnected` is set."""
        self.is_disconnected = False
        """Whether the broker closed the producer. The client will send unanswered messages again, so no answer is
        written any more."""
        self._registry = registry
        self._receipts = FramedReceipts(cnx, self.producer_id) if receipts is None else receipts
        self._answered = 0
        """The number of SENDs that were answered since this object was created."""
        self._refusals: deque[tuple[int, bytes]] | None = None
        """SEND_ERROR frames that wait until earlier receipts are written: (the value of `_answered` at which the frame
        is written, the frame). None until a frame has to wait: even when it is empty, a deque takes 760 bytes."""
        self._drained: Future[None] | None = None
        """The future that `close` returns. The future is done when no SEND is pending."""
        self._checked: CheckedPublisher | None = None
        """Publishes SENDs that must be checked. Created at the first such SEND."""

    def __str__(self) -> str:
        return f"producer {self.producer_id} ({self.name}) of {self._registry}"

    @property
    def topic_name(self) -> str:
        """The full name of the producer's topic."""
        return str(self._registry)

    def publish(self, sends: Sends) -> None:
        """Publishes the SENDs of one socket read, in their order; `sends` is not empty. The SENDs are answered later,
        with receipts or by closing this producer."""
        if self.is_closed:
            return
        if self._registry.is_checked:
            self._publish_checked(sends)
            return
        receipts: list[Receipt] = []
        payloads: list[bytes] = []
        messages = size_bytes = 0
        for send, payload in sends:
            sequence_id = send.sequence_id
            highest = send.highest_sequence_id
            # 0 is the field's default. A highest id below the sequence id counts as absent (ServerCnx.handleSend).
            receipts.append((sequence_id, highest if highest and highest >= sequence_id else None))
            payloads.append(payload)
            messages += send.num_messages
            size_bytes += len(payload)
        self.append(PublishGroup(self, receipts, messages, size_bytes), payloads)

    def publish_singles(self, first_sequence_id: int, payloads: list[bytes]) -> None:
        """Publishes single messages whose sequence ids follow one another, as `publish` does. For callers within the
        broker this saves making a command for each message and reading it again."""
        if self.is_closed:
            return
        if self._registry.is_checked:
            self._publish_checked(single_sends(self.producer_id, first_sequence_id, payloads))
            return
        count = len(payloads)
        receipts: list[Receipt] = [(first_sequence_id + place, None) for place in range(count)]
        self.append(PublishGroup(self, receipts, count, sum(map(len, payloads))), payloads)

    def publish_in_transactions(self, sends: Sends) -> None:
        """Publishes SENDs as `publish` does, some of which belong to transactions."""
        if not self.is_closed:
            self._publish_checked(sends)

    def _publish_checked(self, sends: Sends) -> None:
        """Publishes SENDs that must be checked one by one, through `CheckedPublisher`."""
        if self._checked is None:
            self._checked = self._registry.checked_publisher(self)
        self._checked.publish(sends)

    def append(self, group: "PublishGroup", payloads: list[bytes]) -> None:
        """Hands SENDs to the log, which reports the outcome to `group`."""
        self.pending += len(payloads)
        self._registry.publish(group, payloads)

    def answer_unstored(self, receipt: Receipt) -> None:
        """Writes the receipt of a message that was stored before. The receipt's position is (-1, -1), as in Java
        (PersistentTopic.publishMessage)."""
        self._receipts.write_unstored((receipt,), -1, -1)

    def refuse(self, frame: bytes) -> None:
        """Writes a SEND_ERROR after the receipts of all SENDs that came before the refused SEND, because clients fail
        only the message at the head of their queue: the Java client (ProducerImpl.recoverNotAllowedError) and the C++
        client compare that message's sequence id with the sequence id in the error."""
        if not self.pending:
            self.cnx.write(frame)
            return
        if self._refusals is None:
            self._refusals = deque()
        if len(self._refusals) < REFUSALS_MAX:
            self._refusals.append((self._answered + self.pending, frame))
        else:
            self.cnx.write(frame)

    def close(self) -> Awaitable[None] | None:
        """Called when the client closes the producer or has disconnected. Idempotent. The producer's name is free at
        once. Returns an awaitable that ends when all SENDs under way are answered, or None when no SEND is under
        way."""
        if not self.is_closed:
            self.is_closed = True
            self._registry.remove(self)
        if not self.pending:
            return None
        if self._drained is None:
            self._drained = get_running_loop().create_future()
        return self._drained

    def disconnect(self) -> None:
        """Closes the producer on the broker's initiative. The client gets CLOSE_PRODUCER and will reconnect."""
        self.is_disconnected = True
        if not self.is_closed:
            self.is_closed = True
            self._registry.remove(self)
            self.cnx.close_producer(self.producer_id)

    def is_successor_of(self, other: "Producer") -> bool:
        """Whether this producer replaces `other`: both belong to one producer object of a client, which has reconnected
        (Producer.isSuccessorTo). A producer with a generated name may reconnect over a new connection before the broker
        knows that the old connection is dead."""
        if self.epoch <= other.epoch:
            return False
        if not self.has_own_name and not other.has_own_name:
            return True
        return self.cnx is other.cnx and self.producer_id == other.producer_id

    def answered(self, count: int) -> None:
        """Called after the receipts of `count` SENDs were written, or dropped. Writes the refusals that waited for
        these receipts."""
        self.pending -= count
        self._answered += count
        refusals = self._refusals
        while refusals and (refusals[0][0] <= self._answered or not self.pending):
            _, frame = refusals.popleft()
            if not self.is_disconnected:
                self.cnx.write(frame)
        if not self.pending and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


class PublishGroup:
    """SENDs of one producer that are appended to the log together. `receipts` holds the sequence ids that the receipts
    of these SENDs repeat. `messages` is the number of messages in the SENDs, including the messages in batches."""

    __slots__ = ("messages", "producer", "receipts", "size_bytes")

    def __init__(self, producer: Producer, receipts: list[Receipt], messages: int, size_bytes: int) -> None:
        self.producer = producer
        self.receipts = receipts
        self.messages = messages
        self.size_bytes = size_bytes

    def stored(self, result: AddResult) -> None:
        """Called once by the log: writes the receipts. The SENDs in `result.runs` are durable; if `result` has an
        error, all other SENDs failed."""
        producer = self.producer
        receipts = self.receipts
        registry = producer._registry
        if not producer.is_disconnected:
            at = 0
            for ledger_id, first_entry_id, count in result.runs:
                part = receipts if count == len(receipts) else receipts[at : at + count]
                producer._receipts.write_run(part, ledger_id, first_entry_id)
                at += count
        if result.error is None:
            producer.counters.messages_in += self.messages
            producer.counters.bytes_in += self.size_bytes
            registry.stored(self.messages, self.size_bytes)
        else:
            registry.failed(result.error)
        producer.answered(len(receipts))

    def delivered(self, place: Position) -> None:
        """Called in place of `stored` by a non-persistent topic, once the messages were handed to the consumers: writes
        the receipts. The messages are not stored, so all receipts carry the position `place`."""
        producer = self.producer
        if not producer.is_disconnected:
            producer._receipts.write_unstored(self.receipts, *place)
        producer.counters.messages_in += self.messages
        producer.counters.bytes_in += self.size_bytes
        producer._registry.stored(self.messages, self.size_bytes)
        producer.answered(len(self.receipts))
