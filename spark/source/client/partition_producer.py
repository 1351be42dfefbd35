"""A producer of one topic partition, which sends batches, waits for receipts, and after a reconnect sends batches
without a receipt again.

The caller numbers the messages. When a producer connects, PRODUCER_SUCCESS tells the highest sequence id that the
broker has stored for the producer's name (last_sequence_id), and messages up to that id are not sent again. So a topic
with deduplication stores each message once.
"""

import base64
import time
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from magnetar.spark.source.client.broker_connection import BrokerConnection, Disconnected
from magnetar.spark.source.client.pulsar_client import PulsarClient, while_busy
from magnetar.spark.source.decoding.compression import compress
from pulsar_proto.errors import TopicTerminated, error_of_code
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_batch, build_payload
from pulsar_proto.wire.commands import send_frame

PRODUCER_ID = 1
INT32_MAX = 2**31 - 1
PENDING_MAX = 500
"""When this many batches have no receipt yet, the producer waits."""
PENDING_BYTES_MAX = 64 * 1024 * 1024
"""When batches of this many bytes have no receipt yet, the producer waits, too. A single message may be larger."""
BATCH_BYTES = 128 * 1024
BUSY_SECONDS = 20.0
"""How long ProducerBusy is tolerated: a broker may take this long to notice that the previous task was killed."""


class SendFailed(Exception):
    """The broker refused a message, or did not confirm it in time."""


class OutgoingMessage(NamedTuple):
    """A message to be sent. `event_time` is in milliseconds; 0 means that the message has none. A `value` of None makes
    a tombstone."""

    topic: str
    key: bytes | None
    event_time: int
    properties: tuple[tuple[str, str], ...]
    value: bytes | None
    ordering_key: bytes | None = None
    partition: int | None = None
    """The partition to send to; None leaves that to the key."""

    @property
    def batching_key(self) -> bytes:
        """The key by which subscriptions of the kind Key_Shared choose a consumer (Java's Commands.peekStickyKey)."""
        return self.ordering_key or self.key or b""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings of a producer. `compression` is a CompressionType. When `batch_messages` is 1, messages are sent
    unbatched. With `key_batches` the messages of a batch have one key. With `chunking` a message that is too large for
    the broker is sent in chunks."""

    compression: int = 0
    batch_messages: int = 1000
    send_timeout_seconds: float = 30.0
    key_batches: bool = False
    chunking: bool = False


@dataclass(slots=True)
class _Pending:
    """A batch, or a message in chunks, that the broker has not confirmed: its first and last sequence id, a frame for
    each chunk, and how many receipts are to come."""

    first: int
    last: int
    frames: list[bytes]
    receipts: int = 0

    @property
    def size(self) -> int:
        return sum(map(len, self.frames))


class PartitionProducer:
    """A producer of one topic partition. The constructor connects. Only one thread may use a producer."""

    def __init__(
        self, client: PulsarClient, topic: str, name: str, schema: pb.Schema | None, settings: ProducerSettings
    ) -> None:
        """Connects and creates the producer. With an empty `name` the broker names the producer, and nothing is
        deduplicated."""
        self.topic = topic
        self._client = client
        self._name = name
        self._schema = schema
        self._settings = settings
        self._connection: BrokerConnection | None = None
        self._schema_version = b""
        self.name = name
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._batch: list[tuple[int, OutgoingMessage]] = []
        self._batch_bytes = 0
        self.last_sequence_id = -1
        """The highest sequence id that the broker had stored for the producer's name when it last connected."""
        self.skipped = 0
        """How many messages were not sent, because the broker had them already."""
        self._client.persist(self._connect)

    def close(self) -> None:
        """Closes the connection without waiting for receipts. A caller that needs the receipts calls `flush` first."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def send(self, message: OutgoingMessage, sequence_id: int) -> None:
        """Adds one message to the current batch, which is sent when it is full. Sequence ids must rise. Raises
        SendFailed, also for an earlier message."""
        if self._name and sequence_id <= self.last_sequence_id:
            self.skipped += 1
            return
        size = 64 + len(message.value or b"") + len(message.key or b"")
        for name, value in message.properties:
            size += len(name) + len(value)
        if self._batch and (self._batch_bytes + size > BATCH_BYTES or self._has_other_key(message)):
            self._send_batch()
        self._batch.append((sequence_id, message))
        self._batch_bytes += size
        if len(self._batch) >= self._settings.batch_messages:
            self._send_batch()

    def _has_other_key(self, message: OutgoingMessage) -> bool:
        return self._settings.key_batches and message.batching_key != self._batch[0][1].batching_key

    def flush(self) -> None:
        """Sends the remaining messages, and returns when all messages are stored. Raises SendFailed when a message is
        not stored."""
        self._send_batch()
        self._await_receipts(0)

    def _send_batch(self) -> None:
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        if not batch:
            return
        group = _Pending(batch[0][0], batch[-1][0], self._frames(batch))
        self._pending.append(group)
        self._pending_bytes += group.size
        try:
            self._transmit(group)
        except Disconnected:
            self._reconnect()
        self._await_receipts(PENDING_MAX)

    def _transmit(self, group: _Pending) -> None:
        """Sends all frames of a group. After a broken connection, a message in chunks is sent again from its first
        chunk on, because some clients drop a message when one of its chunks comes twice."""
        assert self._connection is not None
        group.receipts = len(group.frames)
        for frame in group.frames:
            self._connection.send(frame)

    def _frames(self, batch: list[tuple[int, OutgoingMessage]]) -> list[bytes]:
        """Returns the frames that send a batch. Raises SendFailed for a message that the broker would not take."""
        assert self._connection is not None
        size_max = self._connection.max_message_size
        payload, command = self._encode(batch)
        if len(payload) <= size_max:
            return [send_frame(command, payload)]
        if len(batch) == 1 and self._settings.chunking:
            return self._chunks(*batch[0], size_max)
        raise SendFailed(
            f"{self.topic}: a message of {len(payload)} bytes exceeds the broker's {size_max}; "
            "pulsar.producer.chunkingEnabled=true sends it in chunks"
        )

    def _metadata(self, sequence_id: int) -> pb.MessageMetadata:
        made = pb.MessageMetadata(
            producer_name=self.name, sequence_id=sequence_id, publish_time=int(time.time() * 1000)
        )
        if self._schema_version:
            made.schema_version = self._schema_version
        return made

    def _encode(self, batch: list[tuple[int, OutgoingMessage]]) -> tuple[bytes, pb.CommandSend]:
        first, last = batch[0][0], batch[-1][0]
        metadata = self._metadata(first)
        command = pb.CommandSend(producer_id=PRODUCER_ID, sequence_id=first)
        if len(batch) == 1 and self._settings.batch_messages == 1:
            message = batch[0][1]
            _describe(metadata, message)
            body = message.value or b""
        else:
            metadata.num_messages_in_batch = command.num_messages = len(batch)
            if last != first:
                metadata.highest_sequence_id = command.highest_sequence_id = last
            if self._settings.key_batches:
                _set_keys(metadata, batch[0][1])
            singles = []
            for sequence_id, message in batch:
                single = pb.SingleMessageMetadata(payload_size=0, sequence_id=sequence_id)
                _describe(single, message)
                singles.append((single, message.value or b""))
            body = build_batch(singles)
        return build_payload(metadata, self._compressed(metadata, body)), command

    def _compressed(self, metadata: pb.MessageMetadata, body: bytes) -> bytes:
        """Compresses a body if the settings say so, and notes that in its metadata."""
        if not self._settings.compression or not body:
            return body
        metadata.compression = pb.CompressionType.ValueType(self._settings.compression)
        metadata.uncompressed_size = len(body)
        return compress(body, self._settings.compression)

    def _chunks(self, sequence_id: int, message: OutgoingMessage, size_max: int) -> list[bytes]:
        """Returns the frames of a message in chunks (PIP 37): the body is compressed as a whole and then cut, and each
        chunk repeats the metadata. All chunks have the message's sequence id; deduplication counts the last one."""
        metadata = self._metadata(sequence_id)
        _describe(metadata, message)
        body = self._compressed(metadata, message.value or b"")
        metadata.uuid, metadata.total_chunk_msg_size = f"{self.name}-{sequence_id}", len(body)
        metadata.num_chunks_from_msg = metadata.chunk_id = INT32_MAX  # the longest numbers leave the least room
        room = size_max - len(build_payload(metadata, b""))
        if room <= 0:
            raise SendFailed(f"{self.topic}: the keys and properties of a message exceed the broker's {size_max} bytes")
        parts = [body[at : at + room] for at in range(0, len(body), room)]
        metadata.num_chunks_from_msg = len(parts)
        frames = []
        for number, part in enumerate(parts):
            metadata.chunk_id = number
            command = pb.CommandSend(producer_id=PRODUCER_ID, sequence_id=sequence_id, is_chunk=True)
            frames.append(send_frame(command, build_payload(metadata, part)))
        return frames

    def _await_receipts(self, at_most: int) -> None:
        """Waits until at most `at_most` batches, of at most PENDING_BYTES_MAX bytes, have no receipt. Raises SendFailed
        when no receipt comes for as long as the send timeout."""
        deadline = time.monotonic() + self._settings.send_timeout_seconds
        while len(self._pending) > at_most or self._pending_bytes > PENDING_BYTES_MAX:
            before = len(self._pending)
            try:
                self._receive(deadline)
            except Disconnected:
                self._reconnect()
            if len(self._pending) < before:
                deadline = time.monotonic() + self._settings.send_timeout_seconds
            elif time.monotonic() > deadline:
                seconds = self._settings.send_timeout_seconds
                raise SendFailed(f"{self.topic}: {before} batches are not confirmed within {seconds:g} s")

    def _receive(self, deadline: float) -> None:
        assert self._connection is not None
        frames = self._connection.frames(deadline)
        while frames:
            command = self._connection.housekeeping(frames.popleft()[0])
            if command is None:
                continue
            if command.type == pb.BaseCommand.SEND_RECEIPT:
                self._receipt(command.send_receipt.sequence_id)
            elif command.type == pb.BaseCommand.SEND_ERROR:
                error = command.send_error
                raise SendFailed(f"{self.topic}: {error_of_code(error.error, error.message)}")
            elif command.type == pb.BaseCommand.CLOSE_PRODUCER:
                raise Disconnected(f"the broker closed the producer of {self.topic}")

    def _receipt(self, sequence_id: int) -> None:
        """Handles a receipt. Receipts come in order, so a receipt that is not for the oldest batch belongs to an
        earlier connection and has no effect."""
        if self._pending and self._pending[0].first == sequence_id:
            self._pending[0].receipts -= 1
            if not self._pending[0].receipts:
                self._settled()

    def _settled(self) -> None:
        self._pending_bytes -= self._pending.popleft().size

    def _reconnect(self) -> None:
        self.close()
        try:
            self._client.persist(self._connect)
        except Exception as error:
            raise SendFailed(f"{self.topic}: {error}") from error

    def _connect(self) -> None:
        self.close()  # the last attempt may have left a broken connection
        self._connection = while_busy(self._open, BUSY_SECONDS)
        if self._name:
            while self._pending and self._pending[0].last <= self.last_sequence_id:
                self._settled()
        for group in self._pending:
            self._transmit(group)

    def _open(self) -> BrokerConnection:
        """Returns a connection on which the broker has created the producer."""
        connection = self._client.own_connection(self.topic)
        try:
            self._create(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self, connection: BrokerConnection) -> None:
        create = pb.CommandProducer(topic=self.topic, producer_id=PRODUCER_ID, producer_access_mode=pb.Shared)
        if self._name:
            create.producer_name = self._name
            create.user_provided_producer_name = True
        if self._schema is not None:
            create.schema.CopyFrom(self._schema)
        try:
            answer = connection.request(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=create), "producer")
        except TopicTerminated as error:
            raise SendFailed(f"{self.topic} is terminated: {error.message}") from error
        success = answer.producer_success
        self._schema_version = success.schema_version
        self.last_sequence_id = success.last_sequence_id
        self.name = success.producer_name


def _describe(metadata: pb.MessageMetadata | pb.SingleMessageMetadata, message: OutgoingMessage) -> None:
    _set_keys(metadata, message)
    if message.event_time:
        metadata.event_time = message.event_time
    for name, value in message.properties:
        metadata.properties.add(key=name, value=value)
    if message.value is None:
        metadata.null_value = True


def _set_keys(metadata: pb.MessageMetadata | pb.SingleMessageMetadata, message: OutgoingMessage) -> None:
    if message.key is not None:
        _set_key(metadata, message.key)
    if message.ordering_key:
        metadata.ordering_key = message.ordering_key


def _set_key(metadata: pb.MessageMetadata | pb.SingleMessageMetadata, key: bytes) -> None:
    """Sets a message's key. A key that is UTF-8 is sent as text, so that clients without binary keys can read it; any
    other key is sent as base64."""
    try:
        metadata.partition_key = key.decode()
    except UnicodeDecodeError:
        metadata.partition_key = base64.b64encode(key).decode()
        metadata.partition_key_b64_encoded = True
