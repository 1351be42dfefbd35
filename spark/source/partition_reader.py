"""The entries of one topic partition, in order, from a place on: a non-durable reader that survives reconnects.

Permits count messages and an entry is sent whole, so the last batch may exceed them; that is the broker's rule. What
is not read yet waits in the socket: a slow task holds no memory beyond one read.
"""

import time
import uuid
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error

from google.protobuf.message import DecodeError

from pulsar_proto.checksum import crc32c_of
from pulsar_proto.commands import simple_frame
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.payload import (
    MAGIC_CRC32C,
    parse_metadata,
    skip_broker_entry_metadata,
    skip_checksum,
    verify_checksum,
)
from pulsar_proto.payload import body as body_of
from pulsar_proto.pb import pulsar_api_pb2 as pb
from spark.source.client import Client
from spark.source.connection import MESSAGE, Connection, Disconnected
from spark.source.message_id import Bound, bound_of, wire_id

Entry = tuple[int, int, pb.MessageMetadata, bytes]
"""(ledger, entry, metadata, body as it is stored: compressed, perhaps a batch)."""

CONSUMER_ID = 1

_MAGIC_CRC_SIZE = Struct(">HII").unpack_from
_parse_command = pb.BaseCommand.FromString
_parse_metadata = pb.MessageMetadata.FromString


class CorruptEntry(Exception):
    """An entry's bytes disagree with their checksum or do not decode; the text names it."""


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """How readers present themselves. `permits`: messages under way at most (receiverQueueSize)."""

    name: str = "spark-pulsar-reader"
    permits: int = 10_000
    read_compacted: bool = False


class PartitionReader:
    """Subscribes when first read. Raises, besides the errors of `Client`, CorruptEntry."""

    def __init__(self, client: Client, topic: str, after: Bound, settings: ReaderSettings | None = None) -> None:
        """`after`: the first entry that comes is the one behind it (BEFORE_ALL: the topic's first)."""
        self.topic = topic
        self._client = client
        self._after = after
        self._settings = settings or ReaderSettings()
        self._subscription = f"{self._settings.name}-{uuid.uuid4().hex[:10]}"
        self._connection: Connection | None = None
        self._permits_left = 0
        self._damage: CorruptEntry | None = None

    def close(self) -> None:
        """Leaves by closing the connection: what is still under way is dropped."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self, deadline: float) -> list[Entry]:
        """Some entries; none when `deadline` (monotonic seconds) passes before one comes."""
        while True:
            try:
                if self._connection is None:
                    self._client.persist(self._subscribe)
                entries = self._take(deadline)
            except Disconnected:
                self.close()
                if time.monotonic() > deadline:
                    return []
                continue
            if entries or time.monotonic() > deadline:
                return entries

    def last_and_mark_delete(self) -> tuple[Bound, Bound]:
        """(the partition's last entry, the entry before the first that this reader would get)."""

        def ask() -> tuple[Bound, Bound]:
            if self._connection is None or not self._connection.is_alive():
                self.close()
                self._subscribe()
            assert self._connection is not None
            try:
                return last_message_id(self._connection, CONSUMER_ID)
            except Disconnected:
                self.close()
                raise

        return self._client.persist(ask)

    def seek_time(self, milliseconds: int) -> None:
        """Moves to the first message that was published at or after a time."""

        def seek() -> None:
            if self._connection is None:
                self._subscribe()
            assert self._connection is not None
            request = pb.CommandSeek(consumer_id=CONSUMER_ID, message_publish_time=milliseconds)
            try:
                self._connection.request(pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=request), "seek")
                self._subscribe_on(self._connection)  # the broker closed the consumer and kept the cursor
            except Disconnected:
                self.close()
                raise

        self._client.persist(seek)

    def _subscribe(self) -> None:
        connection = self._client.own_connection(self.topic)
        try:
            self._subscribe_on(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _subscribe_on(self, connection: Connection) -> None:
        subscribe = pb.CommandSubscribe(
            topic=self.topic,
            subscription=self._subscription,
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=CONSUMER_ID,
            durable=False,
            start_message_id=wire_id(self._after),
            read_compacted=self._settings.read_compacted,
            initialPosition=pb.CommandSubscribe.Earliest,
            force_topic_creation=False,
        )
        connection.request(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=subscribe), "subscribe")
        self._permits_left = 0

    def _take(self, deadline: float) -> list[Entry]:
        connection = self._connection
        assert connection is not None
        if self._damage is not None:
            damage, self._damage = self._damage, None
            raise damage
        if self._permits_left <= self._settings.permits // 2:
            self._give_permits(connection)
        frames = connection.frames(deadline)
        entries: list[Entry] = []
        while frames:
            command, payload = frames.popleft()
            if payload is None:
                self._other(connection, command)
                continue
            try:
                entry = self._entry(command, payload)
            except CorruptEntry as damage:
                if not entries:
                    raise
                self._damage = damage  # what came before it goes out first
                break
            if entry is not None:
                entries.append(entry)
        return entries

    def _give_permits(self, connection: Connection) -> None:
        more = self._settings.permits - self._permits_left
        flow = pb.CommandFlow(consumer_id=CONSUMER_ID, messagePermits=more)
        connection.send(simple_frame(pb.BaseCommand(type=pb.BaseCommand.FLOW, flow=flow)))
        self._permits_left += more

    def _other(self, connection: Connection, data: bytes) -> None:
        command = connection.housekeeping(data)
        if command is not None and command.type == pb.BaseCommand.CLOSE_CONSUMER:
            raise Disconnected(f"the broker closed the reader of {self.topic}")

    def _entry(self, command: bytes, payload: bytes) -> Entry | None:
        message = _parse_command(command)
        if message.type != MESSAGE:
            return None
        message_id = message.message.message_id
        ledger, entry = message_id.ledgerId, message_id.entryId
        again = (ledger, entry) <= self._after[:2]  # a broker begins with the start id's own entry (facts 2.2)
        if not again:
            self._after = Bound(ledger, entry)
        try:
            metadata, body = cut(payload)
        except MalformedFrame as error:
            raise CorruptEntry(f"{self.topic}: entry {ledger}:{entry} is damaged: {error}") from error
        self._permits_left -= metadata.num_messages_in_batch
        return None if again else (ledger, entry, metadata, body)


def cut(payload: bytes) -> tuple[pb.MessageMetadata, bytes]:
    """Metadata and body of a MESSAGE's payload, checked. Raises MalformedFrame."""
    try:
        magic, crc, size = _MAGIC_CRC_SIZE(payload)
        if magic == MAGIC_CRC32C:
            if crc32c_of(payload[6:]) != crc:
                raise MalformedFrame("its checksum is wrong")
            end = 10 + size
            metadata = _parse_metadata(payload[10:end])
            if end <= len(payload):
                return metadata, payload[end:]
    except (struct_error, DecodeError):
        pass
    start = skip_broker_entry_metadata(payload)
    if not verify_checksum(payload[start:]):
        raise MalformedFrame("its checksum is wrong")
    return parse_metadata(payload, skip_checksum(payload)), body_of(payload)


def last_message_id(connection: Connection, consumer_id: int) -> tuple[Bound, Bound]:
    """(last entry of the consumer's topic, its subscription's mark-delete position), as whole entries."""
    request = pb.CommandGetLastMessageId(consumer_id=consumer_id)
    command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=request)
    answer = connection.request(command, "getLastMessageId").getLastMessageIdResponse
    last = bound_of(answer.last_message_id)
    mark_delete = bound_of(answer.consumer_mark_delete_position)
    return Bound(last.ledger, last.entry), Bound(mark_delete.ledger, mark_delete.entry)
