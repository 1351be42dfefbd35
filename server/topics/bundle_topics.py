"""Closes the loaded topics of a bundle when this broker gives the bundle away or loses it, and loads the topics of a
bundle ahead of their clients when this broker has gained the bundle.

Sources: BrokerService.unloadServiceUnit, PulsarService.loadNamespaceTopics.
"""

import asyncio
import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ranges import hash_of
from magnetar.server.namespaces.split_point_rules import TopicLoad
from magnetar.server.process.turns import Turns, in_portions
from magnetar.server.topics.base_topic import BaseTopic
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import TopicName

if TYPE_CHECKING:
    from magnetar.server.topics.broker_service import BrokerService

log = logging.getLogger(__name__)

T = TypeVar("T")

PRELOADS_AT_ONCE = 32
"""How many topics of a bundle are loaded ahead of their clients at the same time."""
PRELOADED_NAMESPACE_TOPICS_MAX = 10_000
"""How many topics a namespace may have for its bundles to be loaded ahead of their clients. In a larger one, a lookup
of one topic would make its owner open thousands of ledgers that nobody asked for. Apache's broker has no such limit."""
LOADS_WAIT_SECONDS = 1.0
"""How long an unload waits for the bundle's topics that are still being loaded. A topic whose load ends later is closed
at the end of the load."""


class BundleTopics:
    """Closes and loads the topics of a `BrokerService`, a whole bundle at a time. Every method is called on the loop's
    thread."""

    def __init__(self, service: "BrokerService") -> None:
        self._service = service
        self._work: set[asyncio.Task[Any]] = set()
        self._lost_again = False
        """Whether a bundle was lost since the present pass over all topics began."""
        self._closing_lost: asyncio.Task[None] | None = None
        service.ownership.on_lost(self._bundle_lost)

    async def loaded(self, bundle: BundleName) -> list[BaseTopic]:
        """Returns the loaded topics of the bundle, persistent and non-persistent."""
        topics = [topic for topic in self._service.all_topics if topic.name.namespace == bundle.namespace]
        return [topic async for topic in in_portions(topics) if bundle.includes(hash_of(topic.name.full))]

    async def loads_of(self, bundle: BundleName) -> list[TopicLoad]:
        """Returns the load of each topic of the bundle: of all persistent topics, and of the non-persistent topics that
        are loaded. Raises PulsarError when the metadata cannot be read."""
        names = set(await self._service.catalog.topics_of(bundle.namespace))
        names.update(self._service.catalog.non_persistent_topics_of(bundle.namespace))
        loaded = {topic.name.full: topic for topic in self._service.all_topics}
        return [_load_of(name, loaded.get(name)) async for name in in_portions(names) if _is_in(bundle, name)]

    async def close(self, bundle: BundleName) -> None:
        """Closes all topics of a bundle that the caller has deactivated: first tells the topics' clients, then stores
        the state of the topics. A topic whose state cannot be stored is only logged, because the bundle's next owner
        recovers the topic."""
        loads = self._service.loads_under_way(lambda name: _is_in(bundle, name))
        closing = await self._begin_closing(await self.loaded(bundle))
        if loads:
            # Each load sees that the bundle is deactivated, and closes its topic. The wait is short, because a load may
            # itself wait for another topic of this bundle.
            await asyncio.wait(loads, timeout=LOADS_WAIT_SECONDS)
        results = await asyncio.gather(*closing)
        log.info("%s: closed %d topics, %d with a failure", bundle, len(results), results.count(False))

    def preload(self, bundle: BundleName) -> None:
        """Loads all persistent topics of the bundle ahead of their clients, in the background."""
        self._spawn(self._preload(bundle))

    def stop(self) -> None:
        """Cancels the tasks that load and close topics in the background."""
        for task in self._work:
            task.cancel()

    async def _preload(self, bundle: BundleName) -> None:
        service = self._service
        permits = asyncio.Semaphore(PRELOADS_AT_ONCE)
        loading: set[asyncio.Task[None]] = set()

        async def load(name: TopicName) -> None:
            try:
                await service.get_topic(name, create=False)
            except PulsarError as error:
                log.info("%s: not loaded ahead: %s", name.full, error)
            finally:
                permits.release()

        try:
            if await service.catalog.count_topics(bundle.namespace) > PRELOADED_NAMESPACE_TOPICS_MAX:
                log.info("%s: its topics are loaded at their first use, because the namespace has many", bundle)
                return
            async for full_name in in_portions(await service.catalog.topics_of(bundle.namespace)):
                if not _is_in(bundle, full_name):
                    continue
                await permits.acquire()
                if not service.ownership.is_active(bundle):
                    return
                task = asyncio.get_running_loop().create_task(load(TopicName.parse(full_name)))
                loading.add(task)
                task.add_done_callback(loading.discard)
        except PulsarError as error:
            log.warning("%s: its topics cannot be listed, and are loaded at their first use: %s", bundle, error)

    def _bundle_lost(self, bundle: BundleName) -> None:
        self._lost_again = True
        if self._closing_lost is None:
            self._closing_lost = self._spawn(self._close_lost())
            self._closing_lost.add_done_callback(self._closed_lost)

    def _closed_lost(self, task: "asyncio.Task[None]") -> None:
        self._closing_lost = None

    async def _close_lost(self) -> None:
        """Closes every topic whose bundle this broker does not own any more."""
        while self._lost_again:
            self._lost_again = False
            owns = self._service.ownership.owns
            lost = [topic async for topic in in_portions(self._service.all_topics) if not owns(topic.name)]
            await self._begin_closing(lost)

    async def _begin_closing(self, topics: list[BaseTopic]) -> "list[asyncio.Task[bool]]":
        """Tells the clients of the topics to look the topics up again. Returns one task for each topic, which ends when
        the topic is closed."""
        turns = Turns()
        closing = []
        for topic in topics:
            topic.detach()
            closing.append(self._spawn(self._close_one(topic)))
            await turns.breathe()
        return closing

    async def _close_one(self, topic: BaseTopic) -> bool:
        try:
            await self._service.close_topic(topic)
        except Exception as error:
            log.warning("%s: closed with a failure: %s", topic, error)
            return False
        return True

    def _spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task


def _load_of(full_name: str, topic: BaseTopic | None) -> TopicLoad:
    if topic is None:
        return TopicLoad(hash_of(full_name))
    taken = topic.publishing.counters
    sent = topic.counters_out()
    return TopicLoad(
        hash_of(full_name),
        taken.message_rate.value + sent.message_rate.value,
        taken.byte_rate.value + sent.byte_rate.value,
    )


def _is_in(bundle: BundleName, full_name: str) -> bool:
    return f"://{bundle.namespace}/" in full_name and bundle.includes(hash_of(full_name))
