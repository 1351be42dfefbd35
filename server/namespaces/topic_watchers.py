"""Tells clients which topics of a namespace were created or deleted (PIP-145), with WATCH_TOPIC_UPDATE.

The metadata store reports each topic that is created or deleted, and the watchers whose patterns match hear of it. The
namespace's topics are listed only for a new watcher, and when changes may have been missed: while a watcher got its
first list, or while the connection to the store was lost. So the cost of a change does not grow with the namespace.

Source: TopicListService.
"""

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence

from magnetar.metadata import paths
from magnetar.metadata.long_lists import sorted_in_portions
from magnetar.metadata.store import CancelWatch, EventType, MetadataStore, RecordEvent
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.namespaces.topic_list_rules import (
    TopicListChange,
    difference,
    digest_of,
    filter_by_pattern,
    without_scheme,
)
from magnetar.server.process.turns import Turns, in_slices
from pulsar_proto.errors import NotAllowed, PulsarError
from pulsar_proto.names import PERSISTENT, decode_local
from pulsar_proto.system_topics import is_system_name

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

    async def listed(self, topics: Sequence[str]) -> TopicListChange | None:
        """Takes the whole list of topics. Returns how the client's list changes, or None when it stays as it is. Raises
        the errors of `matching`."""
        matching = await self.matching(topics)
        new, deleted = await Turns().run(difference(self.topics, matching))
        return await self._became(matching, new, deleted)

    async def heard(self, changed: Mapping[str, bool]) -> TopicListChange | None:
        """Takes topics that were created (True) or deleted (False) and that the client may know already. Returns how
        the client's list changes, or None when it stays as it is. Raises the errors of `matching`."""
        new = await self.matching(sorted(name for name, exists in changed.items() if exists))
        new = [name for name in new if not self._knows(name)]
        deleted = sorted(name for name, exists in changed.items() if not exists and self._knows(name))
        gone = set(deleted)
        kept: list[str] = []
        async for some in in_slices(self.topics if new or gone else ()):
            kept += [name for name in some if name not in gone] if gone else some
        return await self._became(await sorted_in_portions(kept + new), new, deleted)

    async def _became(self, topics: list[str], new: list[str], deleted: list[str]) -> TopicListChange | None:
        if not new and not deleted:
            return None
        self.topics = topics
        return TopicListChange(new, deleted, (await Turns().run(digest_of(topics))).topics_hash)

    def _knows(self, name: str) -> bool:
        at = bisect_left(self.topics, name)
        return at < len(self.topics) and self.topics[at] == name


class _Watched:
    """A namespace that has watchers."""

    __slots__ = ("cancel", "changed", "changes", "list_again", "looking", "watchers")

    def __init__(self) -> None:
        self.watchers: set[Watcher] = set()
        self.cancel: CancelWatch | None = None
        self.looking: asyncio.Task[None] | None = None
        self.list_again = False
        """Whether the topics have to be listed, because changes may have been missed."""
        self.changed: dict[str, bool] = {}
        """Topics that were created or deleted since the watchers were told last, and whether each of them exists."""
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
            watched.cancel = self._metadata.watch(path, lambda event: self._event(namespace, event), recursive=True)
        watched.watchers.add(watcher)
        changes = watched.changes
        try:
            watcher.topics = await watcher.matching(await self._list(namespace))
        except BaseException:
            self.remove(watcher)
            raise
        watcher.is_told = True
        if watched.changes != changes:
            watched.list_again = True
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
        found: list[str] = []
        async for some in in_slices(await self._catalog.topics_of(namespace)):
            found += [topic for topic in some if not is_system_name(topic)]
        return found

    def _event(self, namespace: str, event: RecordEvent) -> None:
        watched = self._namespaces.get(namespace)
        if watched is None or event.type is EventType.CHILDREN_CHANGED:
            return  # the children's own events are reported, too
        topics_path = paths.topics_path(namespace)
        if event.path == topics_path:
            watched.list_again = True
        else:
            child = event.path[len(topics_path) + 1 :]
            if "/" in child or event.type is EventType.CHANGED:
                return  # a subscription, or another ledger of a topic
            name = f"{PERSISTENT}://{namespace}/{decode_local(child)}"
            if is_system_name(name):
                return
            watched.changed[name] = event.type is EventType.CREATED
        watched.changes += 1
        self._look_soon(namespace, watched)

    def _look_soon(self, namespace: str, watched: _Watched) -> None:
        if watched.looking is None:
            watched.looking = asyncio.get_running_loop().create_task(self._look(namespace, watched))

    async def _look(self, namespace: str, watched: _Watched) -> None:
        try:
            while watched.list_again or watched.changed:
                if watched.list_again:
                    watched.list_again = False
                    topics = await self._list(namespace)
                    await self._for_each(watched, lambda watcher: watcher.listed(topics))  # noqa: B023
                else:
                    changed, watched.changed = watched.changed, {}
                    await self._for_each(watched, lambda watcher: watcher.heard(changed))  # noqa: B023
        except PulsarError as error:
            watched.list_again = True  # the next change makes the topics be listed again
            log.warning("%s: its topics cannot be listed for watchers, who poll: %s", namespace, error)
        finally:
            watched.looking = None

    async def _for_each(
        self, watched: _Watched, change_for: Callable[[Watcher], Awaitable[TopicListChange | None]]
    ) -> None:
        """Brings the list of each watcher up to date, and tells the watchers whose lists change."""
        for watcher in list(watched.watchers):
            if not watcher.is_told:
                continue
            try:
                change = await change_for(watcher)
            except PulsarError as error:
                log.warning("%s: a watcher cannot be served any more, it polls: %s", watcher.namespace, error)
                self.remove(watcher)
                continue
            if change is not None and watcher in watched.watchers:
                watcher.tell(change)
