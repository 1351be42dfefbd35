"""The consumer of a consumer's or reader's socket on one topic, and its reconnection when the topic closes it.

A topic that is unloaded, or moves its subscription, closes its consumers; a consumer at another broker also ends with
the connection to this broker. This class then subscribes again, with growing delays, at the topic's owner of that time,
as Java's client inside Apache's WebSocket service does. Source: ConsumerImpl.connectionFailed,
ConnectionHandler.reconnectLater.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.websocket.socket_topics import AttachedConsumer, SocketTopics
from pulsar_proto.errors import (
    AuthorizationFault,
    IncompatibleSchema,
    NotAllowed,
    PulsarError,
    ServiceNotReady,
    SubscriptionNotFound,
    TopicNotFound,
)
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.websocket.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 0.1
DELAY_SECONDS_MAX = 5.0
"""The first and the longest delay before the consumer subscribes again. In Java the longest delay is a minute
(ClientConfigurationData's backoff intervals); here it is short, because the topics of a killed broker have a new owner
after some seconds."""

OPEN_SECONDS_MAX = 10.0
"""How long a new consumer waits for a topic that is not ready, for example because it is moving to another broker."""
OPEN_PAUSE_SECONDS = 0.1

ENDS_IT = (TopicNotFound, SubscriptionNotFound, AuthorizationFault, NotAllowed, IncompatibleSchema)
"""Errors after which the consumer does not try to subscribe again, because the next attempt would fail in the same
way."""


class BeginsAfter(NamedTuple):
    """The message of a topic after which a consumer begins."""

    ledger_id: int
    entry_id: int
    batch_index: int
    """The message's index in its batch. When the consumer begins after the whole entry, this number is higher than any
    index."""

    def excludes(self, ledger_id: int, entry_id: int, index: int) -> bool:
        """Returns whether the given message is this message or an earlier message."""
        return (ledger_id, entry_id, index) <= self


class TopicConsumer:
    """The consumer of one topic. Every method is called on the event loop's thread."""

    def __init__(
        self,
        client: "WebSocketClient",
        topics: SocketTopics,
        name: TopicName,
        command: pb.CommandSubscribe,
        attached: Callable[["TopicConsumer"], None],
    ) -> None:
        """`command` is the SUBSCRIBE command of this consumer; `attached` is called when the consumer is attached
        again."""
        self.name = name
        self.command = command
        self.consumer: AttachedConsumer | None = None
        """The consumer on the topic; None while it is not attached."""
        self.has_ended = False
        """Whether the topic is terminated and all its messages were acknowledged."""
        self._client = client
        self._topics = topics
        self._attached = attached
        self._is_left = False
        self._retry: asyncio.TimerHandle | None = None
        self._delay_s = FIRST_DELAY_SECONDS
        self.begins_after: BeginsAfter | None = None
        """The message after which the peer wants the topic's messages; None on durable subscriptions, whose cursor
        knows the position."""

    @property
    def consumer_id(self) -> int:
        return self.command.consumer_id

    async def open(self) -> None:
        """Subscribes to the topic for the first time. Waits up to OPEN_SECONDS_MAX for a topic that is not ready.
        Raises PulsarError when the peer has no permission, or when the topic refuses the subscription."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + OPEN_SECONDS_MAX
        while True:
            try:
                await self._attach()
                return
            except ServiceNotReady:
                if self._is_left or not self._client.is_open or loop.time() >= deadline_s:
                    raise
            await asyncio.sleep(OPEN_PAUSE_SECONDS)

    async def _attach(self) -> None:
        consumer = await self._topics.subscribe(self.name, self.command)
        if self._is_left:
            consumer.close()
        else:
            self.consumer = consumer

    def detach(self) -> None:
        """Leaves the topic. Unacknowledged messages go to other consumers, or are delivered again. Further calls have
        no effect."""
        self._is_left = True
        if self._retry is not None:
            self._retry.cancel()
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            consumer.close()

    def closed_by_topic(self) -> None:
        """Called when the topic closed the consumer: begins to subscribe again."""
        self.consumer = None
        if not self._is_left:
            if self.begins_after is not None:
                ledger_id, entry_id, _ = self.begins_after
                self.command.start_message_id.CopyFrom(pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id))
            self._delay_s = FIRST_DELAY_SECONDS
            self._try_later()

    def grant(self, messages: int) -> None:
        """Gives permits to the topic, so that the topic may send `messages` messages in all. Earlier permits that the
        topic has not used are counted among them. The call has no effect while these unused permits are half of
        `messages` or more, and while the consumer is blocked."""
        consumer = self.consumer
        if consumer is not None and not consumer.blocked and 2 * consumer.permits < messages:
            consumer.flow(messages - consumer.permits)

    def ack(self, message_ids: Sequence[pb.MessageIdData]) -> None:
        """Acknowledges messages. Acknowledgements that come while the consumer is not attached are lost, so the topic
        delivers their messages again."""
        if self.consumer is not None:
            self.consumer.ack(pb.CommandAck(ack_type=pb.CommandAck.Individual, message_id=message_ids))

    def ack_to(self, message_id: pb.MessageIdData) -> None:
        """Acknowledges a message and all messages before it."""
        if self.consumer is not None:
            self.consumer.ack(pb.CommandAck(ack_type=pb.CommandAck.Cumulative, message_id=[message_id]))

    def redeliver(self, positions: Sequence[tuple[int, int]]) -> None:
        """Makes the topic deliver entries again. A subscription that keeps an order delivers all its unacknowledged
        entries again."""
        if self.consumer is not None:
            ids = [pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id) for ledger_id, entry_id in positions]
            self.consumer.redeliver(pb.CommandRedeliverUnacknowledgedMessages(message_ids=ids))

    async def unsubscribe(self) -> None:
        """Deletes the subscription. Raises PulsarError when the topic refuses that."""
        if self.consumer is not None:
            await self.consumer.unsubscribe()
            self.detach()

    def _try_later(self) -> None:
        self._retry = asyncio.get_running_loop().call_later(
            self._delay_s, lambda: self._client.broker.spawn(self._come_back())
        )
        self._delay_s = min(2 * self._delay_s, DELAY_SECONDS_MAX)

    async def _come_back(self) -> None:
        if not await self._try_to_come_back():
            self._try_later()

    async def _try_to_come_back(self) -> bool:
        """Tries to subscribe again. Returns True when no further try is needed."""
        if not self._client.is_open or self._is_left:
            return True
        try:
            await self._attach()
        except ENDS_IT as error:
            self._client.close(f"{self.name} cannot be consumed any more: {error}")
            return True
        except PulsarError as error:
            log.info("%s: %s cannot be consumed yet: %s", self._client.remote_address, self.name, error)
            return False
        except Exception:
            log.exception("%s: %s cannot be consumed", self._client.remote_address, self.name)
            return False
        if self.consumer is not None:
            self._attached(self)
        return True
