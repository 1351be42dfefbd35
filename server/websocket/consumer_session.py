"""The session of a consumer's socket, which sends the messages of one or several topics to the peer and passes the
peer's acknowledgements on to the topics.

Sources: ConsumerHandler, MultiTopicConsumerHandler; NegativeAcksTracker, UnAckedMessageTracker,
PatternMultiTopicsConsumerImpl.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterable, Mapping

import orjson

from magnetar.server.namespaces.topic_list_rules import TopicListChange
from magnetar.server.namespaces.topic_watchers import Watcher
from magnetar.server.websocket.consumer_command_rules import ConsumerCommand, Verb
from magnetar.server.websocket.consumer_query_rules import read_consumer_options
from magnetar.server.websocket.dead_letters import DeadLetters
from magnetar.server.websocket.delivery_window_rules import DeliveryWindow, EntryKey
from magnetar.server.websocket.received_messages import BATCH_MESSAGES_MAX, OpenedEntry, ReceivedMessage, StoredEntry
from magnetar.server.websocket.receiving_session import ReceivingSession
from magnetar.server.websocket.topic_consumer import TopicConsumer
from magnetar.server.websocket.websocket_client import WebSocketClient
from magnetar.server.websocket.websocket_path_rules import QueryFault, SocketPath
from magnetar.storage.managed.ack_sets import words_of_mask
from pulsar_proto.errors import InvalidTopicName, PulsarError
from pulsar_proto.names import NamespaceName, TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

log = logging.getLogger(__name__)

NACKS_MAX = 10_000
"""How many negative acknowledgements may wait for their delay. When one more comes, the message of the oldest negative
acknowledgement is delivered again at once."""

LEDGERS_MAX = 10_000
"""How many ledgers the session remembers together with the topic that each ledger belongs to."""


class ConsumerSession(ReceivingSession):
    """The session of one consumer's socket. Implements `magnetar.server.websocket.session.Session`."""

    def __init__(self, client: WebSocketClient, path: SocketPath, query: Mapping[str, str]) -> None:
        """Reads the consumer's options from the query. Raises QueryFault for a parameter that makes no sense."""
        self._options = options = read_consumer_options(query)
        super().__init__(client, options.crypto_failure_action)
        self._path = path
        self._name = options.name or secrets.token_hex(3)[:5]
        self._window = DeliveryWindow(options.window, pulls=options.pulls)
        self._acks: dict[int, dict[tuple[int, int], int]] = {}
        """The acknowledgements to be sent at the end of this turn of the event loop, by consumer id and entry. Each
        value holds, as bits, the messages of the entry that are still unacknowledged."""
        self._nacks: dict[EntryKey, float] = {}
        """The entries that are to be delivered again, each with the time of the event loop at which this happens. The
        earliest comes first."""
        self._nack_timer: asyncio.TimerHandle | None = None
        self._consumer_of_ledger: dict[int, int] = {}
        self._watcher: Watcher | None = (
            _watcher_of(path.pattern, client, self._topics_changed) if path.pattern else None
        )
        self._dead_letters: DeadLetters | None = None
        if options.max_redeliver_count and options.is_shared:
            self._dead_letters = DeadLetters(
                client,
                self._topics,
                path.subscription,
                options.dead_letter_topic,
                self._dead_letter_stored,
                self._dead_letter_failed,
            )

    async def open(self) -> None:
        if self._dead_letters is not None:
            await self._dead_letters.authorize(self._path.topics)
        if self._watcher is None:
            await self._consume(self._path.topics)
            return
        names = await self._client.broker.watchers.add(self._watcher)
        await self._attach([TopicName.parse(name) for name in names])

    def closed(self) -> None:
        super().closed()
        if self._watcher is not None:
            self._client.broker.watchers.remove(self._watcher)
        if self._nack_timer is not None:
            self._nack_timer.cancel()
        if self._dead_letters is not None:
            self._dead_letters.close()

    def _subscribe_command(self, topic: TopicName, consumer_id: int) -> pb.CommandSubscribe:
        options = self._options
        return pb.CommandSubscribe(
            topic=topic.full,
            subscription=self._path.subscription,
            subType=options.sub_type,
            consumer_id=consumer_id,
            request_id=0,
            consumer_name=self._name,
            priority_level=options.priority_level,
            durable=options.is_durable,
            initialPosition=pb.CommandSubscribe.Earliest if options.from_earliest else pb.CommandSubscribe.Latest,
        )

    # --- what the peer says ------------------------------------------------------------------------------------------

    def _obey(self, command: ConsumerCommand) -> None:
        if command.verb is Verb.ACK:
            self._ack(command)
        elif command.verb is Verb.NACK:
            self._nack(command)
        elif command.verb is Verb.PERMIT:
            self._window.permit(command.permits)
        elif command.verb is Verb.UNSUBSCRIBE:
            self._client.broker.spawn(self._unsubscribe())
        else:
            self._client.say(orjson.dumps({"endOfTopic": self._has_ended}))

    def _ack(self, command: ConsumerCommand) -> None:
        assert command.message_id is not None
        source = self._source_of(command.message_id)
        if source is None:
            log.info("%s: an acknowledgement of no topic here is ignored", self._client.remote_address)
            return
        key, index = _key_of(source, command.message_id)
        left = self._window.acked(key, index)
        if left is None:
            left = _left_of_batch(command.message_id.batch_size, index)
        if left == 0:
            self._nacks.pop(key, None)
        self._ack_entry(key, left)

    def _ack_entry(self, key: EntryKey, left: int) -> None:
        """Acknowledges an entry at the end of this turn of the event loop. `left` holds, as bits, the entry's messages
        that are still unacknowledged."""
        entries = self._acks.setdefault(key.consumer_id, {})
        entry = (key.ledger_id, key.entry_id)
        entries[entry] = left & entries.get(entry, left)
        if left == 0:
            entries.update(dict.fromkeys(self._chunks.parts(key), 0))
            self._chunks.forget(key)

    def _nack(self, command: ConsumerCommand) -> None:
        assert command.message_id is not None
        source = self._source_of(command.message_id)
        if source is None:
            return
        key, index = _key_of(source, command.message_id)
        self._window.nacked(key, index)
        self._come_again_later(key)

    def _come_again_later(self, key: EntryKey) -> None:
        if key in self._nacks:
            return
        if len(self._nacks) >= NACKS_MAX:
            oldest = next(iter(self._nacks))
            del self._nacks[oldest]
            self._redeliver([oldest])
        loop = asyncio.get_running_loop()
        self._nacks[key] = loop.time() + self._options.nack_delay_ms / 1000
        if self._nack_timer is None:
            self._nack_timer = loop.call_at(self._nacks[key], self._nacks_due)

    def _nacks_due(self) -> None:
        self._nack_timer = None
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        due = []
        for key, at_s in self._nacks.items():
            if at_s > now_s:
                self._nack_timer = loop.call_at(at_s, self._nacks_due)
                break
            due.append(key)
        for key in due:
            del self._nacks[key]
        self._redeliver(due)

    async def _unsubscribe(self) -> None:
        try:
            for source in list(self._sources.values()):
                await source.unsubscribe()
        except PulsarError as error:
            self._client.close(f"Failed to unsubscribe: {error}")

    def _source_of(self, message_id: pb.MessageIdData) -> TopicConsumer | None:
        """Returns the topic's consumer to which a message id belongs, or None when the topic is unknown. A message id
        does not name its topic, but each ledger belongs to one topic. If no message of the ledger came over this
        socket, the id's partition tells the topic."""
        if len(self._sources) == 1:
            return next(iter(self._sources.values()))
        known = self._sources.get(self._consumer_of_ledger.get(message_id.ledgerId, -1))
        if known is not None and (known.name.is_persistent or known.name.partition_index == message_id.partition):
            return known
        same = [each for each in self._sources.values() if each.name.partition_index == message_id.partition]
        return same[0] if len(same) == 1 else None

    # --- messages ----------------------------------------------------------------------------------------------------

    @property
    def _credit(self) -> int:
        return self._window.credit

    def _sort(self, source: TopicConsumer, opened: OpenedEntry) -> None:
        letters = self._dead_letters
        for message in opened.messages:
            entry = message.entry
            if message.batch_size and source.name.is_persistent:
                key = EntryKey(entry.consumer_id, entry.ledger_id, entry.entry_id)
                if self._window.is_acked(key, message.place):
                    continue
            begins_after = source.begins_after
            if begins_after is not None and begins_after.excludes(entry.ledger_id, entry.entry_id, message.place):
                continue
            if letters is not None and entry.redelivery_count > self._options.max_redeliver_count:
                letters.add(source.name, message)
            else:
                self._inlet.put(message)

    def _sent(self, source: TopicConsumer, message: ReceivedMessage) -> None:
        entry = message.entry
        key = EntryKey(entry.consumer_id, entry.ledger_id, entry.entry_id)
        now_s = asyncio.get_running_loop().time()
        shares_id = not source.name.is_persistent
        self._window.sent(key, message.place, message.messages_of_entry, now_s, shares_id=shares_id)
        if len(self._sources) > 1 and entry.ledger_id not in self._consumer_of_ledger:
            if len(self._consumer_of_ledger) >= LEDGERS_MAX:
                del self._consumer_of_ledger[next(iter(self._consumer_of_ledger))]
            self._consumer_of_ledger[entry.ledger_id] = source.consumer_id

    def _discard(self, source: TopicConsumer, entry: StoredEntry) -> None:
        self._ack_entry(EntryKey(source.consumer_id, entry.ledger_id, entry.entry_id), 0)

    def _lost(self, source: TopicConsumer) -> None:
        self._window.come_again(source.consumer_id)
        for key in [key for key in self._nacks if key.consumer_id == source.consumer_id]:
            del self._nacks[key]

    def _settle(self) -> None:
        acks, self._acks = self._acks, {}
        for consumer_id, entries in acks.items():
            source = self._sources.get(consumer_id)
            if source is not None:
                source.ack(
                    [
                        pb.MessageIdData(
                            ledgerId=ledger_id, entryId=entry_id, ack_set=words_of_mask(left) if left else None
                        )
                        for (ledger_id, entry_id), left in entries.items()
                    ]
                )

    def tick(self, now_s: float) -> None:
        super().tick(now_s)
        if self._options.ack_timeout_ms:
            self._redeliver(self._window.timed_out(now_s - self._options.ack_timeout_ms / 1000))

    def _redeliver(self, keys: Iterable[EntryKey]) -> None:
        """Makes the topics deliver entries again now. A subscription that keeps an order delivers all its
        unacknowledged entries again."""
        positions: dict[int, list[tuple[int, int]]] = {}
        for key in keys:
            entries = positions.setdefault(key.consumer_id, [])
            entries += [*self._chunks.parts(key), (key.ledger_id, key.entry_id)]
        if positions:
            self._settle()
        for consumer_id, entries in positions.items():
            source = self._sources.get(consumer_id)
            if source is None:
                continue
            if self._options.is_shared:
                source.redeliver(entries)
            else:
                self._forget(source)
                source.redeliver(())
        self._pump_soon()

    # --- dead letters ------------------------------------------------------------------------------------------------

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        if self._dead_letters is None or not self._dead_letters.on_command(command):
            super().on_command(command, payload)

    def _dead_letter_stored(self, message: ReceivedMessage) -> None:
        """Called when a message was stored in the dead letter topic: acknowledges the message in its own topic."""
        entry = message.entry
        key = EntryKey(entry.consumer_id, entry.ledger_id, entry.entry_id)
        left = self._window.settled(key, message.place, message.messages_of_entry)
        self._ack_entry(key, left)
        self._pump_soon()

    def _dead_letter_failed(self, message: ReceivedMessage) -> None:
        entry = message.entry
        self._come_again_later(EntryKey(entry.consumer_id, entry.ledger_id, entry.entry_id))

    # --- patterns ----------------------------------------------------------------------------------------------------

    def _topics_changed(self, change: TopicListChange) -> None:
        if self._is_closed:
            return
        gone = set(change.deleted)
        for source in [each for each in self._sources.values() if each.name.full in gone]:
            self._remove(source)
        self._client.broker.spawn(self._consume_new([TopicName.parse(name) for name in change.new]))

    async def _consume_new(self, names: list[TopicName]) -> None:
        for name in names:
            try:
                await self._attach([name])
            except PulsarError as error:
                log.warning("%s: %s is not consumed: %s", self._client.remote_address, name, error)
                for source in [each for each in self._sources.values() if each.name == name]:
                    self._remove(source)


def _key_of(source: TopicConsumer, message_id: pb.MessageIdData) -> tuple[EntryKey, int | None]:
    """Returns the entry that a message id names, and the message's index in its batch; the index is None for the whole
    entry."""
    index = message_id.batch_index
    within = 0 <= index < BATCH_MESSAGES_MAX
    return EntryKey(source.consumer_id, message_id.ledgerId, message_id.entryId), index if within else None


def _left_of_batch(size: int, index: int | None) -> int:
    """Returns all messages of a batch but the one at `index`, as bits. Returns 0, by which the whole entry is
    acknowledged, when `index` is None or is not an index of a batch of `size` messages."""
    if index is None or not index < size <= BATCH_MESSAGES_MAX:
        return 0
    return ((1 << size) - 1) & ~(1 << index)


def _watcher_of(pattern: str, client: WebSocketClient, tell: Callable[[TopicListChange], None]) -> Watcher:
    """Returns a watcher of the topics that match `pattern`. A pattern without a slash is for topics of public/default.
    Raises QueryFault for any other pattern that does not name a valid namespace."""
    parts = pattern.partition("://")[2] or pattern
    names = parts.split("/", 2)
    tenant_and_namespace = "/".join(names[:2]) if len(names) == 3 else "public/default"
    if len(names) == 2:
        raise QueryFault(f"Invalid topicsPattern: {pattern[:100]!r} does not name tenant, namespace and topics")
    try:
        namespace = NamespaceName.parse(tenant_and_namespace)
    except InvalidTopicName as error:
        raise QueryFault(f"Invalid topicsPattern: {error}") from None
    if len(names) == 1:
        pattern = f"persistent://public/default/{parts}"
    return Watcher(str(namespace), pattern, client.broker.limits.subscription_pattern_max_length, tell)
