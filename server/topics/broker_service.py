"""The topics of this broker. A topic is loaded on first use and stays loaded until it is unloaded or deleted.

One task loads a topic. Callers that ask for the topic meanwhile wait for that task; the cancellation of a caller does
not stop that task. The metadata decides which topics exist (`namespaces/topic_catalog.py`).

Sources: BrokerService.getTopic, loadOrCreatePersistentTopic.
"""

import asyncio
import logging
from collections import ChainMap
from collections.abc import Callable
from functools import partial
from typing import Any

from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import broker_instance
from magnetar.server.config.bundle_settings import BundleSettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.bundle_moves import BundleMoves
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.namespaces.ownership import Ownership, SoleOwner
from magnetar.server.namespaces.topic_catalog import TopicCatalog
from magnetar.server.policies.change_events import ChangeEvents
from magnetar.server.policies.policies import Policies
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.task_failures import log_failure
from magnetar.server.process.task_waits import ended_within
from magnetar.server.process.turns import for_each, in_portions
from magnetar.server.schema.schema_registry import SchemaRegistry
from magnetar.server.schema.schema_storage import SchemaStorage
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.bundle_topics import BundleTopics
from magnetar.server.topics.inactivity_rules import is_active
from magnetar.server.topics.load_permits import LoadPermits
from magnetar.server.topics.non_persistent.loaded_topics import NonPersistentTopics
from magnetar.server.topics.policy_event_topics import PolicyEventTopics
from magnetar.server.topics.rate_rolling import RateRolling
from magnetar.server.topics.snapshot_topics import LocalSnapshotLogs
from magnetar.server.topics.topic import Topic
from magnetar.server.topics.topic_deletion import TopicBusy, delete_log, delete_records
from magnetar.server.topics.topic_opener import TopicOpener
from magnetar.server.topics.topic_schemas import TopicSchemas
from magnetar.server.topics.transactions.topic_transactions import TopicTransactions
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.storage.managed.factory import ManagedLedgerFactory
from pulsar_proto.errors import NotAllowed, ServiceNotReady, TopicNotFound, UnknownFault
from pulsar_proto.histogram import Histogram
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

CLOSE_CONCURRENCY_MAX = 64
"""How many topics are closed at the same time."""


class BrokerService:
    """Loads, unloads and deletes topics. Every method is called on the event loop's thread."""

    def __init__(
        self,
        factory: ManagedLedgerFactory,
        metadata: MetadataStore,
        settings: TopicSettings,
        make_ownership: Callable[[BundleCache], Ownership] = SoleOwner,
        bundle_settings: BundleSettings | None = None,
        transactions: TransactionSupport | None = None,
    ) -> None:
        """`make_ownership` creates the object that knows which bundles this broker owns. `transactions` is None while
        transactions are switched off."""
        self.settings = settings
        self.topics: dict[str, Topic] = {}
        """Full name -> topic, for the persistent topics that are loaded and usable."""
        self.policies = Policies(metadata, settings, self._policies_changed)
        self.namespace_listeners: list[Callable[[str], None]] = []
        """Functions that are called with the name of a namespace after its topics have its changed policies."""
        self.settings_listeners: list[Callable[[], None]] = []
        """Functions that are called after the settings of topics were changed while the broker runs."""
        self.metadata = metadata
        self.ownership = make_ownership(BundleCache(metadata, self.policies.namespaces.get))
        """Knows which topics this broker serves. A topic is loaded only while the broker owns the topic's bundle."""
        self.catalog = TopicCatalog(
            metadata, self.policies, settings, lambda: ChainMap[str, Any](self.topics, self.non_persistent.by_name)
        )
        self._factory, self.reaper = factory, factory.reaper
        storage = SchemaStorage(metadata, factory.bookkeeper, factory.config.quorums)
        self.schemas = TopicSchemas(SchemaRegistry(storage, factory.clock_ms))
        self.transactions = None if transactions is None else self._topic_transactions(transactions)
        """The transactions of topics; None while transactions are switched off."""
        self._opener = TopicOpener(
            factory,
            metadata,
            settings,
            self.policies,
            self.catalog,
            self.schemas,
            self.new_producer_name,
            self.transactions,
        )
        self.non_persistent = NonPersistentTopics(
            settings, self.policies, self.catalog, self.ownership, self.new_producer_name, self._opener.equip
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
        self.in_bundles = BundleTopics(self)
        """Closes and loads the topics of whole bundles."""
        self.moves = BundleMoves(
            self.ownership, self.in_bundles, metadata, self.policies.namespaces, bundle_settings or BundleSettings()
        )
        """Unloads and splits bundles."""
        self.quota_checks: Histogram | None = None
        """The seconds that the checks of backlog quotas took; set by the program, which runs the checks."""
        self._loading: dict[str, asyncio.Task[Topic]] = {}
        self.load_permits = LoadPermits(settings)
        self.settings_listeners.append(self.load_permits.settings_changed)
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._close_permits = asyncio.Semaphore(CLOSE_CONCURRENCY_MAX)
        self._instance = ""
        self._names_given = 0
        self._is_closed = False
        self._rates = RateRolling(lambda: self.all_topics, settings, factory.cache_rates.roll)

    def _topic_transactions(self, support: TransactionSupport) -> TopicTransactions:
        logs = LocalSnapshotLogs(self.get_topic, self.schemas.registry, self.new_producer_name, self._factory.clock_ms)
        return TopicTransactions(support, logs, self._factory.clock_ms)

    async def warm_up(self) -> None:
        """Starts the service. Called once, before the first client. Raises PulsarError after a storage fault."""
        with storage_faults_told():
            self._instance = str(await broker_instance(self.metadata))
        self.policies.start()
        self.ownership.start()
        self.catalog.partitioned.start()
        self._opener.start()
        self._rates.start()

    @property
    def managed_ledgers(self) -> ManagedLedgerFactory:
        return self._factory

    def new_producer_name(self) -> str:
        """Returns a name `cluster-instance-number`, which is unique in the cluster (DistributedIdGenerator)."""
        self._names_given += 1
        return f"{self.settings.cluster_name}-{self._instance or 0}-{self._names_given - 1}"

    # --- loading -----------------------------------------------------------------------------------------------------

    def loaded(self, name: TopicName) -> Topic | None:
        return self.topics.get(name.full)

    async def get_for_client(self, name: TopicName, *, create: bool = True) -> BaseTopic:
        """Returns a persistent or non-persistent topic. Creates a missing topic if `create` is set and the namespace's
        rules allow automatic creation. Raises the errors of `get_any`."""
        topic = self.loaded_of_any_domain(name)
        if topic is not None:
            if self.ownership.owns(name):
                return topic
            await self.ownership.check(name)  # waits until the topic's bundle was given away
        await self.catalog.check_namespace(name.namespace)
        return await self.get_any(name, create=create and await self.catalog.may_create(name))

    def loaded_of_any_domain(self, name: TopicName) -> BaseTopic | None:
        return self.topics.get(name.full) or self.non_persistent.by_name.get(name.full)

    async def get_any(self, name: TopicName, *, create: bool) -> BaseTopic:
        """Returns a persistent or non-persistent topic; creates a missing topic if `create` is set. A non-persistent
        topic that is not loaded counts as missing. Raises the errors of `get_topic`."""
        if name.is_persistent:
            return await self.get_topic(name, create=create)
        if self._is_closed:
            raise ServiceNotReady("The broker is shutting down")
        return await self.non_persistent.get(name, create=create)

    async def get_topic(self, name: TopicName, *, create: bool) -> Topic:
        """Returns a persistent topic, loaded if necessary. Creates a missing topic if `create` is set. Raises
        PulsarError: TopicNotFound (also when the namespace does not exist), NotAllowed, ServiceNotReady (this broker
        does not serve the topic or stops), MetadataFault, or UnknownFault when loading takes longer than
        `topic_load_timeout_seconds` (the load then goes on)."""
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
            if not await ended_within(task, self.settings.topic_load_timeout_seconds):
                raise UnknownFault("Failed to load topic within timeout")
            if create and task is joined and isinstance(task.exception(), TopicNotFound):
                continue  # the load that ended was begun by a caller without `create`
            return task.result()

    def _begin_load(self, name: TopicName, create: bool) -> "asyncio.Task[Topic]":
        task = self._loading[name.full] = asyncio.get_running_loop().create_task(self._load(name, create))
        task.add_done_callback(partial(log_failure, f"{name.full}: loading"))
        return task

    async def _check_may_load(self, name: TopicName, create: bool) -> None:
        if name.full in self._loading:
            return
        closing = self._closing.get(name.full)
        if closing is not None:  # when the closing has ended, the topic may have been deleted
            await asyncio.wait([closing], timeout=self.settings.topic_load_timeout_seconds)
        await self.catalog.check_namespace(name.namespace)
        await self.ownership.check(name)
        if create and not await self.catalog.is_limited(name):
            return  # the load finds out whether the topic exists
        if not await self.catalog.topic_exists(name):
            if not create:
                raise TopicNotFound(f"Topic {name.full} not found")
            await self.catalog.create_limited(name)

    async def _load(self, name: TopicName, create: bool) -> Topic:
        """Opens the topic and adds the topic to `topics`. Raises TopicNotFound without `create` when the topic was
        deleted after the caller had seen its record."""
        try:
            closing = self._closing.get(name.full)
            if closing is not None:
                await asyncio.wait([closing])
            async with self.load_permits.one(name):
                self.ownership.check_now(name)
                topic = await self._opener.open(name, create=create, on_lost=self._lost)
            why = self._why_unusable(topic)
            if why is not None:
                await topic.close()
                raise ServiceNotReady(why)
            self.topics[name.full] = topic
            log.info("%s: loaded with %d subscriptions", topic, len(topic.subscriptions))
            return topic
        finally:
            del self._loading[name.full]

    def _why_unusable(self, topic: Topic) -> str | None:
        """Returns why a topic that was just opened is not to be used, or None."""
        if self._is_closed:
            return "The broker is shutting down"
        if not topic.is_open:
            return "The topic was taken over by another broker"
        try:
            self.ownership.check_now(topic.name)
        except ServiceNotReady as error:
            log.info("%s: closed again, its bundle was lost while it was loaded", topic)
            return str(error)
        return None

    async def refresh_policies(self, topic: Topic) -> None:
        """Computes the topic's policies anew after its properties changed. Raises PulsarError."""
        await self._opener.refresh_policies(topic)

    def _policies_changed(self, namespace: str, only: TopicName | None) -> None:
        """Applies changed policies to all loaded topics of a namespace, or, with `only`, to that one topic and its
        partitions."""
        for topic in list(self.topics.values()):
            if topic.name.namespace == namespace and only in (None, topic.name.base):
                topic.set_policies(self.policies.of(topic.name, topic.own_properties))
        self.non_persistent.policies_changed(namespace)
        if only is None:
            for listener in self.namespace_listeners:
                listener(namespace)

    async def settings_changed(self) -> None:
        """Called after the settings of topics or of managed ledgers were changed in place: updates what was built from
        the old settings."""
        self.policies.defaults_changed()
        self._opener.limit_publishing()
        self._factory.config_changed()
        for listener in self.settings_listeners:
            listener()
        async for topic in in_portions(self.all_topics):
            self._opener.equip(topic)
            if isinstance(topic, Topic):
                topic.set_policies(self.policies.of(topic.name, topic.own_properties))
                topic.configure_ledger()
            else:
                topic.set_policies(self.policies.of(topic.name, {}))

    @property
    def all_topics(self) -> list[BaseTopic]:
        """All loaded topics, persistent and non-persistent."""
        return [*self.topics.values(), *self.non_persistent.by_name.values()]

    def loads_under_way(self, is_wanted: Callable[[str], bool]) -> "list[asyncio.Task[Topic]]":
        """Returns the unfinished loads of the topics for whose full names `is_wanted` returns True."""
        return [task for name, task in self._loading.items() if is_wanted(name)]

    @property
    def closing_topics(self) -> list[str]:
        """Returns the full names of the topics that are being closed or deleted."""
        return list(self._closing)

    # --- unloading and deleting --------------------------------------------------------------------------------------

    async def unload(self, topic: Topic) -> None:
        """Closes the topic until its clients reconnect. Raises PulsarError after a storage fault."""
        closing = self._closing.get(topic.name.full)
        if closing is None:
            if self.topics.get(topic.name.full) is not topic:
                return
            closing = self._close_task(topic)
        await asyncio.shield(closing)

    async def close_topic(self, topic: BaseTopic) -> None:
        """Unloads a persistent topic (see `unload`), or ends a non-persistent topic."""
        if isinstance(topic, Topic):
            await self.unload(topic)
        else:
            await self.non_persistent.close(topic)

    def _lost(self, topic: Topic) -> None:
        self.ownership.fenced(topic.name)
        if self.topics.get(topic.name.full) is topic:
            self._close_task(topic)

    def _close_task(self, topic: Topic, *, delete: bool = False) -> "asyncio.Task[None]":
        """Takes the topic out of use at once, and returns the task that closes the topic. A caller that wants to load
        the topic meanwhile waits for the end of that task."""
        full_name = topic.name.full
        del self.topics[full_name]
        work = self._close_and_delete(topic) if delete else self._close(topic)
        task = self._closing[full_name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._closing.pop(full_name))
        task.add_done_callback(partial(log_failure, f"{full_name}: closing"))
        return task

    async def _close(self, topic: Topic) -> None:
        topic.detach()  # clients need not wait until other topics are closed
        async with self._close_permits:
            await topic.close()

    async def _close_and_delete(self, topic: Topic) -> None:
        await topic.close()
        await delete_log(self, topic)
        log.info("%s: deleted", topic)

    async def delete_topic(self, name: TopicName, force: bool = False) -> None:
        """Deletes a persistent or non-persistent topic. Raises TopicNotFound when there is no such topic, TopicBusy
        when the topic has clients and `force` is not set, and PulsarError when the deletion fails."""
        if not name.is_persistent:
            if not force:
                self.check_unused(name)
            await self.non_persistent.delete(name)
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
        await delete_records(self, name)

    def check_unused(self, name: TopicName) -> None:
        """Raises TopicBusy when producers or consumers are connected to the topic."""
        topic = self.loaded_of_any_domain(name)
        clients = 0 if topic is None else len(topic.producers) + topic.consumer_count
        if clients:
            raise TopicBusy(f"Topic has {clients} connected producers/consumers")

    async def delete_unused(self, topic: BaseTopic) -> None:
        """Deletes the topic, unless a client has begun to use the topic. Raises PulsarError when the deletion fails."""
        mode = topic.policies.inactive_topic_policies.delete_mode
        if topic.is_open and not is_active(topic.use(), mode):
            await self.delete_topic(topic.name, force=True)

    async def close(self) -> None:
        """Stores what the topics have not stored yet. Clients get no CLOSE: their connections just end. Idempotent."""
        self._is_closed = True
        self.policies.close()
        self.ownership.close()
        self.in_bundles.stop()
        self.load_permits.close()
        self.catalog.partitioned.close()
        self._opener.close()
        self._rates.stop()
        if self._loading:
            await asyncio.wait(self._loading.values())
        topics = list(self.topics.values())
        self.topics.clear()
        await self.non_persistent.close_all()
        await for_each(topics, self._close, at_once=CLOSE_CONCURRENCY_MAX)
        if self._closing:
            await asyncio.wait(self._closing.values())
