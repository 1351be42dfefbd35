"""The common part of consumers' and readers' sessions: their topics, and the delivery of messages to the peer.

A topic gets permits for as many messages as the peer may get now, and no more, so no messages wait here for a socket
that asks for nothing or reads nothing. When a batch brings more messages than that, or several topics send to one peer,
the surplus waits in the inlet. All steps are done together once in a turn of the event loop (`_pump`): acknowledgements
go to the topics, messages to the peer, and permits to the topics.

Sources: ConsumerHandler, ReaderHandler, MultiTopicsConsumerImpl.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from magnetar.server.process.detaching import detach_all
from magnetar.server.security.operations import TopicOperation
from magnetar.server.websocket.chunk_assembly import ChunkAssembly
from magnetar.server.websocket.consumer_command_rules import ConsumerCommand, parse_consumer_command
from magnetar.server.websocket.consumer_query_rules import CryptoFailureAction
from magnetar.server.websocket.frame_rules import INVALID_TEXT
from magnetar.server.websocket.json_message_rules import MessageFault
from magnetar.server.websocket.message_inlet import MessageInlet
from magnetar.server.websocket.received_messages import OpenedEntry, ReceivedMessage, StoredEntry
from magnetar.server.websocket.socket_topics import SocketTopics
from magnetar.server.websocket.topic_consumer import BeginsAfter, TopicConsumer
from magnetar.server.websocket.websocket_client import WebSocketClient
from pulsar_proto.errors import NotAllowed, PulsarError
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

log = logging.getLogger(__name__)

CONSUMERS_MAX = 2_000
"""How many topics, counting partitions, one socket may consume."""

ATTACHED_AT_ONCE = 20
"""How many topics are loaded at the same time for one socket."""

MESSAGES_A_TURN, BYTES_A_TURN = 100, 256 << 10
"""After this many messages to one peer, or texts of this many bytes, other peers have a turn."""

PARTITIONS_CHECK_SECONDS = 60.0
"""How often the number of a topic's partitions is looked up (ClientConfigurationData, autoUpdatePartitionsInterval)."""

_MESSAGE = pb.BaseCommand.MESSAGE
_CLOSE_CONSUMER = pb.BaseCommand.CLOSE_CONSUMER
_REACHED_END_OF_TOPIC = pb.BaseCommand.REACHED_END_OF_TOPIC


class ReceivingSession(ABC):
    """The base class of the sessions of consumers and readers. Implements `magnetar.server.websocket.session.Session`,
    except `open`."""

    def __init__(self, client: WebSocketClient, action: CryptoFailureAction) -> None:
        self._client = client
        self._inlet = MessageInlet(client, action, self._opened)
        self._topics = SocketTopics(client, self._inlet)
        self._chunks = ChunkAssembly()
        self._sources: dict[int, TopicConsumer] = {}
        """The consumers of the session, by consumer id."""
        self._partitioned: dict[TopicName, int] = {}
        """The partitioned topics that are consumed, with the number of their partitions."""
        self._next_id = 0
        self._is_started = False
        self._is_closed = False
        self._is_pump_due = False
        self._waits_for_client = False
        self._partitions_checked_s = asyncio.get_running_loop().time()
        self._growing: asyncio.Task[None] | None = None

    # --- what consumers and readers do differently -------------------------------------------------------------------

    @abstractmethod
    def _subscribe_command(self, topic: TopicName, consumer_id: int) -> pb.CommandSubscribe:
        """Returns the SUBSCRIBE command for the session's consumer of a topic."""

    @abstractmethod
    def _obey(self, command: ConsumerCommand) -> None:
        """Does what a text of the peer asks for."""

    @property
    @abstractmethod
    def _credit(self) -> int:
        """Returns how many messages the peer may get now."""

    @abstractmethod
    def _sent(self, source: TopicConsumer, message: ReceivedMessage) -> None:
        """Called when a message was sent to the peer."""

    @abstractmethod
    def _discard(self, source: TopicConsumer, entry: StoredEntry) -> None:
        """Acknowledges an entry that cannot be read."""

    @abstractmethod
    def _sort(self, source: TopicConsumer, opened: OpenedEntry) -> None:
        """Puts those messages of an entry that the session delivers to the peer into the inlet. The subclass decides
        which messages these are; for instance, messages before the session's start are not delivered."""

    @abstractmethod
    def _lost(self, source: TopicConsumer) -> None:
        """Called when the session forgets the unacknowledged messages of a topic (see `_forget`)."""

    @abstractmethod
    def _settle(self) -> None:
        """Sends the commands that were collected for the topics, such as acknowledgements."""

    # --- Session -----------------------------------------------------------------------------------------------------

    def started(self) -> None:
        self._is_started = True
        self._pump_soon()

    def on_texts(self, texts: Sequence[bytearray]) -> int:
        for text in texts:
            try:
                command = parse_consumer_command(text)
            except MessageFault as fault:
                # Apache sends the code 3, which no client accepts.
                self._client.close(f"Failed to de-serialize from JSON: {fault}", INVALID_TEXT)
                break
            self._obey(command)
        self._pump_soon()
        return len(texts)

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        if command.type == _MESSAGE:
            message = command.message
            position = message.message_id
            entry = self._chunks.add(
                StoredEntry(
                    message.consumer_id,
                    position.ledgerId,
                    position.entryId,
                    message.redelivery_count,
                    message.ack_set,
                    payload or b"",
                )
            )
            if entry is not None:
                self._inlet.add(entry)
            self._pump_soon()
        elif command.type == _CLOSE_CONSUMER:
            source = self._sources.get(command.close_consumer.consumer_id)
            if source is not None:
                self._forget(source)
                source.closed_by_topic()
                self._pump_soon()
        elif command.type == _REACHED_END_OF_TOPIC:
            source = self._sources.get(command.reachedEndOfTopic.consumer_id)
            if source is not None:
                source.has_ended = True

    def tick(self, now_s: float) -> None:
        self._pump_soon()
        if now_s - self._partitions_checked_s >= PARTITIONS_CHECK_SECONDS and self._growing is None:
            self._partitions_checked_s = now_s
            self._growing = self._client.broker.spawn(self._grow())

    def closed(self) -> None:
        self._is_closed = True
        self._inlet.close_inlet()
        detaches = [source.detach for source in self._sources.values()]
        detach_all(detaches, self._client.remote_address, self._client.broker.spawn)
        self._topics.close()

    # --- topics ------------------------------------------------------------------------------------------------------

    async def _consume(self, topics: Iterable[TopicName]) -> None:
        """Consumes topics, each with all of its partitions. Raises PulsarError; consumers that were attached before the
        error stay attached until `closed`."""
        names: list[TopicName] = []
        for topic in topics:
            # The peer is judged before anything else, because asking for the partitions may create them.
            subscription = self._subscribe_command(topic, 0).subscription
            await self._client.authorize(TopicOperation.CONSUME, topic, subscription)
            names += await self._partitions(topic)
        await self._attach(names)

    async def _partitions(self, topic: TopicName) -> list[TopicName]:
        """Returns the topics to consume for a topic that the peer named: the topic's partitions, or the topic itself if
        it is not partitioned."""
        count = await self._client.broker.service.catalog.partitions_of(topic, may_create=True)
        if count == 0:
            return [topic]
        self._partitioned[topic] = count
        return [topic.partition(index) for index in range(min(count, CONSUMERS_MAX + 1))]

    async def _attach(self, names: Sequence[TopicName]) -> None:
        if len(self._sources) + len(names) > CONSUMERS_MAX:
            raise NotAllowed(f"More than {CONSUMERS_MAX} topics or partitions for one WebSocket")
        for start in range(0, len(names), ATTACHED_AT_ONCE):
            sources = [self._add(name) for name in names[start : start + ATTACHED_AT_ONCE]]
            results = await asyncio.gather(*(source.open() for source in sources), return_exceptions=True)
            for result in results:
                if result is not None:
                    raise result
        if self._is_closed:
            self.closed()
        self._pump_soon()

    def _add(self, name: TopicName) -> TopicConsumer:
        self._next_id += 1
        command = self._subscribe_command(name, self._next_id)
        source = TopicConsumer(self._client, self._topics, name, command, lambda _: self._pump_soon())
        self._sources[source.consumer_id] = source
        return source

    def _remove(self, source: TopicConsumer) -> None:
        """Ends the consumption of a topic."""
        if self._sources.pop(source.consumer_id, None) is not None:
            self._forget(source)
            source.detach()

    def _forget(self, source: TopicConsumer) -> None:
        """Forgets all unacknowledged messages of a topic. If the topic is still consumed, the topic delivers them
        again."""
        self._inlet.drop(source.consumer_id)
        self._chunks.drop(source.consumer_id)
        self._lost(source)

    async def _grow(self) -> None:
        """Begins to consume partitions that were added to topics."""
        try:
            for topic, known in list(self._partitioned.items()):
                count = await self._client.broker.service.catalog.partitions_of(topic, may_create=False)
                if count > known and not self._is_closed:
                    self._partitioned[topic] = count
                    await self._attach([topic.partition(index) for index in range(known, count)])
        except PulsarError as error:
            log.warning("%s: new partitions cannot be consumed: %s", self._client.remote_address, error)
        finally:
            self._growing = None

    @property
    def _has_ended(self) -> bool:
        """Returns whether all topics are terminated and all their messages were acknowledged."""
        return bool(self._sources) and all(source.has_ended for source in self._sources.values())

    # --- messages ----------------------------------------------------------------------------------------------------

    def _opened(self, entry: StoredEntry, opened: OpenedEntry) -> None:
        """The `MessageInlet` calls this method with each entry that it has decompressed and separated into messages,
        or that it could not read. Delivers the messages, logs why an entry is not delivered, and acknowledges an
        unreadable entry if `opened.discard` asks for it."""
        source = self._sources.get(entry.consumer_id)
        if source is None or source.consumer is None:
            return
        if opened.fault:
            log.warning(
                "%s: %s %d:%d is %s: %s",
                self._client.remote_address,
                source.name,
                entry.ledger_id,
                entry.entry_id,
                "acknowledged and not delivered" if opened.discard else "not delivered",
                opened.fault,
            )
        if opened.discard:
            self._discard(source, entry)
        self._sort(source, opened)
        self._pump_soon()

    def _pump_soon(self) -> None:
        if not self._is_pump_due and self._is_started and not self._is_closed:
            self._is_pump_due = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        self._is_pump_due = False
        if self._is_closed or not self._client.is_open:
            return
        try:
            self._inlet.handed_over()
            self._settle()
            self._deliver()
            self._grant()
            self._inlet.wake()
        except Exception:
            log.exception("%s: messages cannot be delivered", self._client.remote_address)
            self._client.close("an error of the server; its log says more")

    def _deliver(self) -> None:
        """Sends the waiting messages that may be sent."""
        inlet = self._inlet
        texts: list[bytes] = []
        size = 0
        while inlet.messages and self._credit > 0:
            if not self._client.is_writable:
                self._when_client_writable()
                break
            if len(texts) == MESSAGES_A_TURN or size >= BYTES_A_TURN:
                self._pump_soon()
                break
            message = inlet.take()
            source = self._sources.get(message.entry.consumer_id)
            if source is None:
                continue
            texts.append(text := message.text(source.name.partition_index))
            size += len(text)
            if not source.command.durable:
                index = message.place if message.place + 1 < message.batch_size else ALL_OF_BATCH
                source.begins_after = BeginsAfter(message.entry.ledger_id, message.entry.entry_id, index)
            self._sent(source, message)
        if texts:
            self._client.say_all(texts)

    def _grant(self) -> None:
        """Gives the topics permits for the messages that the peer may still get."""
        wanted = self._credit - len(self._inlet.messages)
        if wanted <= 0:
            return
        share = max(1, wanted // max(1, len(self._sources)))
        for source in list(self._sources.values()):
            source.grant(share)

    def _when_client_writable(self) -> None:
        if not self._waits_for_client:
            self._waits_for_client = True
            self._client.when_writable(self._client_writable)

    def _client_writable(self) -> None:
        self._waits_for_client = False
        self._pump_soon()


ALL_OF_BATCH = 2**31 - 1
"""A batch index that is higher than the index of any message."""
