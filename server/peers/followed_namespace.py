"""The policies of one namespace's topics. This broker follows them by reading the namespace's topic `__change_events`,
which any broker may own.

Source: SystemTopicBasedTopicPoliciesService (initPolicesCache, readMorePoliciesAsync).
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from typing import Any

from magnetar.metadata.errors import MetadataError
from magnetar.server.peers.entry_messages_rules import PeerMessage
from magnetar.server.peers.events_tail import EventsTail
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_errors import PeerError
from magnetar.server.peers.read_window_rules import MessagePlace
from magnetar.server.peers.retry_rules import Retries
from magnetar.server.policies.event_table import EventTable, topic_of
from magnetar.server.policies.policy_events import topic_of_key
from magnetar.server.schema.schema_registry import SchemaRegistry
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

PAUSE_MIN_SECONDS = 0.05
"""The pause after a first failure. `Retries` proposes none, because after the loss of a broker the next attempt mostly
succeeds at once; after a failure here it mostly does not."""

EventTopics = Callable[[TopicName], Awaitable[list[TopicName]]]
"""Returns the topics that have a namespace's events now: the partitions of `__change_events`, or the topic itself, or
an empty list when the topic does not exist. Raises PulsarError when the metadata store fails."""


class FollowState(Enum):
    """The states of a followed namespace."""

    READING = auto()
    """The events are being read for the first time. Loads of the namespace's topics wait."""
    ABSENT = auto()
    """The namespace has no topic of events."""
    FOLLOWING = auto()
    """All events up to some moment are known, and newer events are applied when they are written. The state stays
    FOLLOWING while the broker that has the events is lost; the known policies remain in force."""
    CLOSED = auto()


class FollowedNamespace:
    """One followed namespace, from the constructor to `close`. All calls are made on the event loop's thread."""

    def __init__(
        self,
        namespace: str,
        client: PeerClient,
        schemas: SchemaRegistry,
        event_topics: EventTopics,
        on_change: Callable[[TopicName], None],
        rng: random.Random,
    ) -> None:
        """`on_change(topic)` is called after a topic's policies have changed."""
        self.namespace = namespace
        self.state = FollowState.READING
        self.table = EventTable(topic_of(namespace), schemas)
        self.changing = asyncio.Lock()
        """Held while policies are changed, so that of two simultaneous changes none is lost."""
        self._client = client
        self._schemas = schemas
        self._event_topics = event_topics
        self._on_change = on_change
        self._rng = rng
        self._applied: dict[TopicName, MessagePlace] = {}
        """For each topic of events, the place of the last message that was applied."""
        self._tails: dict[TopicName, EventsTail] = {}
        self._changed = asyncio.Event()
        """Set, and replaced by a new Event, when the state changes or a message was applied."""
        self._look_again = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"policies of {namespace}")
        self._task.add_done_callback(self._ended)

    # --- what others ask ---------------------------------------------------------------------------------------------

    def policies(self, key: str) -> Mapping[str, Any]:
        return self.table.held.get(key, {})

    async def ready(self) -> None:
        """Returns once the policies are known, or the namespace is closed. The caller sets a deadline."""
        while self.state is FollowState.READING:
            await self._changed.wait()

    async def applied(self, topic: TopicName, place: MessagePlace) -> None:
        """Returns once the message at `place` was read back and applied, or the namespace is closed. The caller sets a
        deadline. Raises the PulsarError or PeerError of the reader."""
        while self.state is not FollowState.CLOSED:
            changed = self._changed
            tail = self._tails.get(topic)
            if tail is not None and place.entry_id < 0:
                place = await tail.last_place()  # the message was stored before a reconnect, at an unknown place
                continue
            applied = self._applied.get(topic)
            if self.state is FollowState.FOLLOWING and applied is not None and applied[:2] >= place[:2]:
                return
            await changed.wait()

    def look_again(self) -> None:
        """Called when the topics that have the events may have been created or deleted, or may have got more
        partitions."""
        self._look_again.set()

    async def close(self) -> None:
        """Ends the reading, and forgets the policies. A second call has no further effect."""
        self._become(FollowState.CLOSED)
        self._task.cancel()
        await asyncio.wait([self._task])

    # --- reading -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        retries = Retries()
        while self.state is not FollowState.CLOSED:
            self._look_again.clear()
            try:
                topics = await self._event_topics(topic_of(self.namespace))
                if topics:
                    await self._follow(topics, retries)
                else:
                    self._take_over(EventTable(topic_of(self.namespace), self._schemas), FollowState.ABSENT)
                    await self._look_again.wait()
                    self._become(FollowState.READING)
                retries.succeeded()
            except (PulsarError, PeerError, MetadataError, TimeoutError) as error:
                log.warning("%s: its topics' policies cannot be read, trying again: %s", self.namespace, error)
                await self._pause(retries.pause(self._rng.random()) or PAUSE_MIN_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Waits for the time to pass, or for `look_again`."""
        try:
            async with asyncio.timeout(seconds):
                await self._look_again.wait()
        except TimeoutError:
            pass

    async def _follow(self, topics: list[TopicName], retries: Retries) -> None:
        """Reads the topics to their ends, and follows them until the list of topics changes. Raises the error that
        ended one of the readers."""
        table = EventTable(topic_of(self.namespace), self._schemas)
        self._applied = {}

        async def apply(topic: TopicName, message: PeerMessage) -> None:
            place = f"{topic.full} {message.place}"
            key = await table.apply_value(message.key, message.value, message.schema_version, place)
            self._applied[topic] = message.place
            if table is self.table:
                self._tell_changed(key)
                self._notify()

        self._tails = {topic: EventsTail(self._client, topic, apply) for topic in topics}
        tails = list(self._tails.values())
        try:
            await asyncio.gather(*(tail.read_to_end() for tail in tails))
            self._take_over(table, FollowState.FOLLOWING)
            retries.succeeded()
            work = [asyncio.ensure_future(tail.follow()) for tail in tails]
            work.append(asyncio.ensure_future(self._until_others_than(topics)))
            try:
                done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in work:
                    each.cancel()
                await asyncio.wait(work)
            for each in done:
                each.result()
        finally:
            self._tails = {}
            for tail in tails:
                await tail.close()

    async def _until_others_than(self, topics: list[TopicName]) -> None:
        retries = Retries()
        while True:
            self._look_again.clear()
            try:
                if await self._event_topics(topic_of(self.namespace)) != topics:
                    return
            except (PulsarError, MetadataError) as error:
                log.info("%s: which topics hold its policies is not known: %s", self.namespace, error)
                await self._pause(retries.pause(self._rng.random()) or PAUSE_MIN_SECONDS)
                continue
            retries.succeeded()
            await self._look_again.wait()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("%s: policies of its topics are not read any more", self.namespace, exc_info=task.exception())

    def _take_over(self, table: EventTable, state: FollowState) -> None:
        """Replaces the old table of policies by a table that was read from the beginning of the topics."""
        old, self.table = self.table, table
        for key in {*old.held, *table.held}:
            if old.held.get(key) != table.held.get(key):
                self._tell_changed(key)
        self._become(state)

    def _tell_changed(self, key: str) -> None:
        topic = topic_of_key(key) if key else None
        if topic is not None and topic.namespace == self.namespace:
            self._on_change(topic)

    def _become(self, state: FollowState) -> None:
        if self.state is FollowState.CLOSED or self.state is state:
            return
        log.info("%s: policies of its topics: %s -> %s", self.namespace, self.state.name, state.name)
        self.state = state
        self._notify()

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
