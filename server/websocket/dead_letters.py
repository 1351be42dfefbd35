"""Moves messages that were delivered too often from a consumer's topic to the dead letter topic.

A message that comes again more often than `maxRedeliverCount` allows is not delivered. Instead, a producer in this
broker publishes the message to the dead letter topic, and the message is acknowledged when it is stored there. While
the producer is being attached, messages wait. A message is delivered again later when the dead letter topic does not
accept the producer or the message, and when `WAITING_MAX` messages wait already.

Source: ConsumerImpl.processPossibleToDLQ, RetryMessageUtil.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from magnetar.server.security.operations import TopicOperation
from magnetar.server.websocket.received_messages import ReceivedMessage
from magnetar.server.websocket.socket_topics import AttachedProducer, SocketTopics
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import compress
from pulsar_proto.records.payload import build_payload
from pulsar_proto.wire.frame_encoders import Receipt

if TYPE_CHECKING:
    from magnetar.server.websocket.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

WAITING_MAX = 100
"""How many messages may wait for one dead letter topic, or be on their way to it."""

_Type = pb.BaseCommand
Told = Callable[[ReceivedMessage], None]


class DeadLetters:
    """The dead letter topics of one socket: the topic that the socket's query names, or one for each topic of the
    socket."""

    def __init__(
        self,
        client: "WebSocketClient",
        topics: SocketTopics,
        subscription: str,
        topic: TopicName | None,
        stored: Told,
        failed: Told,
    ) -> None:
        """`stored` or `failed` is called with each message when the outcome of the message is known."""
        self._client = client
        self._topics = topics
        self._subscription = subscription
        self._topic = topic
        self._stored = stored
        self._failed = failed
        self._letters: dict[TopicName, _DeadLetterTopic] = {}
        self._is_closed = False

    async def authorize(self, topics: Iterable[TopicName]) -> None:
        """Raises PulsarError when the peer may not publish to the dead letter topics."""
        for target in {self._target(topic) for topic in topics}:
            await self._client.authorize(TopicOperation.PRODUCE, target)

    def add(self, origin: TopicName, message: ReceivedMessage) -> None:
        """Moves a message of the topic `origin` to its dead letter topic."""
        if self._is_closed:
            return
        target = self._target(origin.base)
        letters = self._letters.get(target)
        if letters is None:
            producer_id = 1 + len(self._letters)
            letters = self._letters[target] = _DeadLetterTopic(
                self._client, self._topics, target, producer_id, self._stored, self._failed
            )
        letters.add(origin, message)

    def on_command(self, command: pb.BaseCommand) -> bool:
        """Handles a frame that a dead letter topic wrote. Returns False for a frame that is not for a producer of this
        object."""
        if command.type == _Type.SEND_ERROR:
            error = command.send_error
            self._of(error.producer_id).refused(error.sequence_id, error.message or "it was refused")
        elif command.type == _Type.CLOSE_PRODUCER:
            self._of(command.close_producer.producer_id).closed_by_topic()
        else:
            return False
        return True

    def close(self) -> None:
        """Detaches the producers. Messages that were not stored are delivered again to another consumer. Further calls
        have no effect."""
        self._is_closed = True
        for letters in self._letters.values():
            letters.close()

    def _target(self, origin: TopicName) -> TopicName:
        return self._topic or TopicName.parse(f"{origin.full}-{self._subscription}-DLQ")

    def _of(self, producer_id: int) -> "_DeadLetterTopic":
        return list(self._letters.values())[producer_id - 1]


class _DeadLetterTopic:
    """One dead letter topic. Implements `magnetar.server.topics.publishing.receipt_writers.ReceiptWriter`."""

    def __init__(
        self,
        client: "WebSocketClient",
        topics: SocketTopics,
        name: TopicName,
        producer_id: int,
        stored: Told,
        failed: Told,
    ) -> None:
        self._client = client
        self._topics = topics
        self._name = name
        self._producer_id = producer_id
        self._stored = stored
        self._failed = failed
        self._waiting: deque[tuple[TopicName, ReceivedMessage]] = deque()
        self._pending: dict[int, ReceivedMessage] = {}
        """The messages without a receipt, by sequence id."""
        self._producer: AttachedProducer | None = None
        self._working: asyncio.Task[None] | None = None
        self._next_sequence_id = 0
        self._is_closed = False

    def add(self, origin: TopicName, message: ReceivedMessage) -> None:
        if len(self._waiting) + len(self._pending) >= WAITING_MAX:
            self._failed(message)
            return
        self._waiting.append((origin, message))
        if self._working is None:
            self._working = self._client.broker.spawn(self._publish())

    def write_run(self, receipts: Sequence[Receipt], ledger_id: int, first_entry_id: int) -> None:
        for sequence_id, _ in receipts:
            message = self._pending.pop(sequence_id, None)
            if message is not None:
                self._client.guarded(self._stored, message)

    def write_unstored(self, receipts: Sequence[Receipt], ledger_id: int, entry_id: int) -> None:
        self.write_run(receipts, ledger_id, entry_id)

    def refused(self, sequence_id: int, fault: str) -> None:
        message = self._pending.pop(sequence_id, None)
        if message is not None:
            log.warning("%s: a dead letter was not stored in %s: %s", self._client.remote_address, self._name, fault)
            self._failed(message)

    def closed_by_topic(self) -> None:
        self._producer = None
        self._fail(list(self._pending.values()))
        self._pending.clear()

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        self._pending.clear()
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    async def _publish(self) -> None:
        try:
            while self._waiting and not self._is_closed:
                producer = self._producer or await self._attach()
                if not self._waiting:
                    return
                origin, message = self._waiting[0]
                payload = await asyncio.to_thread(_payload_of, origin, message, producer.name, self._next_sequence_id)
                if not self._waiting or self._waiting[0][1] is not message:
                    continue  # The session gave the message up meanwhile.
                self._waiting.popleft()
                if producer.is_closed:
                    self._failed(message)
                    continue
                send = pb.CommandSend(producer_id=self._producer_id, sequence_id=self._next_sequence_id, num_messages=1)
                self._pending[self._next_sequence_id] = message
                self._next_sequence_id += 1
                producer.publish([(send, payload)])
        except PulsarError as error:
            log.warning("%s: dead letters cannot be stored in %s: %s", self._client.remote_address, self._name, error)
            self._fail_waiting()
        except Exception:
            log.exception("%s: dead letters cannot be stored in %s", self._client.remote_address, self._name)
            self._fail_waiting()
        finally:
            self._working = None

    async def _attach(self) -> AttachedProducer:
        """Attaches the producer to the dead letter topic. Raises PulsarError when the topic does not accept the
        producer."""
        await self._client.authorize(TopicOperation.PRODUCE, self._name)
        partitions = await self._client.broker.service.catalog.partitions_of(self._name, may_create=True)
        name = self._name.partition(self._producer_id % partitions) if partitions else self._name
        command = pb.CommandProducer(topic=name.full, producer_id=self._producer_id, request_id=0)
        producer = await self._topics.add_producer(name, command, self)
        if self._is_closed:
            producer.close()
        else:
            self._producer = producer
        return producer

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._fail([message for _, message in waiting])

    def _fail(self, messages: Iterable[ReceivedMessage]) -> None:
        for message in messages:
            self._failed(message)


def _payload_of(origin: TopicName, message: ReceivedMessage, producer_name: str, sequence_id: int) -> bytes:
    """Returns the payload of the message for the dead letter topic. The message's properties name the topic and the
    message from which it comes (RetryMessageUtil)."""
    own, entry = message.own, message.entry
    where = f"{entry.ledger_id}:{entry.entry_id}:{origin.partition_index}"
    metadata = pb.MessageMetadata(
        producer_name=producer_name,
        sequence_id=sequence_id,
        publish_time=time.time_ns() // 1_000_000,
        properties=[
            *own.properties,
            pb.KeyValue(key="REAL_TOPIC", value=origin.full),
            pb.KeyValue(key="ORIGIN_MESSAGE_ID", value=f"{where}:{message.place}" if message.batch_size else where),
        ],
        event_time=own.event_time,
    )
    for field in ("partition_key", "partition_key_b64_encoded", "ordering_key"):
        if own.HasField(field):
            setattr(metadata, field, getattr(own, field))
    codec = message.metadata.compression if message.encryption_context is None else pb.NONE
    if codec != pb.NONE:
        metadata.compression, metadata.uncompressed_size = codec, len(message.value)
    return build_payload(metadata, compress(codec, message.value))
