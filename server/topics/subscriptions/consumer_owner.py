"""A subscription as its consumers see it, in either domain."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.consumer import Consumer


class SubscriptionCursor(Protocol):
    """The position of a subscription in the log. A managed ledger's `Cursor` implements this."""

    @property
    def mark_delete(self) -> Position: ...

    @property
    def backlog(self) -> int: ...

    @property
    def durable(self) -> bool: ...

    async def persisted(self) -> None: ...


class ConsumerTopic(Protocol):
    """A topic as the consumers of its subscriptions see it."""

    @property
    def name(self) -> TopicName: ...

    async def last_message_id(self) -> tuple[Position, int]:
        """Returns the last message and its last batch index; see `BaseTopic`."""

    async def last_message_id_compacted(
        self, asked: Position | None, cursor: SubscriptionCursor
    ) -> tuple[Position, int, Position]:
        """Does the work of `last_message_id` for a consumer with `read_compacted`. Also returns the mark-delete
        position as that consumer sees it."""


class ConsumerOwner(Protocol):
    """A subscription as its consumers see it. Consumers pass on the commands of their clients through these methods."""

    @property
    def topic(self) -> ConsumerTopic: ...

    @property
    def cursor(self) -> SubscriptionCursor: ...

    @property
    def type_name(self) -> str: ...

    def consumer_may_take(self, consumer: "Consumer") -> None:
        """Called when the consumer got permits or its connection became writable again."""

    def ack_cumulative(self, consumer: "Consumer", message_id: pb.MessageIdData) -> None: ...

    def ack_individual(self, consumer: "Consumer", message_ids: Sequence[pb.MessageIdData]) -> None: ...

    def redeliver(self, consumer: "Consumer", message_ids: Sequence[pb.MessageIdData]) -> None: ...

    def remove_consumer(self, consumer: "Consumer") -> None:
        """Called when the consumer is closed. Idempotent."""

    async def unsubscribe(self, consumer: "Consumer", force: bool) -> None:
        """Deletes the subscription. Raises PulsarError."""

    async def seek(self, command: pb.CommandSeek) -> None:
        """Moves the subscription to the position that the command asks for. Raises PulsarError."""
