"""A subscription as its consumers see it, of a persistent topic or not."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from pulsar_proto.ids import Position
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb

if TYPE_CHECKING:
    from magnetar.server.topics.subscriptions.consumer import Consumer


class SubscriptionCursor(Protocol):
    """Where a subscription stands in the log. A managed ledger's `Cursor` is one."""

    @property
    def mark_delete(self) -> Position: ...

    @property
    def backlog(self) -> int: ...

    @property
    def durable(self) -> bool: ...

    async def persisted(self) -> None: ...


class ConsumerTopic(Protocol):
    @property
    def name(self) -> TopicName: ...

    async def last_message_id(self) -> tuple[Position, int]: ...

    async def last_message_id_compacted(
        self, asked: Position | None, cursor: SubscriptionCursor
    ) -> tuple[Position, int, Position]: ...


class ConsumerOwner(Protocol):
    @property
    def topic(self) -> ConsumerTopic: ...

    @property
    def cursor(self) -> SubscriptionCursor: ...

    @property
    def type_name(self) -> str: ...

    def consumer_may_take(self, consumer: "Consumer") -> None:
        """It got permits, or its connection takes bytes again."""

    def ack_cumulative(self, consumer: "Consumer", message_id: pb.MessageIdData) -> None: ...

    def ack_individual(self, consumer: "Consumer", message_ids: Sequence[pb.MessageIdData]) -> None: ...

    def redeliver(self, consumer: "Consumer", message_ids: Sequence[pb.MessageIdData]) -> None: ...

    def remove_consumer(self, consumer: "Consumer") -> None:
        """It is closed. Idempotent."""

    async def unsubscribe(self, consumer: "Consumer", force: bool) -> None:
        """Raises PulsarError."""

    async def seek(self, command: pb.CommandSeek) -> None:
        """Raises PulsarError."""
