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

    def one(self, name: TopicName) -> "LoadPermit":
        """Holds a permit while the topic is loaded, as a context manager. The topic waits for its permit behind the
        topics that came earlier. Entering raises ServiceNotReady for a topic that waits when the broker stops.

        System topics need no permit, because the load of another topic waits for a system topic (`__change_events`)
        while it holds a permit itself."""
        return LoadPermit(self, name)

    def begin(self, full_name: str) -> LoadUnderWay:
        """Called when a load begins, before it has a permit. `end` follows."""
        progress = self.under_way[full_name] = LoadUnderWay(asyncio.get_running_loop().time())
        return progress

    def end(self, full_name: str) -> None:
        del self.under_way[full_name]

    def done(self, began_s: float, error: BaseException | None) -> None:
        """Counts a load that had begun at `began_s` (monotonic) when it was allowed to."""
        if error is None:
            self.load_times.add(time.monotonic() - began_s)
        elif isinstance(error, Exception) and not isinstance(error, TopicNotFound):
            self.loads_failed += 1

    def give_back(self) -> None:
        self.held -= 1
        self.settings_changed()

    async def take(self) -> None:
        """Waits for a permit, and holds it until `give_back`."""
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


class LoadPermit:
    """The block in which one topic is loaded (`LoadPermits.one`). A class and no generator, because a broker that comes
    back loads ten thousand topics: a generator costs a microsecond at its beginning and another one at its end."""

    __slots__ = ("_began_s", "_full_name", "_is_needed", "_permits")

    def __init__(self, permits: LoadPermits, name: TopicName) -> None:
        self._permits = permits
        self._full_name = name.full
        self._is_needed = not is_system_topic(name)
        self._began_s = 0.0

    async def __aenter__(self) -> None:
        progress = self._permits.begin(self._full_name)
        try:
            if self._is_needed:
                await self._permits.take()
        except BaseException:
            self._permits.end(self._full_name)
            raise
        progress.has_permit = True
        self._began_s = time.monotonic()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._permits.done(self._began_s, error)
        if self._is_needed:
            self._permits.give_back()
        self._permits.end(self._full_name)
