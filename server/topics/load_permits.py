"""The permits of topics that are being loaded. They limit how many topics are loaded at the same time; further topics
wait in the order in which they came.

A broker that takes over many topics at once would otherwise ask the metadata store and the bookies for all of them
together. Source: BrokerService.loadOrCreatePersistentTopic, createPendingLoadTopic (topicLoadRequestSemaphore,
pendingTopicLoadingQueue).
"""

import asyncio
import time
from collections import deque
from types import TracebackType

from magnetar.server.config.topic_settings import TopicSettings
from pulsar_proto.errors import ServiceNotReady, TopicNotFound
from pulsar_proto.latency_summary import LatencySummary
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic


class LoadUnderWay:
    """How far the loading of one topic is. The topic is loaded in a block of `async with`, which has the permit."""

    __slots__ = ("_name", "_opened_s", "_permits", "began_s", "has_permit")

    def __init__(self, permits: "LoadPermits", name: TopicName) -> None:
        self._permits = permits
        self._name = name
        self._opened_s = 0.0
        self.began_s = asyncio.get_running_loop().time()
        """When the load began, by the loop's clock."""
        self.has_permit = False
        """False while the topic waits for a permit, True while the topic is being opened."""

    async def __aenter__(self) -> None:
        """Waits for the permit. Raises ServiceNotReady when the broker stops meanwhile."""
        permits, full = self._permits, self._name.full
        permits.under_way[full] = self
        if not is_system_topic(self._name):
            try:
                await permits.take()
            except BaseException:
                del permits.under_way[full]
                raise
        self.has_permit = True
        self._opened_s = time.monotonic()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        permits = self._permits
        if error is None:
            permits.load_times.add(time.monotonic() - self._opened_s)
        elif isinstance(error, Exception) and not isinstance(error, TopicNotFound):
            permits.loads_failed += 1
        if not is_system_topic(self._name):
            permits.give_back()
        del permits.under_way[self._name.full]


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

    def one(self, name: TopicName) -> LoadUnderWay:
        """Holds a permit while the topic is loaded. The topic waits for its permit behind the topics that came earlier.
        Raises ServiceNotReady for a topic that waits when the broker stops.

        System topics need no permit, because the load of another topic waits for a system topic (`__change_events`)
        while it holds a permit itself."""
        return LoadUnderWay(self, name)

    async def take(self) -> None:
        """Takes a permit, or waits for one. Called by `LoadUnderWay`."""
        if not self._waiting and self._has_room():
            self.held += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the permit was given, and nobody is there to hold it
                self.give_back()
            raise
        if self._is_closed:
            self.held -= 1
            raise ServiceNotReady("The broker is shutting down")

    def give_back(self) -> None:
        """Gives a permit back, to the topic that has waited longest. Called by `LoadUnderWay`."""
        self.held -= 1
        self.settings_changed()

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
