"""Stand-ins for what surrounds a connection: its peer, and a broker whose topics only record."""

import asyncio
import struct
from collections.abc import Callable, Mapping
from typing import Any, cast
from unittest.mock import AsyncMock

from magnetar.server.broker.broker import Broker
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.broker_addresses import addresses_of
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.namespaces.ownership import SoleOwner
from magnetar.server.network.ports import Urls
from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.command_handler import CommandHandler
from magnetar.server.protocol.connection import Connection
from magnetar.server.protocol.handlers.command_table import TABLE
from magnetar.server.protocol.inbound import Inbound
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_storage import SchemaStorage
from magnetar.server.topics.client_connection import ClientConnection
from magnetar.server.topics.topic_schemas import TopicSchemas
from pulsar_proto.errors import PulsarError, TopicNotFound
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command, simple_frame
from pulsar_proto.wire.plain_ack import Ack, AcksInTransaction
from tests.server.fake_transport import FakeTransport
from tests.storage.managed.fake_bookkeeper import World


class Peer:
    """The client's end of one connection in memory."""

    def __init__(
        self,
        traffic: ClientTraffic,
        address: tuple[str, int] = ("127.0.0.1", 50_000),
        commands: Mapping[int, CommandHandler] = TABLE,
        listener_name: str = "",
    ) -> None:
        self.transport, self._seen = FakeTransport(address), 0
        self.connection = Connection(traffic, Inbound(commands, traffic.turns), listener_name)
        self.transport.set_protocol(self.connection)
        self.connection.connection_made(self.transport)

    def feed(self, data: bytes, chunk: int = 65_536) -> None:
        """Gives the connection bytes as the loop does, by its buffer and in reads of at most `chunk` bytes. It does so
        even while the connection has paused reading, for bytes that were under way, but not after the end."""
        while data and not self.transport.closing:
            buffer = self.connection.get_buffer(-1)
            size = min(len(buffer), len(data), chunk)
            buffer[:size] = data[:size]
            data = data[size:]
            self.connection.buffer_updated(size)

    def say(self, *commands: pb.BaseCommand) -> None:
        """Sends all the commands in one read."""
        self.feed(b"".join(simple_frame(command) for command in commands))

    def connect(self, version: int = 20) -> "Peer":
        self.say(command("CONNECT", "connect", client_version="test", protocol_version=version))
        return self

    async def answers(self) -> list[pb.BaseCommand]:
        """Returns the commands that came since the last call. Before that it gives the connection time to send
        everything that it can send now."""
        await settle()
        data = bytes(self.transport.taken[self._seen :])
        self._seen += len(data)
        return parse_frames(data)

    async def answer(self) -> pb.BaseCommand:
        (only,) = await self.answers()
        return only

    @property
    def is_closed(self) -> bool:
        return self.transport.closing


def parse_frames(data: bytes) -> list[pb.BaseCommand]:
    commands = []
    while data:
        total, size = struct.unpack_from(">II", data)
        commands.append(parse_command(data[8 : 8 + size]))
        data = data[4 + total :]
    return commands


async def settle(turns: int = 100) -> None:
    """Gives the loop enough turns for everything in memory to come to rest."""
    for _ in range(turns):
        await asyncio.sleep(0)


def command(kind: str, field: str, **values: Any) -> pb.BaseCommand:
    """Makes a command, as in `command("PRODUCER", "producer", topic=..., producer_id=1, request_id=2)`."""
    made = pb.BaseCommand(type=pb.BaseCommand.Type.Value(kind))
    body = getattr(made, field)
    body.SetInParent()
    body.MergeFrom(type(body)(**values))
    return made


class FakeProducer:
    def __init__(self, cnx: ClientConnection, request: pb.CommandProducer) -> None:
        self.cnx = cnx
        self.producer_id = request.producer_id
        self.name = request.producer_name or f"standalone-0-{request.producer_id}"
        self.last_sequence_id = -1
        self.schema_version = b""
        self.topic_epoch: int | None = None
        self.groups: list[list[tuple[pb.CommandSend, bytes]]] = []
        self.pending = 0
        self.closed = 0
        self.closing: asyncio.Future[None] | None = None

    @property
    def is_closed(self) -> bool:
        return self.closed > 0

    def publish(self, sends: list[tuple[pb.CommandSend, bytes]]) -> None:
        assert not self.closed
        self.groups.append(sends)
        self.pending += len(sends)

    publish_in_transactions = publish

    def refuse(self, frame: bytes) -> None:
        self.cnx.write(frame)

    def receipt(self, count: int) -> None:
        """Answers the SENDs 0 to `count` - 1 in one write, as if they were stored together."""
        self.pending -= count
        ids = [{"producer_id": self.producer_id, "sequence_id": index} for index in range(count)]
        receipts = [command("SEND_RECEIPT", "send_receipt", **each) for each in ids]
        self.cnx.write(b"".join(simple_frame(receipt) for receipt in receipts))

    def close(self) -> "asyncio.Future[None] | None":
        self.closed += 1
        return self.closing

    @property
    def sequence_ids(self) -> list[int]:
        return [send.sequence_id for group in self.groups for send, _ in group]


class FakeConsumer:
    def __init__(self, cnx: ClientConnection, request: pb.CommandSubscribe) -> None:
        self.cnx = cnx
        self.consumer_id = request.consumer_id
        self.permits: list[int] = []
        self.acks: list[pb.CommandAck] = []
        self.durable: asyncio.Future[None] | None = None
        self.acks_asked: list[AcksInTransaction] = []
        self.durable_together: asyncio.Future[None] | None = None
        self.redelivered: list[pb.CommandRedeliverUnacknowledgedMessages] = []
        self.closed = 0
        self.failure: Exception | None = None
        self.seeks: list[pb.CommandSeek] = []
        self.position = (Position(27, 0), -1, -1, Position(26, 2))

    def flow(self, permits: int) -> None:
        self.permits.append(permits)

    def ack(self, request: pb.CommandAck) -> "asyncio.Future[None] | None":
        self.acks.append(request)
        return self.durable

    def ack_in_transaction(self, acks: AcksInTransaction) -> "asyncio.Future[None] | None":
        self.acks_asked.append(acks)
        return self.durable_together

    def ack_individual(self, acks: list[Ack]) -> None:
        self.ack(pb.CommandAck(message_id=[pb.MessageIdData(ledgerId=each[0], entryId=each[1]) for each in acks]))

    def redeliver(self, request: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        self.redelivered.append(request)

    async def unsubscribe(self, force: bool) -> None:
        if self.failure is not None:
            raise self.failure
        if not self.closed:
            self.closed += 1

    async def seek(self, request: pb.CommandSeek) -> None:
        if self.failure is not None:
            raise self.failure
        self.seeks.append(request)
        if not self.closed:
            self.closed += 1
        self.cnx.close_consumer(self.consumer_id)

    async def last_message_id(self) -> tuple[Position, int, int, Position]:
        return self.position

    @property
    def is_closed(self) -> bool:
        return self.closed > 0

    def close(self) -> None:
        self.closed += 1


class FakeTopic:
    def __init__(self, service: "FakeService", name: TopicName) -> None:
        self.service = service
        self.name = name
        self.policies = EffectivePolicies()
        self.consumers_with_schema = 0
        self.stored_bytes = 0
        self.producers: list[FakeProducer] = []
        self.consumers: list[FakeConsumer] = []

    async def add_producer(self, cnx: ClientConnection, request: pb.CommandProducer) -> FakeProducer:
        await self.service.pass_gate()
        producer = FakeProducer(cnx, request)
        producer.closed = int(self.service.closes_at_once)
        self.producers.append(producer)
        return producer

    async def subscribe(self, cnx: ClientConnection, request: pb.CommandSubscribe) -> FakeConsumer:
        await self.service.pass_gate()
        consumer = FakeConsumer(cnx, request)
        consumer.closed = int(self.service.closes_at_once)
        self.consumers.append(consumer)
        return consumer


class FakeService:
    """A BrokerService of one namespace, public/default. With `gate` set, PRODUCER and SUBSCRIBE wait for it."""

    def __init__(self) -> None:
        self.settings = TopicSettings()
        stored = World().session()
        self.metadata = stored.metadata()
        client = stored.as_client()
        self.managed_ledgers = AsyncMock(bookkeeper=client)
        self.schemas = TopicSchemas(SchemaRegistry(SchemaStorage(stored.metadata(), client, (1, 1, 1)), int))
        urls = Urls("pulsar://127.0.0.1:6650", web="http://127.0.0.1:8080")
        self.ownership = SoleOwner(BundleCache(self.metadata, AsyncMock(return_value=None)), addresses_of(urls))
        self.topics: dict[str, FakeTopic] = {}
        self.stored: set[str] = set()
        self.partitions: dict[str, int] = {}
        self.gate: asyncio.Event | None = None
        self.failure: PulsarError | Exception | None = None
        self.closes_at_once = False

    async def pass_gate(self) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure

    @property
    def catalog(self) -> "FakeService":
        return self

    def knows_namespace(self, namespace: str) -> bool:
        return False

    async def check_namespace(self, namespace: str) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if namespace != "public/default":
            raise TopicNotFound("Namespace not found")

    async def get_for_client(self, name: TopicName, *, create: bool = True) -> FakeTopic:
        return await self.get_topic(name, create=create and self.settings.allow_auto_topic_creation)

    async def get_topic(self, name: TopicName, *, create: bool) -> FakeTopic:
        if name.namespace != "public/default":
            raise TopicNotFound("Namespace not found")
        if name.full not in self.topics:
            if not create and name.full not in self.stored:
                raise TopicNotFound(f"Topic {name.full} not found")
            self.topics[name.full] = FakeTopic(self, name)
        return self.topics[name.full]

    def loaded(self, name: TopicName) -> FakeTopic | None:
        return self.topics.get(name.full)

    async def topic_exists(self, name: TopicName) -> bool:
        return name.full in self.stored or name.full in self.topics

    async def topics_of(self, namespace: str) -> list[str]:
        return sorted(name for name in self.stored | set(self.topics) if name.startswith("persistent"))

    def non_persistent_topics_of(self, namespace: str) -> list[str]:
        return sorted(name for name in self.stored | set(self.topics) if name.startswith("non-persistent"))

    async def partitions_of(self, name: TopicName, *, may_create: bool) -> int:
        await self.check_namespace(name.namespace)
        count = self.partitions.get(name.full, 0)
        if count or (may_create and self.settings.allow_auto_topic_creation) or await self.topic_exists(name):
            return count
        raise TopicNotFound(f"Topic {name.full} not found")

    def topic(self, name: str = "persistent://public/default/t") -> FakeTopic:
        return self.topics[name]


def make_broker(service: FakeService | None = None, **limits: Any) -> Any:
    """Makes a Broker around a FakeService; `limits` are fields of ConnectionSettings."""
    return Broker(cast(Any, service or FakeService()), ConnectionSettings(**limits))


def make_traffic(service: FakeService | None = None, clock: Callable[[], float] | None = None, **limits: Any) -> Any:
    """Makes the ClientTraffic of such a broker."""
    traffic = ClientTraffic(make_broker(service, **limits))
    if clock is not None:
        traffic.now = clock  # type: ignore[method-assign]
    return traffic
