"""One topic of a consumer's or reader's socket: its consumer there, and how it comes back when the topic closes it.

A topic that is unloaded, or moves its subscription, closes its consumers. Java's client inside Apache's WebSocket
service then subscribes again, with growing delays, and so does this. Source: ConsumerImpl.connectionFailed,
ConnectionHandler.reconnectLater.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from magnetar.server.security.operations import TopicOperation
from magnetar.server.topics.subscriptions.consumer import Consumer
from pulsar_proto.errors import (
    AuthorizationFault,
    IncompatibleSchema,
    NotAllowed,
    PulsarError,
    SubscriptionNotFound,
    TopicNotFound,
)
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.websocket.message_inlet import MessageInlet
    from magnetar.server.websocket.websocket_client import WebSocketClient

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 0.1
DELAY_SECONDS_MAX = 60.0
"""How long it waits before it subscribes again: as ClientConfigurationData's backoff intervals say."""

ENDS_IT = (TopicNotFound, SubscriptionNotFound, AuthorizationFault, NotAllowed, IncompatibleSchema)
"""What subscribing again does not cure."""


class BeginsAfter(NamedTuple):
    """A message of a topic."""

    ledger_id: int
    entry_id: int
    batch_index: int
    """A number beyond all batches when all of the entry comes before."""

    def excludes(self, ledger_id: int, entry_id: int, index: int) -> bool:
        """Returns whether a message is this one, or one before it."""
        return (ledger_id, entry_id, index) <= self


class TopicConsumer:
    """Every method is called on the event loop's thread."""

    def __init__(
        self,
        client: "WebSocketClient",
        inlet: "MessageInlet",
        name: TopicName,
        command: pb.CommandSubscribe,
        attached: Callable[["TopicConsumer"], None],
    ) -> None:
        """`command` is the SUBSCRIBE command of this consumer; `attached` is called when the consumer is attached
        again."""
        self.name = name
        self.command = command
        self.consumer: Consumer | None = None
        """None while it is not attached."""
        self.has_ended = False
        """Whether the topic is terminated and everything of it was acknowledged."""
        self._client = client
        self._inlet = inlet
        self._attached = attached
        self._is_left = False
        self._retry: asyncio.TimerHandle | None = None
        self._delay_s = FIRST_DELAY_SECONDS
        self.begins_after: BeginsAfter | None = None
        """The message after which the peer wants the topic's messages; None on durable subscriptions, which know by
        themselves where they stand."""

    @property
    def consumer_id(self) -> int:
        return self.command.consumer_id

    async def attach(self) -> None:
        """Subscribes. Raises PulsarError."""
        await self._client.authorize(TopicOperation.CONSUME, self.name, self.command.subscription)
        topic = await self._client.broker.service.get_for_client(self.name)
        consumer = await topic.subscribe(self._inlet, self.command)
        if self._is_left:
            consumer.close()
        else:
            self.consumer = consumer

    def detach(self) -> None:
        """Leaves the topic: what was not acknowledged goes to other consumers, or comes again. Idempotent."""
        self._is_left = True
        if self._retry is not None:
            self._retry.cancel()
        consumer, self.consumer = self.consumer, None
        if consumer is not None:
            consumer.close()

    def closed_by_topic(self) -> None:
        """The topic closed the consumer: it comes back."""
        self.consumer = None
        if not self._is_left:
            if self.begins_after is not None:
                ledger_id, entry_id, _ = self.begins_after
                self.command.start_message_id.CopyFrom(pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id))
            self._delay_s = FIRST_DELAY_SECONDS
            self._try_later()

    def grant(self, messages: int) -> None:
        """Allows the topic so many messages, together with those that it is allowed already."""
        consumer = self.consumer
        if consumer is not None and not consumer.blocked and 2 * consumer.permits < messages:
            consumer.flow(messages - consumer.permits)

    def ack(self, message_ids: Sequence[pb.MessageIdData]) -> None:
        """Acknowledges messages; what is acknowledged while the consumer is not attached comes again."""
        if self.consumer is not None:
            self.consumer.ack(pb.CommandAck(ack_type=pb.CommandAck.Individual, message_id=message_ids))

    def ack_to(self, message_id: pb.MessageIdData) -> None:
        """Acknowledges everything up to a message."""
        if self.consumer is not None:
            self.consumer.ack(pb.CommandAck(ack_type=pb.CommandAck.Cumulative, message_id=[message_id]))

    def redeliver(self, positions: Sequence[tuple[int, int]]) -> None:
        """Lets entries come again; on subscriptions that keep an order, everything that is not acknowledged."""
        if self.consumer is not None:
            ids = [pb.MessageIdData(ledgerId=ledger_id, entryId=entry_id) for ledger_id, entry_id in positions]
            self.consumer.redeliver(pb.CommandRedeliverUnacknowledgedMessages(message_ids=ids))

    async def unsubscribe(self) -> None:
        """Deletes the subscription. Raises PulsarError."""
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
        """Returns whether nothing is left to try."""
        if not self._client.is_open or self._is_left:
            return True
        try:
            await self.attach()
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
