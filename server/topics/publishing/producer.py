"""One producer: groups of SENDs go to the topic's log, their receipts come back in one write.

A group is all SENDs of this producer in one socket read. Nothing is made per message but a tuple of its sequence ids:
the connection has verified checksums and sizes before.

Sources: Producer.publishMessage, MessagePublishContext; facts 4.2.
"""

from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from magnetar.server.topics.client_connection import ClientConnection
from magnetar.server.topics.counters import ProducerCounters
from magnetar.storage.managed.append_queue import AddResult
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.frame_encoders import Receipt, ReceiptEncoder

if TYPE_CHECKING:
    from magnetar.server.topics.publishing.checked_publish import CheckedPublisher
    from magnetar.server.topics.publishing.topic_producers import TopicProducers

Sends = list[tuple[pb.CommandSend, bytes]]

REFUSALS_MAX = 1_000
"""Refusals that wait for receipts before them; one more is written at once."""


class Producer:
    """Made by `Topic.add_producer`; every method is called on the loop's thread."""

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
    ) -> None:
        self.cnx = cnx
        self.producer_id: int = command.producer_id
        self.name = name
        self.has_own_name: bool = command.user_provided_producer_name
        """The application chose the name; else it is unique to one producer object of one client."""
        self.epoch: int = command.epoch
        """How often the client has reconnected."""
        self.access_mode = command.producer_access_mode
        self.metadata = {pair.key: pair.value for pair in command.metadata}
        self.connected_ms = connected_ms
        self.last_sequence_id = -1
        """What its name has published before; known only with deduplication."""
        self.schema_version = b""
        self.topic_epoch: int | None = None
        self.pending = 0
        """SENDs without an answer."""
        self.counters = ProducerCounters()
        self.is_closed = False
        """Takes no more SENDs; those that are under way are answered."""
        self.is_disconnected = False
        """The broker closed it: the client sends what was not answered again, so nothing is answered any more."""
        self._registry = registry
        self._receipts = ReceiptEncoder(self.producer_id)
        self._answered = 0
        """SENDs that ever were."""
        self._refusals: deque[tuple[int, bytes]] = deque()
        """SEND_ERRORs, each with what `_answered` has to reach before it."""
        self._drained: Future[None] | None = None
        self._checked: CheckedPublisher | None = None

    def __str__(self) -> str:
        return f"producer {self.producer_id} ({self.name}) of {self._registry}"

    def publish(self, sends: Sends) -> None:
        """One group, in order, at least one. Answered later, with receipts or by closing this producer."""
        if self.is_closed:
            return
        if self._registry.is_checked:
            self._publish_checked(sends)
            return
        receipts: list[Receipt] = []
        payloads: list[bytes] = []
        messages = 0
        for send, payload in sends:
            sequence_id = send.sequence_id
            highest = send.highest_sequence_id
            # Absent is 0; below the first one it counts as absent (ServerCnx.handleSend).
            receipts.append((sequence_id, highest if highest and highest >= sequence_id else None))
            payloads.append(payload)
            messages += send.num_messages
        self.append(PublishGroup(self, receipts, messages, sum(map(len, payloads))), payloads)

    def _publish_checked(self, sends: Sends) -> None:
        """The same where SENDs are looked at one by one."""
        if self._checked is None:
            self._checked = self._registry.checked_publisher(self)
        self._checked.publish(sends)

    def append(self, group: "PublishGroup", payloads: list[bytes]) -> None:
        """SENDs that go to the log."""
        self.pending += len(payloads)
        self._registry.publish(group, payloads)

    def answer_unstored(self, receipt: Receipt) -> None:
        """A receipt without a place in the log, as Java gives it: for a message that was stored before."""
        self.cnx.write(self._receipts.encode(*receipt, -1, -1))

    def refuse(self, frame: bytes) -> None:
        """Writes a SEND_ERROR after the receipts of all that was sent before it: C++'s client gives up the message that
        it has waited for longest or none, Java's likewise (ProducerImpl.recoverNotAllowedError)."""
        if self.pending and len(self._refusals) < REFUSALS_MAX:
            self._refusals.append((self._answered + self.pending, frame))
        else:
            self.cnx.write(frame)

    def close(self) -> Awaitable[None] | None:
        """The client closed it or is gone. Its name is free at once; the awaitable, if there is one, ends when what
        was under way is answered. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self._registry.remove(self)
        if not self.pending:
            return None
        if self._drained is None:
            self._drained = get_running_loop().create_future()
        return self._drained

    def disconnect(self) -> None:
        """The topic closes it: the client is told, and comes back."""
        self.is_disconnected = True
        if not self.is_closed:
            self.is_closed = True
            self._registry.remove(self)
            self.cnx.close_producer(self.producer_id)

    def is_successor_of(self, other: "Producer") -> bool:
        """The same producer of the same client, come again (Producer.isSuccessorTo). Where the name is generated, it
        may come from a new connection while the old one is not known to be dead."""
        if self.epoch <= other.epoch:
            return False
        if not self.has_own_name and not other.has_own_name:
            return True
        return self.cnx is other.cnx and self.producer_id == other.producer_id

    def answered(self, count: int) -> None:
        self.pending -= count
        self._answered += count
        refusals = self._refusals
        while refusals and refusals[0][0] <= self._answered:
            _, frame = refusals.popleft()
            if not self.is_disconnected:
                self.cnx.write(frame)
        if not self.pending and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


class PublishGroup:
    """SENDs that were appended together."""

    __slots__ = ("messages", "producer", "receipts", "size_bytes")

    def __init__(self, producer: Producer, receipts: list[Receipt], messages: int, size_bytes: int) -> None:
        self.producer = producer
        self.receipts = receipts
        self.messages = messages
        self.size_bytes = size_bytes

    def stored(self, result: AddResult) -> None:
        """All of it is durable, or what is not in `result.runs` failed."""
        producer = self.producer
        receipts = self.receipts
        registry = producer._registry
        if not producer.is_disconnected:
            at = 0
            for ledger_id, first_entry_id, count in result.runs:
                part = receipts if count == len(receipts) else receipts[at : at + count]
                producer.cnx.write(producer._receipts.encode_run(part, ledger_id, first_entry_id))
                at += count
        if result.error is None:
            producer.counters.messages_in += self.messages
            producer.counters.bytes_in += self.size_bytes
            registry.stored(self.messages, self.size_bytes)
        else:
            registry.failed(result.error)
        producer.answered(len(receipts))

    def delivered(self, place: Position) -> None:
        """All of it reached whoever took it, and is kept nowhere: every message has the same id."""
        producer = self.producer
        if not producer.is_disconnected:
            encode, (ledger_id, entry_id) = producer._receipts.encode, place
            producer.cnx.write(b"".join([encode(*receipt, ledger_id, entry_id) for receipt in self.receipts]))
        producer.counters.messages_in += self.messages
        producer.counters.bytes_in += self.size_bytes
        producer._registry.stored(self.messages, self.size_bytes)
        producer.answered(len(self.receipts))
