"""The session of a reader's socket, which gets the messages of a topic from a given message on, without a durable
subscription. Source: ReaderHandler."""

import secrets
from collections.abc import Mapping

import orjson

from magnetar.server.websocket.consumer_command_rules import ConsumerCommand, Verb
from magnetar.server.websocket.consumer_query_rules import read_reader_options
from magnetar.server.websocket.received_messages import OpenedEntry, ReceivedMessage, StoredEntry
from magnetar.server.websocket.receiving_session import ALL_OF_BATCH, ReceivingSession
from magnetar.server.websocket.topic_consumer import BeginsAfter, TopicConsumer
from magnetar.server.websocket.websocket_client import WebSocketClient
from magnetar.server.websocket.websocket_path_rules import QueryFault, SocketPath
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb


class ReaderSession(ReceivingSession):
    """The session of one reader's socket. Implements `magnetar.server.websocket.session.Session`."""

    def __init__(self, client: WebSocketClient, path: SocketPath, query: Mapping[str, str]) -> None:
        """Reads the reader's options from the query. Raises QueryFault for a parameter that makes no sense."""
        self._options = read_reader_options(query)
        super().__init__(client, self._options.crypto_failure_action)
        (self._topic,) = path.topics
        self._subscription = f"reader-{secrets.token_hex(5)}"
        self._left = self._options.window
        """How many messages the peer may get now."""
        self._read: dict[int, pb.MessageIdData] = {}
        """The last message that the peer got, by consumer id. `tick` reports these messages to the topics, and empties
        the dictionary."""

    async def open(self) -> None:
        await self._consume([self._topic])
        if self._partitioned and self._options.names_message:
            raise QueryFault(
                "Invalid messageId: the partitioned topic startMessageId is illegal: use earliest or latest"
            )

    def _subscribe_command(self, topic: TopicName, consumer_id: int) -> pb.CommandSubscribe:
        return pb.CommandSubscribe(
            topic=topic.full,
            subscription=self._subscription,
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=consumer_id,
            request_id=0,
            consumer_name=self._options.name or secrets.token_hex(3)[:5],
            durable=False,
            start_message_id=self._options.start,
        )

    def _add(self, name: TopicName) -> TopicConsumer:
        source = super()._add(name)
        start = self._options.start
        if self._options.names_message:
            index = start.batch_index if start.batch_index >= 0 else ALL_OF_BATCH
            source.begins_after = BeginsAfter(start.ledgerId, start.entryId, index)
        return source

    def _obey(self, command: ConsumerCommand) -> None:
        """Handles a text of the peer. The text asks either whether the end of the topic is reached or, like an
        acknowledgement, for one more message."""
        if command.verb is Verb.IS_END_OF_TOPIC:
            self._client.say(orjson.dumps({"endOfTopic": self._has_ended}))
        else:
            self._left = min(self._left + 1, self._options.window)

    @property
    def _credit(self) -> int:
        return self._left

    def _sort(self, source: TopicConsumer, opened: OpenedEntry) -> None:
        after = source.begins_after
        for message in opened.messages:
            if after is None or not after.excludes(message.entry.ledger_id, message.entry.entry_id, message.place):
                self._inlet.put(message)

    def _sent(self, source: TopicConsumer, message: ReceivedMessage) -> None:
        self._left -= 1
        entry = message.entry
        if message.place + 1 >= message.batch_size:
            self._read[entry.consumer_id] = pb.MessageIdData(ledgerId=entry.ledger_id, entryId=entry.entry_id)

    def _discard(self, source: TopicConsumer, entry: StoredEntry) -> None:
        """Does nothing, because the reader's position passes an unreadable entry with the next message."""

    def _settle(self) -> None:
        """Does nothing, because a reader acknowledges no messages."""

    def _lost(self, source: TopicConsumer) -> None:
        self._read.pop(source.consumer_id, None)

    def tick(self, now_s: float) -> None:
        """Tells the topics which messages were read, so that their stats are right."""
        super().tick(now_s)
        read, self._read = self._read, {}
        for consumer_id, message_id in read.items():
            source = self._sources.get(consumer_id)
            if source is not None:
                source.ack_to(message_id)
