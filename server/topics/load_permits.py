"""The permits of topics that are being loaded. They limit how many topics are loaded at the same time; further topics
wait in the order in which they came.

A broker that takes over many topics at once would otherwise ask the metadata store and the bookies for all of them
together. Source: BrokerService.loadOrCreatePersistentTopic, createPendingLoadTopic (topicLoadRequestSemaphore,
pendingTopicLoadingQueue).
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from magnetar.server.config.topic_settings import TopicSettings
from pulsar_proto.errors import ServiceNotReady, TopicNotFound
from pulsar_proto.latency_summary import LatencySummary
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic


class LoadUnderWay:
    """How far the loading of one topic is."""

    __slots__ = ("began_s", "has_permit")

    def __init__(self, began_s: float) -> None:
        self.began_s = began_s
        """When the load began, by the loop's clock."""
        self.has_permit = False
        """False while the topic waits for a permit, True while the topic is being opened."""


class LoadPermits:
    """The permits of one broker. There are `max_concurrent_topic_load_request` of them, which may change at any
    time."""

    def __init__(self, settings: TopicSettings) -> None:
        self._settings = settings
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False
        self.held = 0
        """How many topics are being loaded with a permit."""
        self.under_way: dict[str, LoadUnderWay] = {}
        """Full name -> how far the loading of the topic is, for the topics that are being loaded."""
        self.load_times = LatencySummary()
        """How long the loads took that succeeded, without the wait for a permit."""
        self.loads_failed = 0
        """How many loads failed. Asking for a topic that does not exist is no failure."""

    @asynccontextmanager
    async def one(self, name: TopicName) -> AsyncIterator[None]:
        """Holds a permit while the topic is loaded. The topic waits for its permit behind the topics that came earlier.
        Raises ServiceNotReady for a topic that waits when the broker stops.

        System topics need no permit, because the load of another topic waits for a system topic (`__change_events`)
        while it holds a permit itself."""
        progress = self.under_way[name.full] = LoadUnderWay(asyncio.get_running_loop().time())
        try:
            if is_system_topic(name):
                progress.has_permit = True
                with self._measured():
                    yield
                return
            await self._take()
            progress.has_permit = True
            try:
                with self._measured():
                    yield
            finally:
                self.held -= 1
                self.settings_changed()
        finally:
            del self.under_way[name.full]

    @contextmanager
    def _measured(self) -> Iterator[None]:
        began_s = time.monotonic()
        try:
            yield
        except TopicNotFound:
            raise
        except Exception:
            self.loads_failed += 1
            raise
        self.load_times.add(time.monotonic() - began_s)

    async def _take(self) -> None:
        if not self._waiting and self._has_room():
            self.held += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the permit was given, and nobody is there to hold it
                self.held -= 1
                self.settings_changed()
            raise
        if self._is_closed:
            self.held -= 1
            raise ServiceNotReady("The broker is shutting down")

    def settings_changed(self) -> None:
        """Gives the free permits to the topics that have waited longest. Called also after the number of permits has
        changed."""
        while self._waiting and (self._has_room() or self._is_closed):
            turn = self._waiting.popleft()
            if not turn.done():
                self.held += 1
                turn.set_result(None)

    def close(self) -> None:
        """Ends the wait of all topics that wait for permits. Called when the broker stops."""
        self._is_closed = True
        self.settings_changed()

    def _has_room(self) -> bool:
        return self.held < self._settings.max_concurrent_topic_load_request
