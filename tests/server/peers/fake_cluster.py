"""A cluster of scripted brokers on real sockets: one topic, whose owner changes, with connections that break at random
moments."""

import asyncio
import random
from dataclasses import dataclass, field

from magnetar.server.peers.entry_messages_rules import message_count
from magnetar.server.peers.read_window_rules import EARLIEST, place_of
from pulsar_proto.ids import NO_REQUEST_ID
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import parse_metadata
from pulsar_proto.wire.commands import (
    close_consumer_frame,
    close_producer_frame,
    connected_frame,
    error_frame,
    lookup_connect_frame,
    lookup_failed_frame,
    parse_command,
    producer_success_frame,
    send_error_frame,
    simple_frame,
    success_frame,
)
from pulsar_proto.wire.framing import FrameReader

Type = pb.BaseCommand
LEDGER = 7


@dataclass
class Mischief:
    """The chances of faults, from 0 to 1."""

    redirect: float = 0.0
    not_ready: float = 0.0
    cut_before_receipt: float = 0.0
    cut_before_storing: float = 0.0
    send_error: float = 0.0
    move_after_send: float = 0.0
    cut_after_message: float = 0.0
    close_at_once: float = 0.0


@dataclass
class Log:
    """The topic, which all brokers share: entries, and the highest sequence id of each producer name."""

    entries: list[bytes] = field(default_factory=list)
    last_ids: dict[str, int] = field(default_factory=dict)
    deduplicates: bool = True
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, payload: bytes) -> int:
        self.entries.append(payload)
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
        return len(self.entries) - 1


class FakeCluster:
    def __init__(self, rng: random.Random, mischief: Mischief | None = None, brokers: int = 3) -> None:
        self.log = Log()
        self.rng = rng
        self.mischief = mischief or Mischief()
        self.brokers = [FakeBroker(self, index) for index in range(brokers)]
        self.owner = self.brokers[0]
        self.refusal: pb.ServerError.ValueType | None = None
        """The error with which every PRODUCER and SUBSCRIBE is refused."""
        self.refused_sends: set[int] = set()
        """The sequence ids of messages that are refused for good."""
        self.is_slow = False
        """Whether PRODUCER and SUBSCRIBE get no answer."""
        self.closes = 0
        """How many producers and readers were closed by the client."""
        self.names_given = 0
        self.lookups = 0
        self.connects: list[pb.CommandConnect] = []
        self.responses: list[pb.CommandAuthResponse] = []

    async def start(self) -> "FakeCluster":
        for broker in self.brokers:
            await broker.start()
        return self

    async def stop(self) -> None:
        for broker in self.brokers:
            await broker.stop()

    def happens(self, chance: float) -> bool:
        return self.rng.random() < chance

    def move(self) -> None:
        """Gives the topic to another broker; the old one tells its clients."""
        old = self.owner
        self.owner = self.rng.choice([each for each in self.brokers if each is not old])
        old.close_clients()


class FakeBroker:
    def __init__(self, cluster: FakeCluster, index: int) -> None:
        self.cluster = cluster
        self.index = index
        self.url = ""
        self.sessions: set[FakeSession] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        port = int(self.url.rpartition(":")[2]) if self.url else 0
        self._server = await loop.create_server(lambda: FakeSession(self), "127.0.0.1", port)
        self.url = f"pulsar://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Ends like a killed process: connections break, and nobody listens."""
        assert self._server is not None
        self._server.close()
        for session in list(self.sessions):
            session.cut()

    def close_clients(self) -> None:
        for session in list(self.sessions):
            session.close_clients()


class FakeSession(asyncio.Protocol):
    """One connection of a fake broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.cluster = broker.cluster
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._producers: dict[int, str] = {}
        self._readers: dict[int, FakeReader] = {}

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.broker.sessions.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.broker.sessions.discard(self)
        for reader in self._readers.values():
            reader.stop()

    def cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def say(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close_clients(self) -> None:
        for producer_id in self._producers:
            self.say(close_producer_frame(producer_id))
        for consumer_id, reader in self._readers.items():
            reader.stop()
            self.say(close_consumer_frame(consumer_id))
        self._producers, self._readers = {}, {}

    def data_received(self, data: bytes) -> None:
        for start in range(0, len(data), 4096):
            part = data[start : start + 4096]
            self._reader.get_buffer()[: len(part)] = part
            for head, payload in self._reader.received(len(part)):
                self._take(parse_command(head), payload)

    def _take(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        match command.type:
            case Type.CONNECT:
                self.cluster.connects.append(command.connect)
                self.say(connected_frame("fake", 21, 1 << 20, pb.FeatureFlags()))
            case Type.AUTH_RESPONSE:
                self.cluster.responses.append(command.authResponse)
            case Type.LOOKUP:
                self._lookup(command.lookupTopic)
            case Type.PRODUCER:
                self._producer(command.producer)
            case Type.SEND:
                assert payload is not None
                self._send(command.send, payload)
            case Type.SUBSCRIBE:
                self._subscribe(command.subscribe)
            case Type.FLOW:
                reader = self._readers.get(command.flow.consumer_id)
                if reader is not None:
                    reader.flow(command.flow.messagePermits)
            case Type.GET_LAST_MESSAGE_ID:
                self._last_id(command.getLastMessageId)
            case Type.CLOSE_PRODUCER:
                self.cluster.closes += 1
                self._producers.pop(command.close_producer.producer_id, None)
                self.say(success_frame(command.close_producer.request_id))
            case Type.CLOSE_CONSUMER:
                self.cluster.closes += 1
                gone = self._readers.pop(command.close_consumer.consumer_id, None)
                if gone is not None:
                    gone.stop()
                self.say(success_frame(command.close_consumer.request_id))

    def _lookup(self, ask: pb.CommandLookupTopic) -> None:
        cluster = self.cluster
        cluster.lookups += 1
        if cluster.happens(cluster.mischief.not_ready):
            self.say(lookup_failed_frame(ask.request_id, pb.ServiceNotReady, "being unloaded"))
        elif cluster.happens(cluster.mischief.redirect):
            response = pb.CommandLookupTopicResponse(
                brokerServiceUrl=cluster.rng.choice(cluster.brokers).url,
                response=pb.CommandLookupTopicResponse.Redirect,
                request_id=ask.request_id,
                authoritative=not ask.authoritative,
            )
            self.say(simple_frame(pb.BaseCommand(type=Type.LOOKUP_RESPONSE, lookupTopicResponse=response)))
        else:
            self.say(lookup_connect_frame(ask.request_id, cluster.owner.url))

    def _is_refused(self, request_id: int) -> bool:
        cluster = self.cluster
        if cluster.is_slow:
            return True
        if cluster.refusal is not None:
            self.say(error_frame(request_id, cluster.refusal, "refused for good"))
            return True
        if cluster.owner is self.broker and not cluster.happens(cluster.mischief.not_ready):
            return False
        self.say(error_frame(request_id, pb.ServiceNotReady, "Please redo the lookup."))
        return True

    def _producer(self, create: pb.CommandProducer) -> None:
        if self._is_refused(create.request_id):
            return
        cluster = self.cluster
        name = create.producer_name
        if not name:
            cluster.names_given += 1
            name = f"fake-{cluster.names_given}"
        last = cluster.log.last_ids.get(name, -1) if cluster.log.deduplicates else -1
        self._producers[create.producer_id] = name
        self.say(producer_success_frame(create.request_id, name, last_sequence_id=last, schema_version=b"\0" * 8))
        if cluster.happens(cluster.mischief.close_at_once):
            cluster.move()

    def _send(self, send: pb.CommandSend, payload: bytes) -> None:
        cluster, mischief = self.cluster, self.cluster.mischief
        name = self._producers.get(send.producer_id)
        if name is None or self._transport is None or self._transport.is_closing():
            return
        if send.sequence_id in cluster.refused_sends:
            self.say(send_error_frame(send.producer_id, send.sequence_id, pb.NotAllowedError, "not this one"))
            return
        if cluster.happens(mischief.cut_before_storing):
            self.cut()
            return
        if cluster.happens(mischief.send_error):
            self.say(send_error_frame(send.producer_id, send.sequence_id, pb.PersistenceError, "fenced"))
            del self._producers[send.producer_id]
            return
        log = cluster.log
        metadata = parse_metadata(payload)
        assert (metadata.sequence_id, metadata.producer_name) == (send.sequence_id, name)
        entry = -1
        if not log.deduplicates or send.sequence_id > log.last_ids.get(name, -1):
            log.last_ids[name] = send.sequence_id
            entry = log.add(payload)
        if cluster.happens(mischief.cut_before_receipt):
            self.cut()
            return
        receipt = pb.CommandSendReceipt(producer_id=send.producer_id, sequence_id=send.sequence_id)
        receipt.message_id.ledgerId, receipt.message_id.entryId = LEDGER, entry if entry >= 0 else NO_REQUEST_ID
        self.say(simple_frame(pb.BaseCommand(type=Type.SEND_RECEIPT, send_receipt=receipt)))
        if cluster.happens(mischief.move_after_send):
            cluster.move()

    def _subscribe(self, subscribe: pb.CommandSubscribe) -> None:
        if self._is_refused(subscribe.request_id):
            return
        start = place_of(subscribe.start_message_id)
        first = 0 if start == EARLIEST else min(start.entry_id, len(self.cluster.log.entries))
        self._readers[subscribe.consumer_id] = FakeReader(self, subscribe.consumer_id, first)
        self.say(success_frame(subscribe.request_id))
        if self.cluster.happens(self.cluster.mischief.close_at_once):
            self.cluster.move()

    def _last_id(self, ask: pb.CommandGetLastMessageId) -> None:
        if ask.consumer_id not in self._readers:
            self.say(error_frame(ask.request_id, pb.MetadataError, "Consumer not found"))
            return
        entries = self.cluster.log.entries
        last = pb.MessageIdData(ledgerId=LEDGER, entryId=len(entries) - 1 if entries else NO_REQUEST_ID)
        if entries and (count := message_count(entries[-1])) > 1:
            last.batch_index = count - 1
        response = pb.CommandGetLastMessageIdResponse(last_message_id=last, request_id=ask.request_id)
        kind = Type.GET_LAST_MESSAGE_ID_RESPONSE
        self.say(simple_frame(pb.BaseCommand(type=kind, getLastMessageIdResponse=response)))


class FakeReader:
    """One reader of a connection: sends entries as far as its permits go."""

    def __init__(self, session: FakeSession, consumer_id: int, first: int) -> None:
        self._session = session
        self._consumer_id = consumer_id
        self._next = first
        self._permits = 0
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def flow(self, permits: int) -> None:
        self._permits += permits
        self._wake.set()

    def stop(self) -> None:
        self._task.cancel()

    async def _run(self) -> None:
        cluster = self._session.cluster
        while True:
            while self._permits > 0 and self._next < len(cluster.log.entries):
                payload = cluster.log.entries[self._next]
                message = pb.CommandMessage(consumer_id=self._consumer_id)
                message.message_id.ledgerId, message.message_id.entryId = LEDGER, self._next
                head = pb.BaseCommand(type=Type.MESSAGE, message=message).SerializeToString()
                sizes = (len(head) + 4 + len(payload)).to_bytes(4, "big") + len(head).to_bytes(4, "big")
                self._session.say(sizes + head + payload)
                self._next += 1
                self._permits -= message_count(payload)
                if cluster.happens(cluster.mischief.cut_after_message):
                    self._session.cut()
                    return
            self._wake.clear()
            added = asyncio.ensure_future(cluster.log.changed.wait())
            woken = asyncio.ensure_future(self._wake.wait())
            try:
                await asyncio.wait([added, woken], return_when=asyncio.FIRST_COMPLETED)
            finally:
                added.cancel()
                woken.cancel()
