"""Simulated clients: producers that follow their topic to its next owner and send again what has no receipt, and
consumers that remember which acknowledgements were promised to be persisted."""

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_left
from contextvars import Context
from random import Random
from typing import Protocol

from magnetar.server.topics.topic import Topic
from pulsar_proto.ids import Position, signed64
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload, parse_metadata
from pulsar_proto.wire.commands import send_frame
from tests.sim.sim_broker import SimBroker
from tests.sim.sim_wires import ClientLink, LostError, RefusedError

REDIRECTS_MAX = 20
PAUSES = (0.05, 0.1, 0.3)
IDLE_SECONDS = 3.0
"""How long a client waits for receipts before it gives up its connection."""
PERMITS = 100_000


class World(Protocol):
    """What clients need of their history."""

    rng: Random
    home: Context

    def at(self, url: str) -> SimBroker | None:
        """Returns the broker at this address, None while nobody listens there."""

    def addresses(self) -> list[str]: ...

    def is_cut(self, client: str, broker: SimBroker) -> bool: ...

    def loaded_s(self, topic: Topic) -> float: ...

    def note(self, *what: object) -> None: ...


class Client(ABC):
    """One client of one topic. It runs until its history ends."""

    def __init__(self, world: World, name: str, topic: TopicName) -> None:
        self.world = world
        self.name = name
        self.topic = topic
        self.link: ClientLink | None = None
        self.problem = ""
        self.faults: list[str] = []
        self.task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                await self._serve(await self._found())
            except (LostError, RefusedError, TimeoutError) as error:
                self.problem = f"{type(error).__name__} {error}"
            finally:
                if self.link is not None:
                    self.link.end()
                    self.link = None
            await asyncio.sleep(self.world.rng.choice(PAUSES))

    async def _found(self) -> SimBroker:
        """Looks the topic up, and returns the broker that the last answer names."""
        url, is_decided = self.world.rng.choice(self.world.addresses()), False
        for _ in range(REDIRECTS_MAX):
            link = await self._connected(url)
            try:
                answer = (await link.ask("LOOKUP", topic=self.topic.full, authoritative=is_decided)).lookupTopicResponse
            finally:
                link.end()
            if answer.response == pb.CommandLookupTopicResponse.Failed:
                raise RefusedError(answer.message)
            url, is_decided = answer.brokerServiceUrl, answer.authoritative
            if answer.response == pb.CommandLookupTopicResponse.Connect:
                return self._at(url)
        raise RefusedError("too many redirects")

    def _at(self, url: str) -> SimBroker:
        broker = self.world.at(url)
        if broker is None or self.world.is_cut(self.name, broker):
            raise LostError
        return broker

    async def _connected(self, url: str) -> ClientLink:
        link = ClientLink(self._at(url), self.world.rng, self.world.home, self._heard)
        try:
            await link.connect()
        except BaseException:
            link.end()
            raise
        return link

    @abstractmethod
    async def _serve(self, broker: SimBroker) -> None:
        """Uses the broker that serves the topic, until the connection to it ends."""

    @abstractmethod
    def _heard(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        """Called with what comes unasked."""


class SimProducer(Client):
    """A producer of numbered messages. `receipts` holds a position for each number that has a receipt."""

    def __init__(self, world: World, name: str, topic: TopicName) -> None:
        self.published = 0
        self.receipts: list[Position] = []
        self.confirmed_by: list[str] = []
        self._epoch = 0
        self._is_attached = False
        super().__init__(world, name, topic)

    @property
    def unreceipted(self) -> int:
        return self.published - len(self.receipts)

    def body(self, number: int) -> bytes:
        return b"%s %d" % (self.name.encode(), number)

    def publish(self, count: int) -> None:
        first, self.published = self.published, self.published + count
        if self._is_attached:
            self._send(first)

    def _send(self, first: int) -> None:
        assert self.link is not None
        for number in range(first, self.published):
            send = pb.CommandSend(producer_id=1, sequence_id=number, num_messages=1)
            body = self.body(number)
            metadata = pb.MessageMetadata(
                producer_name=self.name, sequence_id=number, publish_time=1, uncompressed_size=len(body)
            )
            self.link.send(send_frame(send, build_payload(metadata, body)))

    async def _serve(self, broker: SimBroker) -> None:
        self.link = link = await self._connected(f"pulsar://{broker.name}:6650")
        self._epoch += 1
        await link.ask(
            "PRODUCER",
            topic=self.topic.full,
            producer_id=1,
            producer_name=self.name,
            user_provided_producer_name=False,
            epoch=self._epoch,
        )
        try:
            self._is_attached = True
            self._send(len(self.receipts))
            while not link.is_lost:
                before = len(self.receipts)
                had = self.unreceipted
                try:
                    async with asyncio.timeout(IDLE_SECONDS):
                        await link.ended()
                except TimeoutError:
                    if had and len(self.receipts) == before:
                        raise
        finally:
            self._is_attached = False

    def _heard(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        link = self.link
        if link is None:
            return
        if command.type == pb.BaseCommand.SEND_RECEIPT:
            number = command.send_receipt.sequence_id
            position = position_of(command.send_receipt.message_id)
            self.world.note(self.name, number, position)
            if number < len(self.receipts):
                self.faults.append(f"{self.name}: a second receipt for {number}")
            elif number > len(self.receipts):
                self.faults.append(f"{self.name}: the receipt for {number} came before that for {len(self.receipts)}")
            else:
                self.receipts.append(position)
                self.confirmed_by.append(link.broker.label)
        elif command.type in (pb.BaseCommand.CLOSE_PRODUCER, pb.BaseCommand.SEND_ERROR):
            link.end()


class SimConsumer(Client):
    """A consumer that notes what it got and which acknowledgements it was told to be persisted."""

    def __init__(self, world: World, name: str, topic: TopicName, *, cumulative: bool) -> None:
        self.is_cumulative = cumulative
        self.seen: dict[Position, bytes] = {}
        self.mark: tuple[Position, float] | None = None
        """The last promised cumulative acknowledgement, and when the promise came."""
        self.promised: dict[Position, float] = {}
        """The promised single acknowledgements, each with the time of its promise."""
        self._unacked: list[Position] = []
        self._loaded_s = 0.0
        self._last: Position | None = None
        super().__init__(world, name, topic)

    @property
    def is_done(self) -> bool:
        return not self._unacked

    def promised_s(self, position: Position) -> float | None:
        """Returns when the acknowledgement of this position was promised, or None."""
        if self.mark is not None and position <= self.mark[0]:
            return self.mark[1]
        return self.promised.get(position)

    async def ack(self, share: float) -> None:
        """Acknowledges that share of what it holds, and notes the promise if one comes."""
        link, held = self.link, self._unacked
        if link is None or not held:
            return
        if self.is_cumulative:
            chosen = held[: max(1, int(len(held) * share))]
            ids = chosen[-1:]
        else:
            chosen = ids = [each for each in held if self.world.rng.random() < share] or held[:1]
        kind = pb.CommandAck.Cumulative if self.is_cumulative else pb.CommandAck.Individual
        gone = set(chosen)
        self._unacked = [each for each in held if each not in gone]
        message_ids = [pb.MessageIdData(ledgerId=each.ledger_id, entryId=each.entry_id) for each in ids]
        try:
            await link.ask("ACK", consumer_id=1, ack_type=kind, message_id=message_ids)
        except (LostError, RefusedError, TimeoutError):
            link.end()
            return
        now_s = asyncio.get_running_loop().time()
        self.world.note(self.name, "promised", ids[-1])
        if not self.is_cumulative:
            self.promised.update(dict.fromkeys(ids, now_s))
        elif self.mark is None or ids[-1] > self.mark[0]:
            self.mark = ids[-1], now_s

    async def _serve(self, broker: SimBroker) -> None:
        self._unacked, self._last = [], None
        link = await self._connected(f"pulsar://{broker.name}:6650")
        sub_type = pb.CommandSubscribe.Exclusive if self.is_cumulative else pb.CommandSubscribe.Shared
        try:
            await link.ask(
                "SUBSCRIBE",
                topic=self.topic.full,
                subscription=self.name,
                subType=sub_type,
                consumer_id=1,
                consumer_name=self.name,
                initialPosition=pb.CommandSubscribe.Earliest,
            )
        except BaseException:
            link.end()
            raise
        topic = broker.broker.service.topics.get(self.topic.full)
        if topic is None:
            link.end()
            return
        self._loaded_s = self.world.loaded_s(topic)
        self.link = link
        link.tell("FLOW", consumer_id=1, messagePermits=PERMITS)
        while not link.is_lost:
            try:
                async with asyncio.timeout(IDLE_SECONDS):
                    await link.ended()
            except TimeoutError:
                await link.ask("LOOKUP", topic=self.topic.full)  # is anybody there?

    def _heard(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        if self.link is None:
            return
        if command.type == pb.BaseCommand.CLOSE_CONSUMER:
            self.link.end()
        elif command.type == pb.BaseCommand.MESSAGE and payload is not None:
            self._got(position_of(command.message.message_id), body_of(payload))

    def _got(self, position: Position, body: bytes) -> None:
        self.world.note(self.name, "got", position)
        promised_s = self.promised_s(position)
        if promised_s is not None and promised_s <= self._loaded_s:
            self.faults.append(f"{self.name}: {position} comes again, its acknowledgement was promised")
        if self.seen.setdefault(position, body) != body:
            self.faults.append(f"{self.name}: {position} was {self.seen[position]!r}, now it is {body!r}")
        if self.is_cumulative and self._last is not None and position <= self._last:
            self.faults.append(f"{self.name}: {position} comes after {self._last}")
        self._last = position
        self._unacked.insert(bisect_left(self._unacked, position), position)


def position_of(message_id: pb.MessageIdData) -> Position:
    return Position(signed64(message_id.ledgerId), signed64(message_id.entryId))


def body_of(payload: bytes) -> bytes:
    return payload[-parse_metadata(payload).uncompressed_size :]
