"""The topics of this broker. A topic is loaded on first use and stays loaded until it is unloaded or deleted.

One task loads a topic. Callers that ask for the topic meanwhile wait for that task; the cancellation of a caller does
not stop it. The metadata decides which topics exist (`namespaces/topic_catalog.py`).

Sources: BrokerService.getTopic, loadOrCreatePersistentTopic.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import broker_instance
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.policies.change_events import ChangeEvents
from magnetar.server.policies.policies import EVENTS_TOPIC, Policies
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_storage import SchemaStorage
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import RATE_PERIOD_SECONDS
from magnetar.server.topics.inactivity_rules import is_active
from magnetar.server.topics.non_persistent.loaded_topics import NonPersistentTopics
from magnetar.server.topics.policy_event_topics import PolicyEventTopics
from magnetar.server.topics.topic import Topic
from magnetar.server.topics.topic_opener import TopicOpener
from magnetar.server.topics.topic_schemas import TopicSchemas
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.errors import NotAllowed, ServiceNotReady, TopicNotFound
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

CLOSE_CONCURRENCY_MAX = 64
"""How many topics are closed at the same time."""


class TopicBusy(Exception):
    """The topic has producers or consumers, so it is only deleted by force."""


class BrokerService:
    """Loads, unloads and deletes topics. Lives on the event loop's thread."""

    def __init__(self, factory: ManagedLedgerFactory, metadata: MetadataStore, settings: TopicSettings) -> None:
        self.settings = settings
        self.topics: dict[str, Topic] = {}
        """The persistent topics that are loaded and usable, by full name."""
        self.policies = Policies(metadata, settings, self._policies_changed)
        self.namespace_listeners: list[Callable[[str], None]] = []
        """Called with the name of a namespace whose record has changed, after the namespace's topics have the new
        policies."""
        self.metadata = metadata
        self.catalog = TopicCatalog(metadata, self.policies, settings, self._loaded_names)
        self._factory = factory
        storage = SchemaStorage(metadata, factory.bookkeeper, factory.config.quorums)
        self.schemas = TopicSchemas(SchemaRegistry(storage, factory.clock_ms))
        self._opener = TopicOpener(factory, settings, self.policies, self.catalog, self.schemas, self.new_producer_name)
        self.non_persistent = NonPersistentTopics(
            settings, self.policies, self.catalog, self.new_producer_name, self._opener.equip
        )
        if settings.topic_level_policies_enabled:
            self.policies.topics = ChangeEvents(
                PolicyEventTopics(self.catalog, self.get_topic),
                self.schemas.registry,
                cluster=settings.cluster_name,
                new_producer_name=self.new_producer_name,
                on_change=self.policies.topic_changed,
                clock_ms=factory.clock_ms,
            )
        self._loading: dict[str, asyncio.Task[Topic]] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._instance = ""
        self._names_given = 0
        self._is_closed = False
        self._rates: asyncio.TimerHandle | None = None
        self._rates_rolled_s = time.monotonic()

    async def warm_up(self) -> None:
        """Prepares the service for clients; called once, before the first client. Raises PulsarError."""
        with storage_faults_told():
            self._instance = str(await broker_instance(self.metadata))
        self.policies.start()
        self.catalog.partitioned.start()
        self._opener.limit_publishing()
        self._rates_rolled_s = time.monotonic()
        self._rates = asyncio.get_running_loop().call_later(RATE_PERIOD_SECONDS, self._roll_rates)

    @property
    def managed_ledger_config(self) -> ManagedLedgerConfig:
        return self._factory.config

    def new_producer_name(self) -> str:
        """Returns a name of the form `cluster-instance-number`, which is unique in the cluster
        (DistributedIdGenerator)."""
        name = f"{self.settings.cluster_name}-{self._instance or 0}-{self._names_given}"
        self._names_given += 1
        return name

    # --- loading -----------------------------------------------------------------------------------------------------

    def loaded(self, name: TopicName) -> Topic | None:
        return self.topics.get(name.full)

    async def get_for_client(self, name: TopicName, *, create: bool = True) -> BaseTopic:
        """Returns the topic, of either domain. Creates a missing topic if `create` is set and the namespace's rules
        allow it. Raises the errors of `get_any`."""
        topic = self.loaded_of_any_domain(name)
        if topic is not None:
            return topic
        await self.catalog.check_namespace(name.namespace)
        return await self.get_any(name, create=create and await self.catalog.may_create(name))

    def loaded_of_any_domain(self, name: TopicName) -> BaseTopic | None:
        return self.topics.get(name.full) or self.non_persistent.by_name.get(name.full)

    async def get_any(self, name: TopicName, *, create: bool) -> BaseTopic:
        """Returns the topic, of either domain. A non-persistent topic exists only while it is loaded. Raises the errors
        of `get_topic`."""
        if name.is_persistent:
            return await self.get_topic(name, create=create)
        if self._is_closed:
            raise ServiceNotReady("The broker is shutting down")
        return await self.non_persistent.get(name, create=create)

    async def get_topic(self, name: TopicName, *, create: bool) -> Topic:
        """Loads a persistent topic and returns it; creates it if it is missing and `create` is set. Raises PulsarError:
        TopicNotFound (also when the namespace does not exist), NotAllowed, and ServiceNotReady when loading takes
        longer than `topic_load_timeout_seconds` (the load goes on)."""
        topic = self.topics.get(name.full)
        if topic is not None:
            return topic
        if self._is_closed:
            raise ServiceNotReady("The broker is shutting down")
        if not name.is_persistent:
            raise NotAllowed(f"{name.full} is not persistent")
        while True:
            await self._check_may_load(name, create)
            topic = self.topics.get(name.full)
            if topic is not None:
                return topic  # another caller has loaded the topic meanwhile
            joined = self._loading.get(name.full)
            task = joined or self._begin_load(name, create)
            done, _ = await asyncio.wait([task], timeout=self.settings.topic_load_timeout_seconds)
            if not done:
                raise ServiceNotReady(f"Topic {name.full} is still being loaded")
            if create and task is joined and isinstance(task.exception(), TopicNotFound):
                continue  # the load that ended was begun by a caller without `create`
            return task.result()

    def _begin_load(self, name: TopicName, create: bool) -> "asyncio.Task[Topic]":
        task = self._loading[name.full] = asyncio.get_running_loop().create_task(self._load(name, create))
        task.add_done_callback(partial(_log_failure, f"{name.full}: loading"))
        return task

    async def _check_may_load(self, name: TopicName, create: bool) -> None:
        if name.full in self._loading:
            return
        closing = self._closing.get(name.full)
        if closing is not None:  # when the closing has ended, the topic may have been deleted
            await asyncio.wait([closing], timeout=self.settings.topic_load_timeout_seconds)
        await self.catalog.check_namespace(name.namespace)
        if not await self.catalog.topic_exists(name):
            if not create:
                raise TopicNotFound(f"Topic {name.full} not found")
            await self.catalog.check_room(name)

    async def _load(self, name: TopicName, create: bool) -> Topic:
        """Opens the topic and adds it to `topics`. Without `create`, a topic that was deleted since the caller saw its
        record is not created again."""
        try:
            closing = self._closing.get(name.full)
            if closing is not None:
                await asyncio.wait([closing])
            topic = await self._opener.open(name, create=create, on_lost=self._lost)
            if self._is_closed or not topic.is_open:
                await topic.close()
                why = "The broker is shutting down" if self._is_closed else "The topic was taken over by another broker"
                raise ServiceNotReady(why)
            self.topics[name.full] = topic
            log.info("%s: loaded with %d subscriptions", topic, len(topic.subscriptions))
            return topic
        finally:
            del self._loading[name.full]

    async def refresh_policies(self, topic: Topic) -> None:
        """Computes the topic's policies anew, after its properties have changed. Raises PulsarError."""
        await self._opener.refresh_policies(topic)

    def _policies_changed(self, namespace: str, only: TopicName | None) -> None:
        """Applies changed policies to the loaded topics: to those of a namespace, or, with `only`, to one topic and its
        partitions."""
        for topic in list(self.topics.values()):
            if topic.name.namespace == namespace and only in (None, topic.name.base):
                topic.set_policies(self.policies.of(topic.name, topic.own_properties))
        self.non_persistent.policies_changed(namespace)
        if only is None:
            for listener in self.namespace_listeners:
                listener(namespace)

    @property
    def all_topics(self) -> list[BaseTopic]:
        """Returns the topics of both domains that are loaded."""
        return [*self.topics.values(), *self.non_persistent.by_name.values()]

    def _loaded_names(self) -> set[str]:
        return {*self.topics, *self.non_persistent.by_name}

    # --- unloading and deleting --------------------------------------------------------------------------------------

    async def unload(self, topic: Topic) -> None:
        """Closes the topic. When its clients reconnect, the topic is loaded again. Raises PulsarError."""
        closing = self._closing.get(topic.name.full)
        if closing is None:
            if self.topics.get(topic.name.full) is not topic:
                return
            closing = self._close_task(topic)
        await asyncio.shield(closing)

    def _lost(self, topic: Topic) -> None:
        if self.topics.get(topic.name.full) is topic:
            self._close_task(topic)

    def _close_task(self, topic: Topic, *, delete: bool = False) -> "asyncio.Task[None]":
        """Takes the topic out of use at once, and closes it in a task. A caller that wants to load the topic meanwhile
        waits for the end of that task."""
        full_name = topic.name.full
        del self.topics[full_name]
        work = self._close_and_delete(topic) if delete else topic.close()
        task = self._closing[full_name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._closing.pop(full_name))
        task.add_done_callback(partial(_log_failure, f"{full_name}: closing"))
        return task

    async def _close_and_delete(self, topic: Topic) -> None:
        await topic.close()
        # The compacted ledgers are looked up after closing, because a compaction that ends meanwhile changes them.
        compacted = [] if topic.compaction is None else topic.compaction.ledger_ids
        with storage_faults_told():
            await self._factory.delete(topic.name.managed_ledger_name)
        self._factory.reaper.bury(compacted)
        if not topic.name.is_partition:
            await self.schemas.delete(topic.name)
        log.info("%s: deleted", topic)

    async def delete_topic(self, name: TopicName, force: bool = False) -> None:
        """Deletes a topic of either domain. Raises TopicNotFound, PulsarError, and TopicBusy when it has clients and
        `force` is not set."""
        if not name.is_persistent:
            await self._delete_non_persistent(name, force)
            return
        topic = self.topics.get(name.full)
        if topic is None:
            if not await self.catalog.topic_exists(name):
                raise TopicNotFound(f"Topic {name.full} not found")
            topic = await self.get_topic(name, create=False)
        if not force:
            self.check_unused(name)
        if self.topics.get(name.full) is not topic:
            raise ServiceNotReady(f"Topic {name.full} is being unloaded")
        await asyncio.shield(self._close_task(topic, delete=True))
        if name.local_name == EVENTS_TOPIC:
            self.policies.topics.forget(name.namespace)
        elif not name.is_partition:
            await self.policies.topics.delete(name)

    async def _delete_non_persistent(self, name: TopicName, force: bool) -> None:
        topic = self.non_persistent.by_name.get(name.full)
        if topic is None:
            raise TopicNotFound(f"Topic {name.full} not found")
        if not force:
            self.check_unused(name)
        await self.non_persistent.close(topic)
        log.info("%s: deleted", topic)

    def check_unused(self, name: TopicName) -> None:
        """Raises TopicBusy when producers or consumers are connected to the topic."""
        topic = self.loaded_of_any_domain(name)
        if topic is None:
            return
        clients = len(topic.producers) + topic.consumer_count
        if clients:
            raise TopicBusy(f"Topic has {clients} connected producers/consumers")

    async def delete_unused(self, topic: BaseTopic) -> None:
        """Deletes the topic, unless a client has begun to use it. Raises PulsarError."""
        mode = topic.policies.inactive_topic_policies.delete_mode
        if topic.is_open and not is_active(topic.use(), mode):
            await self.delete_topic(topic.name, force=True)

    async def close(self) -> None:
        """Stores all state that the topics have not stored yet. Clients get no CLOSE commands: their connections simply
        end. Idempotent."""
        self._is_closed = True
        self.policies.close()
        self.catalog.partitioned.close()
        if self._rates is not None:
            self._rates.cancel()
        if self._loading:
            await asyncio.wait(self._loading.values())
        permits = asyncio.Semaphore(CLOSE_CONCURRENCY_MAX)

        async def close_one(topic: Topic) -> None:
            async with permits:
                await topic.close()

        topics = list(self.topics.values())
        self.topics.clear()
        await self.non_persistent.close_all()
        await asyncio.gather(*map(close_one, topics))
        if self._closing:
            await asyncio.wait(self._closing.values())

    # --- rates -------------------------------------------------------------------------------------------------------

    def _roll_rates(self) -> None:
        now_s = time.monotonic()
        elapsed_s, self._rates_rolled_s = now_s - self._rates_rolled_s, now_s
        for topic in self.all_topics:
            topic.roll_rates(elapsed_s)
        self._rates = asyncio.get_running_loop().call_later(RATE_PERIOD_SECONDS, self._roll_rates)


def _log_failure(what: str, task: "asyncio.Task[Any]") -> None:
    """Logs that a task failed, because possibly no caller waits for the task any more."""
    if not task.cancelled() and task.exception() is not None:
        log.warning("%s failed: %s", what, task.exception())
