"""The interfaces that consumers use: their subscription, its cursor and its topic, persistent or non-persistent."""

from asyncio import Future
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Protocol

from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.plain_ack import Ack, AcksInTransaction

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.consumer import Consumer


class SubscriptionCursor(Protocol):
    """The interface of the cursor of a subscription. A managed ledger's `Cursor` implements it."""

    @property
    def mark_delete(self) -> Position: ...

    @property
    def backlog(self) -> int: ...

    @property
    def durable(self) -> bool: ...

    async def persisted(self) -> None: ...


class ConsumerTopic(Protocol):
    """The consumers of a topic's subscriptions use the topic through this interface."""

    @property
    def name(self) -> TopicName: ...

    async def last_message_id(self) -> tuple[Position, int]:
        """Returns (position of the last message, batch index of the last message); see `BaseTopic.last_message_id`."""

    async def last_message_id_compacted(
        self, asked: Position | None, cursor: SubscriptionCursor
    ) -> tuple[Position, int, Position]:
        """Returns the result of `last_message_id` as a consumer with `read_compacted` sees the topic, followed by the
        mark-delete position as that consumer sees the cursor."""


class ConsumerOwner(Protocol):
    """The consumers of a subscription use the subscription through this interface: they pass on the commands of their
    clients."""

    @property
    def topic(self) -> ConsumerTopic: ...

    @property
    def cursor(self) -> SubscriptionCursor: ...

    @property
    def type_name(self) -> str: ...

    def consumer_may_take(self, consumer: "Consumer") -> None:
        """Called when the consumer got permits, or when the consumer's connection became writable again: sends messages
        that wait."""

    def ack_cumulative(self, consumer: "Consumer", message_id: pb.MessageIdData) -> None: ...

    def ack_individual(self, consumer: "Consumer", acks: list[Ack]) -> None: ...

    def ack_in_transaction(self, consumer: "Consumer", command: pb.CommandAck) -> Awaitable[None]:
        """Applies an ACK of a transaction. The result ends when the acknowledgement is durable. The call and the result
        may raise PulsarError; then nothing is acknowledged."""

    def ack_together(self, consumer: "Consumer", acks: AcksInTransaction) -> "Future[None] | None":
        """See `Consumer.ack_in_transaction`."""

    def redeliver(self, consumer: "Consumer", message_ids: Sequence[pb.MessageIdData]) -> None: ...

    def remove_consumer(self, consumer: "Consumer") -> None:
        """Called when the consumer is closed: detaches the consumer. Idempotent."""

    async def unsubscribe(self, consumer: "Consumer", force: bool) -> None:
        """Deletes the subscription. Raises PulsarError when the subscription cannot be deleted."""

    async def seek(self, command: pb.CommandSeek) -> None:
        """Moves the subscription to the position that the command asks for. Raises PulsarError when the subscription
        cannot be moved."""
