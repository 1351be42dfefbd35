"""The topics of this broker: loaded once, on first use, and kept.

A topic is loaded by one task, whoever asks meanwhile waits for it, and nobody's cancellation stops it. What exists is
what the metadata says: a namespace has a record below /admin/policies, a topic one below /managed-ledgers.

Sources: BrokerService.getTopic, loadOrCreatePersistentTopic; facts 3.
"""

import asyncio
import json
import logging
import time
from functools import partial
from typing import Any

from metadata import paths
from metadata.errors import NoNodeError
from metadata.sequence import broker_instance
from metadata.store import MetadataStore
from pulsar_proto.errors import MetadataFault, NotAllowed, ServiceNotReady, TopicNotFound
from pulsar_proto.names import PERSISTENT, TopicName, decode_local, encode_local
from server.policies.policies import Policies
from server.schema.registry import SchemaRegistry
from server.schema.storage import SchemaStorage
from server.schema.topic_schemas import TopicSchemas
from server.topics.base_topic import BaseTopic
from server.topics.faults import storage_faults_told
from server.topics.ledger_config import ledger_config
from server.topics.settings import TopicSettings
from server.topics.stats import RATE_PERIOD_SECONDS
from server.topics.topic import Topic
from server.upkeep.inactivity import is_active
from storage.managed.factory import ManagedLedgerFactory

log = logging.getLogger(__name__)

CLOSE_CONCURRENCY_MAX = 64
"""Topics that are closed at the same time."""


class TopicBusy(Exception):
    """A topic with producers or subscriptions is deleted only by force."""


class BrokerService:
    """Lives on the event loop's thread."""

    def __init__(self, factory: ManagedLedgerFactory, metadata: MetadataStore, settings: TopicSettings) -> None:
        self.settings = settings
        self.topics: dict[str, Topic] = {}
        """By full name: those that are loaded and usable."""
        self.policies = Policies(metadata, settings, self._policies_changed)
        self._metadata = metadata
        self._factory = factory
        storage = SchemaStorage(metadata, factory.bookkeeper, factory.config.quorums)
        self.schemas = TopicSchemas(SchemaRegistry(storage, factory.clock_ms))
        self._loading: dict[str, asyncio.Task[Topic]] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._partition_counts: dict[str, int] = {}
        self._instance = ""
        self._names_given = 0
        self._is_closed = False
        self._rates: asyncio.TimerHandle | None = None
        self._rates_rolled_s = time.monotonic()

    async def warm_up(self) -> None:
        """Once, before clients come. Raises PulsarError."""
        with storage_faults_told():
            self._instance = str(await broker_instance(self._metadata))
        self.policies.start()
        self._rates_rolled_s = time.monotonic()
        self._rates = asyncio.get_running_loop().call_later(RATE_PERIOD_SECONDS, self._roll_rates)

    def new_producer_name(self) -> str:
        """`cluster-instance-number`, unique in the cluster (DistributedIdGenerator)."""
        name = f"{self.settings.cluster_name}-{self._instance or 0}-{self._names_given}"
        self._names_given += 1
        return name

    # --- what exists -------------------------------------------------------------------------------------------------

    async def namespace_exists(self, namespace: str) -> bool:
        """Raises PulsarError."""
        with storage_faults_told():
            return await self.policies.namespaces.get(namespace) is not None

    async def topic_exists(self, name: TopicName) -> bool:
        """Raises PulsarError."""
        if name.full in self.topics:
            return True
        if not name.is_persistent:
            return False
        with storage_faults_told():
            return await self._factory.exists(name.managed_ledger_name)

    async def topics_of(self, namespace: str) -> list[str]:
        """Full names of the persistent topics, partitions one by one, sorted. Raises PulsarError."""
        with storage_faults_told():
            try:
                children = await self._metadata.children(paths.topics_path(namespace))
            except NoNodeError:
                return []
        return sorted(f"{PERSISTENT}://{namespace}/{decode_local(child)}" for child in children)

    def partition_count(self, name: TopicName) -> int:
        """0: not partitioned, or not known to be (see `load_partition_count`)."""
        return self._partition_counts.get(name.full, 0)

    async def load_partition_count(self, name: TopicName) -> int:
        """From the record below /admin/partitioned-topics. Raises PulsarError."""
        path = paths.partitioned_topic_path(name.namespace, name.domain, encode_local(name.local_name))
        with storage_faults_told():
            record = await self._metadata.get(path)
        if record is None:
            self._partition_counts.pop(name.full, None)
            return 0
        try:
            count = int(json.loads(record.value)["partitions"])
        except (ValueError, KeyError, TypeError) as error:
            raise MetadataFault(f"{path} is not the record of a partitioned topic") from error
        self._partition_counts[name.full] = count
        return count

    # --- loading -----------------------------------------------------------------------------------------------------

    def loaded(self, name: TopicName) -> Topic | None:
        return self.topics.get(name.full)

    async def get_topic(self, name: TopicName, *, create: bool) -> Topic:
        """Raises PulsarError: TopicNotFound (also for a namespace that does not exist), NotAllowed, ServiceNotReady
        when it takes longer than `topic_load_timeout_seconds` (the load goes on)."""
        topic = self.topics.get(name.full)
        if topic is not None:
            return topic
        if self._is_closed:
            raise ServiceNotReady("The broker is shutting down")
        if not name.is_persistent:
            raise NotAllowed("Non-persistent topics are not supported yet")
        await self._check_may_load(name, create)
        task = self._loading.get(name.full)
        if task is None:
            task = self._loading[name.full] = asyncio.get_running_loop().create_task(self._load(name))
            task.add_done_callback(partial(_log_failure, f"{name.full}: loading"))
        done, _ = await asyncio.wait([task], timeout=self.settings.topic_load_timeout_seconds)
        if not done:
            raise ServiceNotReady(f"Topic {name.full} is still being loaded")
        return task.result()

    async def _check_may_load(self, name: TopicName, create: bool) -> None:
        if name.full in self._loading:
            return
        if not await self.namespace_exists(name.namespace):
            raise TopicNotFound("Namespace not found")
        if not create and not await self.topic_exists(name):
            raise TopicNotFound(f"Topic {name.full} not found")

    async def _load(self, name: TopicName) -> Topic:
        try:
            closing = self._closing.get(name.full)
            if closing is not None:
                await asyncio.wait([closing])
            with storage_faults_told():
                await self.policies.load(name)
                # With its retention from the first moment: opening trims.
                config = ledger_config(self._factory.config, self.policies.of(name))
                ledger = await self._factory.open(name.managed_ledger_name, config)
            topic = Topic(
                name,
                ledger,
                self.settings,
                new_producer_name=self.new_producer_name,
                close_ledger=partial(self._factory.close_ledger, name.managed_ledger_name),
                on_lost=self._lost,
                policies=self.policies.of(name, ledger.properties),
            )
            topic.schemas = self.schemas
            await self._prepare(topic)
            if self._is_closed:
                await topic.close()
                raise ServiceNotReady("The broker is shutting down")
            self.topics[name.full] = topic
            log.info("%s: loaded with %d subscriptions", topic, len(topic.subscriptions))
            return topic
        finally:
            del self._loading[name.full]

    async def _prepare(self, topic: Topic) -> None:
        try:
            with storage_faults_told():
                await topic.prepare()
        except BaseException:
            await topic.close()
            raise
        topic.set_policies(self.policies.of(topic.name, topic.ledger.properties))  # they may have changed meanwhile

    def _policies_changed(self, namespace: str) -> None:
        """Its loaded topics follow."""
        for topic in list(self.topics.values()):
            if topic.name.namespace == namespace:
                topic.set_policies(self.policies.of(topic.name, topic.ledger.properties))

    @property
    def all_topics(self) -> list[BaseTopic]:
        """Those that are loaded, of both domains."""
        return [*self.topics.values()]

    # --- unloading and deleting --------------------------------------------------------------------------------------

    async def unload(self, topic: Topic) -> None:
        """Closes it; its clients come back and load it anew. Raises PulsarError."""
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
        """Takes the topic out of use at once; a load that is asked for meanwhile waits."""
        full_name = topic.name.full
        del self.topics[full_name]
        work = self._close_and_delete(topic) if delete else topic.close()
        task = self._closing[full_name] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._closing.pop(full_name))
        task.add_done_callback(partial(_log_failure, f"{full_name}: closing"))
        return task

    async def _close_and_delete(self, topic: Topic) -> None:
        await topic.close()
        with storage_faults_told():
            await self._factory.delete(topic.name.managed_ledger_name)
        log.info("%s: deleted", topic)

    async def delete_topic(self, name: TopicName, force: bool = False) -> None:
        """Raises TopicNotFound, TopicBusy, PulsarError."""
        topic = self.topics.get(name.full)
        if topic is None:
            if not await self.topic_exists(name):
                raise TopicNotFound(f"Topic {name.full} not found")
            topic = await self.get_topic(name, create=False)
        if not force and topic.producers:
            raise TopicBusy("Topic has active producers/subscriptions")
        if not force and topic.subscriptions:
            raise TopicBusy("Topic has active producers/subscriptions")
        if self.topics.get(name.full) is not topic:
            raise ServiceNotReady(f"Topic {name.full} is being unloaded")
        await asyncio.shield(self._close_task(topic, delete=True))

    async def delete_unused(self, topic: BaseTopic) -> None:
        """Deletes it, unless somebody began to use it. Raises PulsarError."""
        mode = topic.policies.inactive_topic_policies.delete_mode
        if topic.is_open and not is_active(topic.use(), mode):
            await self.delete_topic(topic.name, force=True)

    async def close(self) -> None:
        """Stores what topics have not stored. Clients are not told: their connections end. Idempotent."""
        self._is_closed = True
        self.policies.close()
        if self._rates is not None:
            self._rates.cancel()
        if self._loading:
            await asyncio.wait(self._loading.values())
        permits = asyncio.Semaphore(CLOSE_CONCURRENCY_MAX)

        async def close_one(topic: Topic) -> None:
            async with permits:
                await topic.close()

        topics, self.topics = list(self.topics.values()), {}
        await asyncio.gather(*map(close_one, topics))
        if self._closing:
            await asyncio.wait(self._closing.values())

    # --- rates -------------------------------------------------------------------------------------------------------

    def _roll_rates(self) -> None:
        now_s = time.monotonic()
        elapsed_s, self._rates_rolled_s = now_s - self._rates_rolled_s, now_s
        for topic in self.topics.values():
            topic.roll_rates(elapsed_s)
        self._rates = asyncio.get_running_loop().call_later(RATE_PERIOD_SECONDS, self._roll_rates)


def _log_failure(what: str, task: "asyncio.Task[Any]") -> None:
    """Also where nobody waits for the task any more."""
    if not task.cancelled() and task.exception() is not None:
        log.warning("%s failed: %s", what, task.exception())
