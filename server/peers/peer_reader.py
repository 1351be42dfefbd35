"""A reader of a topic that may be owned by any broker: messages come in order, each of them once, even when the owner
changes. On the broker a reader is a subscription that lasts as long as its connection."""

import asyncio
import logging
import random
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.peers.attachment import Attachment
from magnetar.server.peers.entry_messages_rules import PeerMessage, message_count, messages_of
from magnetar.server.peers.peer_errors import PeerError, PeerTimeoutError, PeerUnreachableError
from magnetar.server.peers.peer_link import PeerLink
from magnetar.server.peers.read_window_rules import LATEST, MessagePlace, ReadWindow, place_of, wire_id
from pulsar_proto.errors import MalformedFrame, PulsarError
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import simple_frame

if TYPE_CHECKING:
    from magnetar.server.peers.peer_client import PeerClient

log = logging.getLogger(__name__)

READ_SECONDS = 30.0
ON_LOOP_BYTES = 64 << 10
"""The size in bytes up to which an entry is decoded on the loop's thread. A longer entry is decoded on another
thread."""
Type = pb.BaseCommand


class _Entry(NamedTuple):
    place: MessagePlace
    payload: bytes
    messages: int


class PeerReader(Attachment):
    """One reader. `PeerClient.reader` makes a PeerReader. Only one task may read at a time."""

    def __init__(
        self,
        client: "PeerClient",
        topic: TopicName,
        rng: random.Random,
        *,
        start: MessagePlace,
        read_compacted: bool,
        subscription_prefix: str,
        creates_topic: bool,
    ) -> None:
        super().__init__(client, topic, rng)
        self._window = ReadWindow(start)
        self._read_compacted = read_compacted
        self._prefix = subscription_prefix
        self._creates_topic = creates_topic
        self._entries: deque[_Entry] = deque()
        """Entries that were received and are not decoded yet. Their number is limited by the permits that the reader
        gives to the broker."""
        self._waiting = 0
        """The number of messages in `_entries` and `_messages` together."""
        self._messages: deque[PeerMessage] = deque()
        self._arrived = asyncio.Event()

    # --- reading -----------------------------------------------------------------------------------------------------

    async def read(self, deadline_seconds: float = READ_SECONDS) -> PeerMessage:
        """Returns the next message. Raises PeerTimeoutError when no message comes in time, the PulsarError after which
        the reader gave up, and PeerUnreachableError when the reader is closed."""
        try:
            async with asyncio.timeout(deadline_seconds):
                while not self._messages:
                    await self._fill()
        except TimeoutError:
            raise PeerTimeoutError(f"{self.topic}: no message within {deadline_seconds:g} s") from None
        message = self._messages.popleft()
        self._waiting = max(0, self._waiting - 1)
        self._give_permits()
        return message

    @property
    def has_received(self) -> bool:
        """Whether there are received messages that `read` has not returned. `read` then returns without waiting for the
        broker, unless all of them are duplicates after a reconnect or cannot be decoded."""
        return bool(self._messages or self._entries)

    def is_behind(self, place: MessagePlace) -> bool:
        """Returns whether all existing messages up to `place` were read."""
        return not self._messages and self._window.is_at_end(place)

    async def is_at_end(self, deadline_seconds: float = READ_SECONDS) -> bool:
        """Returns whether all messages that the topic has now were read. Asks the broker for the topic's last message
        (hasMessageAvailable). Raises PeerTimeoutError when no answer comes in time, and the errors of `read`."""
        if self._messages:
            return False
        try:
            async with asyncio.timeout(deadline_seconds):
                last = await self.last_place()
        except TimeoutError:
            raise PeerTimeoutError(f"{self.topic}: no answer within {deadline_seconds:g} s") from None
        return not self._messages and self._window.is_at_end(last)

    async def last_place(self) -> MessagePlace:
        """Returns the place of the topic's last message, with entry -1 when the topic has no message. Waits until the
        reader is attached, so the caller sets a deadline. Raises PulsarError when the reader gave up, and
        PeerUnreachableError when the reader is closed."""
        while True:
            await self.attached(READ_SECONDS)
            link, handler_id = self._link, self._handler_id
            if self._is_closed:
                raise PeerUnreachableError(f"{self.topic}: the reader was closed")
            if link is None:
                continue
            try:
                return await self._last_place(link, handler_id)
            except (PulsarError, PeerError):
                if self._link is link:
                    raise  # else the broker was lost meanwhile, and the next broker is asked

    async def _last_place(self, link: PeerLink, handler_id: int) -> MessagePlace:
        ask = pb.CommandGetLastMessageId(consumer_id=handler_id)
        command = pb.BaseCommand(type=Type.GET_LAST_MESSAGE_ID, getLastMessageId=ask)
        answer = await self._client.request(link, command, "getLastMessageId")
        return place_of(answer.getLastMessageIdResponse.last_message_id)

    async def _fill(self) -> None:
        """Waits for the next entry and decodes it. An entry that cannot be decoded is logged and skipped, because no
        other reader could read it either."""
        while not self._entries:
            self._raise_failure()
            if self._is_closed:
                raise PeerUnreachableError(f"{self.topic}: the reader was closed")
            self._arrived.clear()
            await self._arrived.wait()
        entry = self._entries.popleft()
        try:
            if len(entry.payload) > ON_LOOP_BYTES:
                messages = await asyncio.to_thread(messages_of, entry.place, entry.payload)
            else:
                messages = messages_of(entry.place, entry.payload)
        except MalformedFrame as error:
            log.warning("%s: passed over an entry: %s", self.topic, error)
            messages = []
        except BaseException:
            self._entries.appendleft(entry)
            raise
        new = [message for message in messages if self._window.take(message.place)]
        self._window.passed(entry.place)
        self._waiting = max(0, self._waiting - entry.messages + len(new))
        self._messages.extend(new)
        self._give_permits()

    def _give_permits(self) -> None:
        more = self._window.more_permits(self._waiting)
        if more and self._link is not None:
            self._link.send(_flow(self._handler_id, more))

    # --- Attachment --------------------------------------------------------------------------------------------------

    def _take_handler_id(self, link: PeerLink) -> int:
        return link.attach_consumer(self)

    async def _attach(self, link: PeerLink, handler_id: int) -> None:
        subscribe = pb.CommandSubscribe(
            topic=self.topic.full,
            # A new name for each attempt: the broker may not have noticed yet that the last connection is gone.
            subscription=f"{self._prefix}-{self._rng.getrandbits(40):010x}",
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=handler_id,
            durable=False,
            start_message_id=wire_id(self._window.start),
            read_compacted=self._read_compacted,
            initialPosition=pb.CommandSubscribe.Earliest,
            force_topic_creation=self._creates_topic,
        )
        await self._client.request(link, pb.BaseCommand(type=Type.SUBSCRIBE, subscribe=subscribe), "subscribe")
        if self._window.start == LATEST:
            self._window.resolved(await self._last_place(link, handler_id))
        if not self._is_lost:
            link.send(_flow(handler_id, self._window.attached(self._waiting)))

    def _detached(self) -> None:
        self._window.detached()

    def _failed(self) -> None:
        self._arrived.set()

    async def close(self) -> None:
        """Closes the reader. A task that is reading gets PeerUnreachableError."""
        self._window.closed()
        await super().close()
        self._arrived.set()

    def _close_frame(self, handler_id: int) -> bytes:
        close = pb.CommandCloseConsumer(consumer_id=handler_id, request_id=self._client.unawaited_request_id())
        return simple_frame(pb.BaseCommand(type=Type.CLOSE_CONSUMER, close_consumer=close))

    # --- what the broker sends ---------------------------------------------------------------------------------------

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        if command.type == Type.CLOSE_CONSUMER:
            self._last_error = "the broker closed the reader"
            self._leave()
        elif command.type == Type.MESSAGE and payload is not None:
            place = place_of(command.message.message_id)
            try:
                messages = message_count(payload)
            except MalformedFrame:
                messages = 1  # `_fill` reports the fault of this entry
            if self._window.received(place, messages):
                self._entries.append(_Entry(MessagePlace(place.ledger_id, place.entry_id), payload, messages))
                self._waiting += messages
                self._arrived.set()
            self._give_permits()


def _flow(consumer_id: int, permits: int) -> bytes:
    flow = pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits)
    return simple_frame(pb.BaseCommand(type=Type.FLOW, flow=flow))
