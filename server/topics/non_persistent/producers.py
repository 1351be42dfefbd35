"""The producers of a non-persistent topic, and what stands in for the log that other producers append to."""

from collections.abc import Callable, Mapping

from magnetar.server.topics.publishing.producer import PublishGroup
from magnetar.server.topics.publishing.producers_topic import ProducersTopic
from magnetar.server.topics.publishing.topic_producers import TopicProducers
from magnetar.storage.managed.append_queue import AddDone, AddResult
from pulsar_proto.ids import Position

NO_POSITION = Position(0, 0)
"""The id of every message."""


class NoLog:
    """Stands in for the log that the producers of a persistent topic append to. Keeps the epoch of exclusive producers
    as long as the topic is loaded."""

    metadata_is_away = False
    """Always False, because no metadata is needed."""

    def __init__(self) -> None:
        self.properties: Mapping[str, str] = {}

    def add_entries(self, payloads: list[bytes], done: AddDone) -> None:
        """Never called, because `NonPersistentProducers` gives its messages to the subscriptions."""
        done(AddResult([], None))

    async def set_properties(self, updates: Mapping[str, str | None]) -> None:
        merged = {**self.properties, **updates}
        self.properties = {key: value for key, value in merged.items() if value is not None}

    async def open_ledger(self) -> None:
        """Always succeeds, because there is no storage that could be down."""


class NonPersistentProducers(TopicProducers):
    """The producers of a non-persistent topic: each group of SENDs goes to the subscriptions instead of a log."""

    def __init__(
        self,
        topic_name: str,
        owner: ProducersTopic,
        new_name: Callable[[], str],
        send: Callable[[list[bytes]], None],
    ) -> None:
        """`send` gives payloads to the subscriptions."""
        super().__init__(topic_name, owner, NoLog(), new_name)
        self._send = send

    def publish(self, group: PublishGroup, payloads: list[bytes]) -> None:
        self.began(group)
        self._send(payloads)
        group.delivered(NO_POSITION)
