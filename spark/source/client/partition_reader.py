"""Reads the entries of one topic partition in order from a given place on, also across reconnects. On the broker a
reader is a non-durable subscription.

Permits count messages, but a broker sends an entry whole, so the messages of the last batch may exceed the permits.
Messages that the task has not read yet wait in the socket, so a slow task holds no memory beyond one read.
"""

import time
import uuid
from dataclasses import dataclass

from magnetar.spark.source.client.broker_connection import CLOSED_BY_BROKER, BrokerConnection, Disconnected
from magnetar.spark.source.client.pulsar_client import PulsarClient
from magnetar.spark.source.decoding.entry_block import CorruptEntry, Entry, EntryBlock, block_of
from magnetar.spark.source.ranges.bounds import Bound, bound_of, wire_id
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import simple_frame

CONSUMER_ID = 1
COMPACTED_LOOK_SECONDS = 1.0
"""A reader of a compacted view that got nothing for this long asks the broker where the view ends."""


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """The settings with which readers subscribe. At most `permits` messages are under way (receiverQueueSize)."""

    name: str = "spark-pulsar-reader"
    permits: int = 10_000
    read_compacted: bool = False


class PartitionReader:
    """A reader of one partition, which subscribes at the first read. The methods raise the errors of `PulsarClient`,
    and MalformedFrame when a broker's bytes do not decode."""

    def __init__(self, client: PulsarClient, topic: str, after: Bound, settings: ReaderSettings | None = None) -> None:
        """The reader begins with the entry after `after`; with BEFORE_ALL it begins with the topic's first entry."""
        self.topic = topic
        self._client = client
        self._after = after
        self._settings = settings or ReaderSettings()
        self._subscription = f"{self._settings.name}-{uuid.uuid4().hex[:10]}"
        self._connection: BrokerConnection | None = None
        self._permits_left = 0
        self._is_closed_by_broker = False
        self._damage: CorruptEntry | None = None

    def close(self) -> None:
        """Closes the connection. Messages that are still under way are dropped."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self, deadline: float) -> list[Entry]:
        """Returns a list of some entries, for a caller who wants few of them. Returns an empty list when `deadline`
        (monotonic seconds) passes. Raises CorruptEntry for a damaged entry, after all entries before it were
        returned."""
        if self._damage is not None:
            damage, self._damage = self._damage, None
            raise damage
        block = self.read_block(deadline)
        entries: list[Entry] = []
        for index in range(0 if block is None else len(block)):
            assert block is not None
            try:
                entries.append(block.entry(index, self.topic))
            except CorruptEntry as error:
                if not entries:
                    raise
                self._damage = error
                break
        return entries

    def read_block(self, deadline: float) -> EntryBlock | None:
        """Returns some entries as a block. Returns None when `deadline` (monotonic seconds) passes before an entry
        comes."""
        while True:
            try:
                if self._connection is None:
                    self._client.persist(self._subscribe)
                block = self._take(deadline)
            except Disconnected:
                self.close()
                if time.monotonic() > deadline:
                    return None
                continue
            if block is not None or time.monotonic() > deadline:
                return block

    def read_block_or_end(self, deadline: float) -> EntryBlock | None:
        """Returns what `read_block` returns. In a compacted view the reader also looks whether it has reached the
        view's end, and returns None then. The view may end before the topic does, because a tombstone that was the
        topic's last message is in no compacted view."""
        while self._settings.read_compacted:
            look_at = min(deadline, time.monotonic() + COMPACTED_LOOK_SECONDS)
            block = self.read_block(look_at)
            if block is not None or look_at == deadline or self.is_at_end():
                return block
        return self.read_block(deadline)

    def last_and_mark_delete(self) -> tuple[Bound, Bound]:
        """Returns the partition's last entry, and the entry before the first one that this reader would get."""

        def ask() -> tuple[Bound, Bound]:
            if self._connection is None or self._connection.reads_blocks or not self._connection.is_alive():
                self.close()
                self._subscribe()
            assert self._connection is not None
            try:
                return last_message_id(self._connection, CONSUMER_ID)
            except Disconnected:
                self.close()
                raise

        return self._client.persist(ask)

    def is_at_end(self) -> bool:
        """Returns whether the topic, as this reader sees it, has no message behind the last one that was read."""
        return self.last_and_mark_delete()[0][:2] <= self._after[:2]

    def seek_time(self, milliseconds: int) -> None:
        """Moves to the first message that was published at or after a time (milliseconds since the epoch)."""

        def seek() -> None:
            if self._connection is None or self._connection.reads_blocks:
                self.close()
                self._subscribe()
            assert self._connection is not None
            request = pb.CommandSeek(consumer_id=CONSUMER_ID, message_publish_time=milliseconds)
            try:
                self._connection.request(pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=request), "seek")
                self._subscribe_on(self._connection)  # on SEEK the broker closes the consumer and keeps its cursor
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

    def _subscribe_on(self, connection: BrokerConnection) -> None:
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
        self._is_closed_by_broker = False

    def _take(self, deadline: float) -> EntryBlock | None:
        connection = self._connection
        assert connection is not None
        if self._is_closed_by_broker:
            raise Disconnected(f"the broker closed the reader of {self.topic}")
        if self._permits_left <= self._settings.permits * 3 // 4:
            self._give_permits(connection)
        frames = connection.block(deadline)
        if frames is None:
            return None
        block, commands = block_of(*frames)
        for command in commands:
            self._other(connection, command)
        if block is None:
            return None
        self._permits_left -= int(block.permits().sum())
        after = self._after[:2]  # a broker begins with the entry of start_message_id itself, which is read already
        if not block.is_behind(after):
            block = block.without_known(after)
        if not len(block):
            return None
        self._after = Bound(*block.place(-1))
        return block

    def _give_permits(self, connection: BrokerConnection) -> None:
        more = min(self._settings.permits - self._permits_left, 2**31 - 1)
        flow = pb.CommandFlow(consumer_id=CONSUMER_ID, messagePermits=more)
        connection.send(simple_frame(pb.BaseCommand(type=pb.BaseCommand.FLOW, flow=flow)))
        self._permits_left += more

    def _other(self, connection: BrokerConnection, data: bytes) -> None:
        command = connection.housekeeping(data)
        if command is not None and command.type in CLOSED_BY_BROKER:
            # Messages that came before CLOSE_CONSUMER are still used. The next read reconnects.
            self._is_closed_by_broker = True


def last_message_id(connection: BrokerConnection, consumer_id: int) -> tuple[Bound, Bound]:
    """Returns the last entry of a consumer's topic and the mark-delete position of its subscription, as whole
    entries."""
    request = pb.CommandGetLastMessageId(consumer_id=consumer_id)
    command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=request)
    answer = connection.request(command, "getLastMessageId").getLastMessageIdResponse
    last = bound_of(answer.last_message_id)
    mark_delete = bound_of(answer.consumer_mark_delete_position)
    return Bound(last.ledger, last.entry), Bound(mark_delete.ledger, mark_delete.entry)
