"""Tells clients which topics of a namespace were created or deleted (PIP-145), with WATCH_TOPIC_UPDATE.

When the metadata store reports a change, the namespace's topics are listed once for all of its watchers. After changes
that are reported during the listing, the topics are listed once more.

Source: TopicListService.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from magnetar.metadata import paths
from magnetar.metadata.store import CancelWatch, MetadataStore, RecordEvent
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.namespaces.topic_list_rules import (
    TopicListChange,
    change_between,
    filter_by_pattern,
    without_scheme,
)
from magnetar.server.process.turns import Turns
from pulsar_proto.errors import NotAllowed, PulsarError
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic

log = logging.getLogger(__name__)

Tell = Callable[[TopicListChange], None]


class Watcher:
    """One client's watch of a namespace. `topics` is the list that the client knows."""

    __slots__ = ("is_told", "max_length", "namespace", "pattern", "tell", "topics")

    def __init__(self, namespace: str, pattern: str, max_length: int, tell: Tell) -> None:
        self.namespace = namespace
        self.pattern = without_scheme(pattern)
        """The pattern without its scheme. The limit `max_length` applies to the pattern without the scheme here, but
        with it in GET_TOPICS_OF_NAMESPACE."""
        self.max_length = max_length
        self.tell = tell
        self.topics: list[str] = []
        self.is_told = False
        """Whether the client has received its first list. Before that, changes are not sent to the client."""

    async def matching(self, topics: Sequence[str]) -> list[str]:
        """Returns the topics that match the pattern. Raises InvalidTopicName when the pattern is not a regular
        expression, and NotAllowed when the broker does not filter by this pattern."""
        if len(self.pattern) > self.max_length:
            raise NotAllowed(
                f"Unable to create topic list watcher: the pattern is longer than {self.max_length} characters"
            )
        matching = await Turns().run(filter_by_pattern(topics, self.pattern, self.max_length))
        if matching is None:
            raise NotAllowed("Unable to create topic list watcher: the broker does not evaluate this pattern")
        return matching


class _Watched:
    """A namespace that has watchers."""

    __slots__ = ("cancel", "changes", "dirty", "looking", "watchers")

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self.cancel: CancelWatch | None = None
        self.looking: asyncio.Task[None] | None = None
        self.dirty = False
        """Whether the topics have to be listed again."""
        self.changes = 0
        """How many changes the metadata store has reported."""


class TopicWatchers:
    """The watchers of all clients. One object serves the process. All calls are made on the loop's thread."""

    def __init__(self, catalog: TopicCatalog, metadata: MetadataStore) -> None:
        self._catalog = catalog
        self._metadata = metadata
        self._namespaces: dict[str, _Watched] = {}

    @property
    def count(self) -> int:
        return sum(len(each.watchers) for each in self._namespaces.values())

    async def add(self, watcher: Watcher) -> list[str]:
        """Adds a watcher and returns the topics that match now. Every later change is sent to the watcher's client.
        Raises PulsarError when the topics cannot be listed."""
        namespace = watcher.namespace
        await self._catalog.check_namespace(namespace)
        watched = self._namespaces.get(namespace)
        if watched is None:
            watched = self._namespaces[namespace] = _Watched()
            path = paths.topics_path(namespace)
            watched.cancel = self._metadata.watch(path, lambda event: self._event(namespace, event))
        watched.watchers.add(watcher)
        changes = watched.changes
        try:
            watcher.topics = await watcher.matching(await self._list(namespace))
        except BaseException:
            self.remove(watcher)
            raise
        watcher.is_told = True
        if watched.changes != changes:
            self._look_soon(namespace, watched)
        return watcher.topics

    def remove(self, watcher: Watcher) -> None:
        """Removes a watcher. Has no effect when the watcher was removed before."""
        watched = self._namespaces.get(watcher.namespace)
        if watched is None:
            return
        watched.watchers.discard(watcher)
        if watched.watchers:
            return
        del self._namespaces[watcher.namespace]
        if watched.cancel is not None:
            watched.cancel()
        if watched.looking is not None:
            watched.looking.cancel()

    async def _list(self, namespace: str) -> list[str]:
        topics = await self._catalog.topics_of(namespace)
        return [topic for topic in topics if not is_system_topic(TopicName.parse(topic))]

    def _event(self, namespace: str, event: RecordEvent) -> None:
        watched = self._namespaces.get(namespace)
        if watched is None:
            return
        watched.changes += 1
        self._look_soon(namespace, watched)

    def _look_soon(self, namespace: str, watched: _Watched) -> None:
        watched.dirty = True
        if watched.looking is None:
            watched.looking = asyncio.get_running_loop().create_task(self._look(namespace, watched))

    async def _look(self, namespace: str, watched: _Watched) -> None:
        try:
            while watched.dirty:
                watched.dirty = False
                topics = await self._list(namespace)
                for watcher in list(watched.watchers):
                    if watcher.is_told:
                        await self._compare(watcher, topics)
        except PulsarError as error:
            log.warning("%s: its topics cannot be listed for watchers, who poll: %s", namespace, error)
        finally:
            watched.looking = None

    async def _compare(self, watcher: Watcher, topics: Sequence[str]) -> None:
        try:
            matching = await watcher.matching(topics)
        except PulsarError as error:
            log.warning("%s: a watcher cannot be served any more, it polls: %s", watcher.namespace, error)
            self.remove(watcher)
            return
        watched = self._namespaces.get(watcher.namespace)
        if watched is None or watcher not in watched.watchers:
            return  # the watcher was removed meanwhile
        change = change_between(watcher.topics, matching)
        watcher.topics = matching
        if change is not None:
            watcher.tell(change)
