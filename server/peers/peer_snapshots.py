"""The system topics with snapshots of transactions, in a cluster. Any broker may own such a topic; it is the owner of a
user's topic that writes and reads the snapshots of that topic.

Source: TransactionBufferSnapshotBaseSystemTopicClient, NamespaceEventsSystemTopicFactory.
"""

import asyncio
from collections.abc import AsyncIterator

from magnetar.server.peers.entry_messages_rules import PeerMessage
from magnetar.server.peers.events_tail import EventsTail
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.peers.peer_producer import NewMessage, PeerProducer
from magnetar.server.schema.schema_types import Schema
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.routing_hash import java_string_hash

READ_SECONDS = 30.0
"""How long the load of a topic waits for its snapshot. After that the client gets an error that makes it try again."""
WRITE_SECONDS = 30.0
IDLE_SECONDS = 60.0
"""A log that was not used for this time is closed, so that its reader and its producer do not prevent a deletion of the
topic."""


class PeerSnapshotLogs:
    """Finds the topics. Implements `SnapshotLogs` of `server/topics/transactions/snapshot_table.py`."""

    def __init__(self, client: PeerClient) -> None:
        self._client = client

    async def open(self, name: TopicName, schema: Schema, *, create: bool) -> "PeerSnapshotLog":
        """Raises TopicNotFound when the topic is missing and `create` is not set, ServiceNotReady when no broker
        answers, and other PulsarErrors."""
        try:
            async with asyncio.timeout(READ_SECONDS):
                partitions = await self._client.partitions(name, creates_topic=create)
        except (PeerError, TimeoutError) as error:
            raise _unreachable(name, error) from error
        places = [name.partition(index) for index in range(partitions)] or [name]
        return PeerSnapshotLog(self._client, name, places, schema)


class PeerSnapshotLog:
    """One of the topics. Implements `SnapshotLog`."""

    def __init__(self, client: PeerClient, name: TopicName, places: list[TopicName], schema: Schema) -> None:
        """`places` are the partitions of the topic, or the topic itself."""
        self.is_closed = False
        self._client = client
        self._name = name
        self._places = places
        self._schema = pb.Schema(name="", type=pb.Schema.Avro, schema_data=schema.data)
        for key, value in schema.properties.items():
            self._schema.properties.add(key=key, value=value)
        self._tails: list[EventsTail] = []
        self._producers: dict[TopicName, PeerProducer] = {}
        self._read: list[tuple[str, bytes | None]] = []
        self._uses = 0
        self._closing: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def news(self) -> AsyncIterator[tuple[str, bytes | None]]:
        self._begin_use()
        try:
            async with asyncio.timeout(READ_SECONDS):
                if not self._tails:
                    self._tails = [EventsTail(self._client, place, self._take) for place in self._places]
                for tail in self._tails:
                    await tail.read_to_end()
        except (PeerError, TimeoutError) as error:
            raise _unreachable(self._name, error) from error
        finally:
            self._end_use()
        read, self._read = self._read, []
        for record in read:
            yield record

    async def _take(self, place: TopicName, message: PeerMessage) -> None:
        try:
            key = (message.key or b"").decode()
        except UnicodeDecodeError:
            return  # the key names no topic
        if key:
            self._read.append((key, message.value))

    async def append(self, key: str, value: bytes | None) -> Position:
        # Java's producers choose the partition by the key, too, so all messages of a key are in one partition.
        place = self._places[java_string_hash(key) % len(self._places)]
        producer = self._producers.get(place)
        if producer is None or producer.failure is not None:
            producer = self._producers[place] = self._client.producer(place, schema=self._schema)
        self._begin_use()
        try:
            await producer.attached(WRITE_SECONDS)
            place_of_message = await producer.send(NewMessage(value, key), WRITE_SECONDS)
        except PeerError as error:
            raise _unreachable(self._name, error) from error
        finally:
            self._end_use()
        return Position(place_of_message.ledger_id, place_of_message.entry_id)

    def _begin_use(self) -> None:
        self._uses += 1
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_use(self) -> None:
        self._uses -= 1
        if not self._uses and not self.is_closed:
            self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self.close_soon)

    def close_soon(self) -> None:
        """Closes the log in the background. Idempotent."""
        if self._closing is None:
            self.is_closed = True
            self._closing = asyncio.get_running_loop().create_task(self._close())

    async def _close(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        for tail in self._tails:
            await tail.close()
        for producer in self._producers.values():
            await producer.close()


def _unreachable(name: TopicName, error: BaseException) -> ServiceNotReady:
    return ServiceNotReady(f"The snapshots of transactions in {name.full} cannot be reached: {error or 'no answer'}")
