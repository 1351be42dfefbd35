"""The sink's producer, without a broker: which messages it does not send again, and what it does when a connection
breaks."""

import random
import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import pytest
from pyspark import TaskContext

from magnetar.spark.source.client.broker_connection import Disconnected
from magnetar.spark.source.client.partition_producer import (
    PENDING_BYTES_MAX,
    OutgoingMessage,
    PartitionProducer,
    ProducerSettings,
    SendFailed,
)
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.decoding.entry_block import cut
from magnetar.spark.source.row_writer import BATCH_ID_PROPERTY, _property
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command, simple_frame
from pulsar_proto.wire.framing import Frame, FrameReader

TOPIC = "persistent://public/default/t"


class Broker:
    """Stands for all connections to a broker that confirms a batch only when it is asked for receipts."""

    def __init__(
        self,
        breaks_at: frozenset[int] = frozenset(),
        silent_at: frozenset[int] = frozenset(),
        unheard_at: frozenset[int] = frozenset(),
    ) -> None:
        """Sends and looks for receipts are counted over all connections. `breaks_at` are the sends that fail,
        `unheard_at` those that fail after the broker has stored the message, and `silent_at` the looks that fail."""
        self.breaks_at = breaks_at
        self.silent_at = silent_at
        self.unheard_at = unheard_at
        self.looks = 0
        self.sends = 0
        self.open = 0
        self.bytes_most = 0
        self.stored: list[int] = []
        self.sent: list[bytes] = []

    def own_connection(self, topic: str) -> "Wire":
        assert not self.open, "a second producer of one name while the first is connected"
        self.open += 1
        return Wire(self)

    def persist(self, attempt: Callable[[], Any]) -> Any:
        while True:
            try:
                return attempt()
            except Disconnected:
                continue


class Wire:
    max_message_size = 5 * 1024 * 1024
    housekeeping = staticmethod(parse_command)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waiting: deque[tuple[int, int]] = deque()
        self._is_open = True

    def request(self, command: pb.BaseCommand, field: str) -> pb.BaseCommand:
        last = self._broker.stored[-1] if self._broker.stored else -1
        success = pb.CommandProducerSuccess(request_id=1, producer_name="p", last_sequence_id=last)
        return pb.BaseCommand(type=pb.BaseCommand.PRODUCER_SUCCESS, producer_success=success)

    def send(self, data: bytes) -> None:
        broker = self._broker
        broker.sends += 1
        if broker.sends in broker.breaks_at:
            raise Disconnected("broken")
        broker.sent.append(data)
        ((command, _),) = _frames(data)
        self._waiting.append((parse_command(command).send.sequence_id, len(data)))
        broker.bytes_most = max(broker.bytes_most, sum(size for _, size in self._waiting))

    def frames(self, deadline: float) -> deque[Frame]:
        self._broker.looks += 1
        if self._broker.looks in self._broker.silent_at:
            raise Disconnected("broken")
        number, _ = self._waiting.popleft()
        self._broker.stored.append(number)
        if self._broker.looks in self._broker.unheard_at:
            raise Disconnected("broken")
        receipt = pb.CommandSendReceipt(producer_id=1, sequence_id=number)
        frame = simple_frame(pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT, send_receipt=receipt))
        return deque(_frames(frame))

    def close(self) -> None:
        self._broker.open -= self._is_open
        self._is_open = False


def _frames(data: bytes) -> list[Frame]:
    reader = FrameReader(len(data))
    found: list[Frame] = []
    while data:
        room = reader.get_buffer()
        part, data = data[: len(room)], data[len(room) :]
        room[: len(part)] = part
        found += reader.received(len(part))
    return found


def producer(broker: Broker) -> PartitionProducer:
    return PartitionProducer(cast(PulsarClient, broker), TOPIC, "p", None, ProducerSettings(batch_messages=1))


def message(size: int) -> OutgoingMessage:
    return OutgoingMessage(TOPIC, None, 0, (), bytes(size))


def test_large_messages_without_receipt_are_held_by_bytes_not_by_number() -> None:
    broker = Broker()
    made = producer(broker)
    for number in range(100):
        made.send(message(4 << 20), number)
    made.flush()
    assert broker.stored == list(range(100))
    assert broker.bytes_most <= PENDING_BYTES_MAX + (5 << 20)


def test_a_connection_that_breaks_again_while_it_sends_again_is_closed_first() -> None:
    broker = Broker(frozenset([3, 4, 6]))
    made = producer(broker)
    for number in range(5):
        made.send(message(10), number)
    made.flush()
    assert sorted(set(broker.stored)) == [0, 1, 2, 3, 4]


def test_what_has_no_receipt_is_sent_again_when_the_connection_breaks_while_it_is_awaited() -> None:
    broker = Broker(silent_at=frozenset([2, 3]))
    made = producer(broker)
    for number in range(5):
        made.send(message(10), number)
    made.flush()
    assert sorted(set(broker.stored)) == [0, 1, 2, 3, 4]
    assert broker.sends > 5


def test_what_was_stored_without_a_receipt_is_not_sent_again() -> None:
    broker = Broker(unheard_at=frozenset([1, 3]))
    made = producer(broker)
    for number in range(5):
        made.send(message(10), number)
    made.flush()
    assert broker.stored == [0, 1, 2, 3, 4]


def chunk_of(data: bytes) -> tuple[pb.MessageMetadata, bytes]:
    ((_, payload),) = _frames(data)
    assert payload is not None
    return cut(payload)


def test_a_message_that_is_too_large_goes_in_chunks_that_the_broker_takes() -> None:
    broker = Broker()
    settings = ProducerSettings(batch_messages=100, compression=pb.ZLIB, chunking=True)
    made = PartitionProducer(cast(PulsarClient, broker), TOPIC, "p", None, settings)
    value = random.Random(7).randbytes(12_000_000)
    made.send(message(10), 0)
    made.send(OutgoingMessage(TOPIC, b"k", 0, (("n", "1"),), value), 1)
    made.send(message(10), 2)
    made.flush()
    assert broker.stored == [0, 1, 1, 1, 2]
    chunks = [chunk_of(data) for data in broker.sent[1:4]]
    assert [metadata.chunk_id for metadata, _ in chunks] == [0, 1, 2]
    assert {(each.uuid, each.num_chunks_from_msg, each.partition_key) for each, _ in chunks} == {("p-1", 3, "k")}
    body = b"".join(part for _, part in chunks)
    assert {each.total_chunk_msg_size for each, _ in chunks} == {len(body)}
    assert zlib.decompress(body) == value
    for data in broker.sent[1:4]:
        ((command, payload),) = _frames(data)
        assert parse_command(command).send.is_chunk
        assert payload is not None
        assert len(payload) <= Wire.max_message_size


def test_chunks_are_sent_again_from_the_first_one_on() -> None:
    """Some clients drop a message of which a chunk comes twice, but all begin anew with its first chunk."""
    broker = Broker(breaks_at=frozenset([3]))
    made = PartitionProducer(cast(PulsarClient, broker), TOPIC, "p", None, ProducerSettings(chunking=True))
    made.send(message(12_000_000), 0)
    made.flush()
    assert [chunk_of(data)[0].chunk_id for data in broker.sent] == [0, 1, 0, 1, 2]


def test_without_chunks_a_message_that_is_too_large_is_refused() -> None:
    with pytest.raises(SendFailed, match=r"exceeds the broker's 5242880; pulsar\.producer\.chunkingEnabled=true"):
        producer(Broker()).send(message(6_000_000), 0)


def test_batches_of_one_key_tell_it_to_the_broker() -> None:
    broker = Broker()
    made = PartitionProducer(cast(PulsarClient, broker), TOPIC, "p", None, ProducerSettings(key_batches=True))
    keys = [(b"a", None), (b"a", None), (b"b", None), (b"b", b"o"), (b"c", b"o")]
    for number, (key, ordering_key) in enumerate(keys):
        made.send(OutgoingMessage(TOPIC, key, 0, (), b"v", ordering_key), number)
    made.flush()
    batches = [chunk_of(data)[0] for data in broker.sent]
    assert [(each.num_messages_in_batch, each.partition_key, each.ordering_key) for each in batches] == [
        (2, "a", b""),
        (1, "b", b""),
        (2, "b", b"o"),
    ]


class Task:
    def getLocalProperty(self, name: str) -> str | None:  # noqa: N802, Spark's name
        return {"known": "7"}.get(name)


def test_a_batch_without_a_number_is_refused_as_its_rows_would_pass_for_repeated_ones() -> None:
    task = cast(TaskContext, Task())
    assert _property(task, "known") == "7"
    with pytest.raises(SendFailed, match=r"no property streaming\.sql\.batchId"):
        _property(task, BATCH_ID_PROPERTY)
