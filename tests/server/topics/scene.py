"""What the tests of topics share: a topic on a fake managed ledger, and clients that only record what was sent to
them."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, cast

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic
from pulsar_proto.ids import Position, TxnId, signed64, unsigned64
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload, parse_metadata
from pulsar_proto.wire.commands import parse_command
from pulsar_proto.wire.framing import FrameReader
from pulsar_proto.wire.plain_ack import acks_in_transaction
from tests.server.topics.fake_managed_ledger import FakeManagedLedger
from tests.storage.ledger.virtual_loop import run

P = ParamSpec("P")

LATEST_INITIAL = pb.CommandSubscribe.Latest


class Received(NamedTuple):
    """One MESSAGE frame as the client sees it."""

    consumer_id: int
    position: Position
    body: bytes
    redelivery_count: int
    ack_set: tuple[int, ...]
    epoch: int | None
    messages: int


class FakeConnection:
    """Implements `ClientConnection`. `frames` holds everything that was written, in order; `writes` counts the
    calls."""

    def __init__(self, address: str = "/127.0.0.1:5000", protocol_version: int = 21) -> None:
        self.remote_address = address
        self.client_version = "test-client"
        self.protocol_version = protocol_version
        self.is_open = True
        self.is_writable = True
        self.is_alive = True
        self.probe: asyncio.Event | None = None
        self.frames: list[tuple[pb.BaseCommand, bytes | None]] = []
        self.writes = 0
        self.attached: list[Producer | Consumer] = []
        self._reader = FrameReader()
        self._waiting: list[Callable[[], None]] = []

    def write(self, data: bytes) -> None:
        if not self.is_open:
            return
        self.writes += 1
        for start in range(0, len(data), 60_000):
            part = data[start : start + 60_000]
            self._reader.get_buffer()[: len(part)] = part
            self.frames += [(parse_command(command), rest) for command, rest in self._reader.received(len(part))]

    def write_frames(self, chunks: list[bytes]) -> None:
        self.write(b"".join(chunks))

    def when_writable(self, callback: Callable[[], None]) -> None:
        self._waiting.append(callback)

    def become_writable(self) -> None:
        self.is_writable = True
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()

    def throttle_reading(self, key: object) -> None:
        raise AssertionError("topics do not throttle")

    def release_reading(self, key: object) -> None:
        raise AssertionError("topics do not throttle")

    def close_producer(self, producer_id: int) -> None:
        self._closed_by_broker("CLOSE_PRODUCER", "close_producer", producer_id=producer_id)

    def close_consumer(self, consumer_id: int) -> None:
        self._closed_by_broker("CLOSE_CONSUMER", "close_consumer", consumer_id=consumer_id)

    def _closed_by_broker(self, kind: str, field: str, **ids: int) -> None:
        command = pb.BaseCommand(type=pb.BaseCommand.Type.Value(kind))
        getattr(command, field).MergeFrom(type(getattr(command, field))(request_id=2**64 - 1, **ids))
        self.frames.append((command, None))

    async def check_liveness(self) -> bool:
        if self.probe is not None:
            await self.probe.wait()
        if not self.is_alive:
            self.close("dead")
        return self.is_open

    def close(self, reason: str) -> None:
        if self.is_open:
            self.is_open = False
            for each in self.attached:
                each.close()

    # ---- what was received

    def of_type(self, kind: str) -> list[pb.BaseCommand]:
        number = pb.BaseCommand.Type.Value(kind)
        return [command for command, _ in self.frames if command.type == number]

    @property
    def kinds(self) -> list[str]:
        return [pb.BaseCommand.Type.Name(command.type) for command, _ in self.frames]

    @property
    def messages(self) -> list[Received]:
        return [
            received(command.message, payload)
            for command, payload in self.frames
            if command.type == pb.BaseCommand.MESSAGE and payload is not None
        ]

    @property
    def receipts(self) -> list[tuple[int, Position]]:
        return [
            (each.send_receipt.sequence_id, position_of(each.send_receipt.message_id))
            for each in self.of_type("SEND_RECEIPT")
        ]

    def forget(self) -> None:
        self.frames.clear()
        self.writes = 0


def position_of(message_id: pb.MessageIdData) -> Position:
    return Position(signed64(message_id.ledgerId), signed64(message_id.entryId))


def received(message: pb.CommandMessage, payload: bytes) -> Received:
    metadata = parse_metadata(payload)
    return Received(
        message.consumer_id,
        position_of(message.message_id),
        payload[-metadata.uncompressed_size :] if metadata.uncompressed_size else b"",
        message.redelivery_count,
        tuple(message.ack_set),
        message.consumer_epoch if message.HasField("consumer_epoch") else None,
        metadata.num_messages_in_batch,
    )


def payload(body: bytes, *, batch: int = 0, publish_time: int = 1, **fields: Any) -> bytes:
    """Returns a payload as a client sends it. With `batch` > 0 it says that the body is a batch of that many messages;
    `fields` are further fields of MessageMetadata."""
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=publish_time, uncompressed_size=len(body), **fields
    )
    if batch:
        metadata.num_messages_in_batch = batch
    return build_payload(metadata, body)


def payloads(*bodies: bytes) -> list[bytes]:
    return [payload(body) for body in bodies]


class Scene:
    """A topic on a fake managed ledger."""

    def __init__(self, name: str = "persistent://public/default/t", **settings: Any) -> None:
        self.name = TopicName.parse(name)
        self.ledger = FakeManagedLedger(self.name.managed_ledger_name)
        self.settings = TopicSettings(**settings)
        self.lost: list[Topic] = []
        self.names = iter(f"standalone-0-{n}" for n in range(1_000))
        self._ids = iter(range(1_000_000))
        self.topic = self.load()

    def load(self) -> Topic:
        """Returns the topic as a broker finds it when it starts."""
        self.topic = Topic(
            self.name,
            cast(Any, self.ledger),
            self.settings,
            new_producer_name=lambda: next(self.names),
            close_ledger=lambda topic: self.ledger.close(),
            on_lost=self.lost.append,
        )
        return self.topic

    async def producer(self, cnx: FakeConnection, name: str = "", **fields: Any) -> Producer:
        command = pb.CommandProducer(
            topic=self.name.full, producer_id=next(self._ids), request_id=next(self._ids), **fields
        )
        if name:
            command.producer_name = name
        producer = await self.topic.add_producer(cnx, command)
        cnx.attached.append(producer)
        return producer

    async def consumer(self, cnx: FakeConnection, sub_type: str = "Exclusive", **fields: Any) -> Consumer:
        consumer_id = fields.pop("consumer_id", None)
        command = pb.CommandSubscribe(
            topic=self.name.full,
            subscription=fields.pop("subscription", "s"),
            subType=pb.CommandSubscribe.SubType.Value(sub_type),
            consumer_id=next(self._ids) if consumer_id is None else consumer_id,
            request_id=next(self._ids),
            **{"consumer_name": "c", "initialPosition": pb.CommandSubscribe.Earliest, **fields},
        )
        consumer = await self.topic.subscribe(cnx, command)
        cnx.attached.append(consumer)
        return consumer


def subscription_of(consumer: Consumer) -> Subscription:
    """Returns the consumer's subscription, which must be one of a persistent topic."""
    assert isinstance(consumer.subscription, Subscription)
    return consumer.subscription


def publish(producer: Producer, bodies: Iterable[bytes], first_sequence_id: int = 0) -> None:
    """Publishes the messages as one group, as a connection hands them over."""
    producer.publish(
        [
            (pb.CommandSend(producer_id=producer.producer_id, sequence_id=number), payload(body))
            for number, body in enumerate(bodies, first_sequence_id)
        ]
    )


def ack(
    consumer: Consumer,
    positions: Iterable[Position],
    *,
    cumulative: bool = False,
    ack_set: Sequence[int] = (),
    request_id: int | None = None,
    txn_id: TxnId | None = None,
    batch_size: int | None = None,
) -> Any:
    command = pb.CommandAck(
        consumer_id=consumer.consumer_id,
        ack_type=pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual,
        message_id=[
            pb.MessageIdData(
                ledgerId=unsigned64(each.ledger_id),
                entryId=unsigned64(each.entry_id),
                ack_set=ack_set,
                batch_size=batch_size,
            )
            for each in positions
        ],
        request_id=request_id,
        txnid_most_bits=None if txn_id is None else txn_id.most,
        txnid_least_bits=None if txn_id is None else txn_id.least,
    )
    # As `Inbound` does: what can be read by hand is applied without protobuf.
    data = pb.BaseCommand(type=pb.BaseCommand.ACK, ack=command).SerializeToString()
    acks = acks_in_transaction([(data, None)], 0)
    return (acks and consumer.ack_in_transaction(acks)) or consumer.ack(command)


def redeliver(consumer: Consumer, positions: Iterable[Position] = (), epoch: int | None = None) -> None:
    consumer.redeliver(
        pb.CommandRedeliverUnacknowledgedMessages(
            consumer_id=consumer.consumer_id,
            message_ids=[pb.MessageIdData(ledgerId=each.ledger_id, entryId=each.entry_id) for each in positions],
            consumer_epoch=epoch,
        )
    )


def message_id(ledger_id: int, entry_id: int, batch_index: int | None = None) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=unsigned64(ledger_id), entryId=unsigned64(entry_id), batch_index=batch_index)


def seek_command(consumer: Consumer, **fields: Any) -> pb.CommandSeek:
    return pb.CommandSeek(consumer_id=consumer.consumer_id, request_id=1, **fields)


def bodies(cnx: FakeConnection) -> list[bytes]:
    return [message.body for message in cnx.messages]


async def settle(turns: int = 30) -> None:
    """Lets the loop turn until everything in memory has come to rest."""
    for _ in range(turns):
        await asyncio.sleep(0)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs the test on a loop whose time jumps to the next timer. A wait for something that cannot happen fails at
    once."""

    @wraps(test)
    def run_test(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return run_test


async def pass_time(seconds: float) -> None:
    """Waits in virtual time; only for tests under `in_virtual_time`."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed
    await settle()


class Throttled(FakeConnection):
    """A connection that records what throttles its reading."""

    def __init__(self) -> None:
        super().__init__()
        self.throttles: set[object] = set()

    def throttle_reading(self, key: object) -> None:
        self.throttles.add(key)

    def release_reading(self, key: object) -> None:
        self.throttles.discard(key)


def message(sequence_id: int, name: str = "p", chunk: tuple[int, int] | None = None, **fields: Any) -> bytes:
    metadata = pb.MessageMetadata(producer_name=name, sequence_id=sequence_id, publish_time=1, **fields)
    if chunk is not None:
        metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg = "u", *chunk
    return build_payload(metadata, b"m")
