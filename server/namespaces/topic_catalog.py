"""Knows from the metadata records which namespaces and topics exist, and decides which topics are created when a client
uses them.

A namespace has a record below /admin/policies, a persistent topic has a record below /managed-ledgers, and a
partitioned topic has a record below /admin/partitioned-topics. A non-persistent topic exists only while it is loaded.

Sources: BrokerService.isAllowAutoTopicCreationAsync, fetchPartitionedTopicMetadataCheckAllowAutoCreationAsync,
checkMaxTopicsPerNamespace, NamespaceService.checkTopicExists; PIP-414.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from magnetar.metadata import paths
from magnetar.metadata.errors import NodeExistsError, NoNodeError
from magnetar.metadata.long_lists import sorted_in_portions
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.bundle_name import heartbeat_broker
from magnetar.server.namespaces.partitioned_topics import PartitionedTopics
from magnetar.server.policies.policies import Policies, is_exempt
from magnetar.server.process.fresh_results import FreshResults
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.turns import in_slices
from pulsar_proto.errors import NotAllowed, TopicNotFound
from pulsar_proto.names import PERSISTENT, TopicName, decode_local
from pulsar_proto.system_topics import is_system_name, is_system_topic, is_transaction_log

NAMESPACE_NOT_FOUND = "Namespace not found"

CREATED_AT_ONCE = 100
"""How many partitions' records are created at the same time, so that they share a commit of the metadata file."""

NEVER_PARTITIONED = ("-DLQ", "-RETRY")
"""The ends of the names of dead letter and retry topics, which clients expect to be unpartitioned."""

LoadedNames = Callable[[], Collection[str]]
"""Returns the full names of the topics that are loaded. The test whether a name is among them must not cost more when
there are more names."""


class TopicCatalog:
    """Knows which namespaces and topics exist. One object serves the process. All calls are made on the loop's thread.
    All async methods raise PulsarError when the metadata store fails."""

    def __init__(
        self, metadata: MetadataStore, policies: Policies, settings: TopicSettings, loaded: LoadedNames
    ) -> None:
        self.partitioned = PartitionedTopics(metadata)
        self._metadata = metadata
        self._policies = policies
        self._settings = settings
        self._loaded = loaded
        self._lists: FreshResults[Sequence[str]] = FreshResults(self._list)
        self._creating: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """Namespace -> who creates topics in it, for namespaces with a limit of topics."""

    # --- existing namespaces and topics ------------------------------------------------------------------------------

    async def namespace_exists(self, namespace: str) -> bool:
        if heartbeat_broker(namespace) is not None:
            return True  # a broker's own namespace has no policies (NamespaceService.isHeartbeatNamespace)
        namespaces = self._policies.namespaces
        with storage_faults_told():
            if await namespaces.get(namespace) is not None:
                return True
            # Another broker may have created the namespace a moment ago. A client that has heard of the namespace from
            # that broker must not be refused here.
            await namespaces.refresh(namespace)
            return namespaces.cached(namespace) is not None

    def knows_namespace(self, namespace: str) -> bool:
        """Whether it is known, without asking the metadata store, that the namespace exists."""
        return self._policies.namespaces.fresh(namespace) is not None

    async def check_namespace(self, namespace: str) -> None:
        """Raises TopicNotFound when there is no such namespace."""
        if self.knows_namespace(namespace):
            return  # the usual case: a client's way to its topic asks three times
        if not await self.namespace_exists(namespace):
            raise TopicNotFound(NAMESPACE_NOT_FOUND)

    async def topic_exists(self, name: TopicName) -> bool:
        """Returns whether a topic of this name exists that can have messages. Returns False for a partitioned topic
        itself, because only its partitions have messages."""
        if name.full in self._loaded():
            return True
        if not name.is_persistent:
            return False
        with storage_faults_told():
            return await self._metadata.exists(paths.managed_ledger_path(name.managed_ledger_name)) is not None

    async def topics_of(self, namespace: str) -> Sequence[str]:
        """Returns the full names of the namespace's persistent topics, sorted; each partition is a topic, and a log of
        transactions is none. Callers that ask at the same time share one list, so they must not change it: a namespace
        may have so many topics that the lists of a few callers would fill the memory."""
        return await self._lists.get(namespace)

    async def _list(self, namespace: str) -> list[str]:
        with storage_faults_told():
            try:
                children = await self._metadata.children(paths.topics_path(namespace))
            except NoNodeError:
                return []
        prefix = f"{PERSISTENT}://{namespace}/"
        names: list[str] = []
        async for some in in_slices(children):
            names += [prefix + local for local in map(decode_local, some) if not is_transaction_log(local)]
        return await sorted_in_portions(names)

    async def count_topics(self, namespace: str) -> int:
        """Returns how many persistent topics the namespace has, system topics among them, without listing them."""
        with storage_faults_told():
            stat = await self._metadata.exists(paths.topics_path(namespace))
        return 0 if stat is None else stat.child_count

    def non_persistent_topics_of(self, namespace: str) -> list[str]:
        """Returns the full names of the namespace's non-persistent topics that are loaded, sorted."""
        prefix = f"non-persistent://{namespace}/"
        return sorted(name for name in self._loaded() if name.startswith(prefix))

    # --- partitions --------------------------------------------------------------------------------------------------

    async def partitions_of(self, name: TopicName, *, may_create: bool) -> int:
        """Returns the number of partitions, or 0 for a topic that is not partitioned. If the topic is missing,
        `may_create` is set and the namespace wants partitioned topics, this creates the topic with its partitions. If
        the namespace wants topics without partitions, this returns 0, and PRODUCER or SUBSCRIBE will create the topic.
        Raises TopicNotFound when the topic does not exist and is not created, and NotAllowed when the name is not
        allowed or the partitions would exceed the namespace's limit."""
        await self.check_namespace(name.namespace)
        with storage_faults_told():
            known = await self.partitioned.get(name)
        if known is not None:
            return known.partitions
        if await self.topic_exists(name):
            return 0
        if not may_create or not await self.may_create(name):
            raise TopicNotFound(f"Topic {name.full} not found")
        wanted = await self._default_partitions(name)
        if wanted == 0:
            return 0
        async with self.creating(name):
            with storage_faults_told():
                made = await self.partitioned.get(name)
            if made is None:
                await self.check_room(name, wanted)
                await self.create_partitioned(name, wanted)
        with storage_faults_told():
            made = await self.partitioned.get(name)
        return 0 if made is None else made.partitions

    async def _default_partitions(self, name: TopicName) -> int:
        if name.is_partition or name.local_name.endswith(NEVER_PARTITIONED) or is_exempt(name):
            return 0
        with storage_faults_told():
            record = await self._policies.namespaces.get(name.namespace)
        return self._policies.auto_topic_creation(record).partitions

    async def create_partitioned(
        self, name: TopicName, partitions: int, properties: Mapping[str, str] | None = None
    ) -> bool:
        """Creates a partitioned topic with its partitions. Returns False when the partitioned topic exists already."""
        with storage_faults_told():
            if not await self.partitioned.create(name, partitions, properties):
                return False
        await self.create_missing_partitions(name, partitions)
        return True

    async def create_missing_partitions(self, name: TopicName, partitions: int) -> None:
        """Creates the records of partitions that are missing. A partition is loaded on its first use."""
        if not name.is_persistent:
            return
        for start in range(0, partitions, CREATED_AT_ONCE):
            indexes = range(start, min(start + CREATED_AT_ONCE, partitions))
            with storage_faults_told():
                await asyncio.gather(*(self._create_record(name.partition(index)) for index in indexes))

    async def create_limited(self, name: TopicName) -> None:
        """Creates the record of a persistent topic that is loaded afterwards, unless another caller has created it
        meanwhile. Raises NotAllowed when the topic would exceed the namespace's limit."""
        async with self.creating(name):
            if not await self.topic_exists(name):
                await self.check_room(name)
                with storage_faults_told():
                    await self._create_record(name)

    async def _create_record(self, name: TopicName) -> None:
        with contextlib.suppress(NodeExistsError):
            await self._metadata.create(paths.managed_ledger_path(name.managed_ledger_name), make_parents=True)

    # --- permission to create ----------------------------------------------------------------------------------------

    async def may_create(self, name: TopicName) -> bool:
        """Returns whether a missing topic is created when a client uses it. Returns False in a namespace that is
        missing or being deleted. In other namespaces, returns True for a system topic, and for a partition of an
        existing partitioned topic unless that is being deleted; for all other topics the namespace's rules decide.
        Raises NotAllowed for a name that no new topic may have, which is the name of a partitioned topic, or of a
        partition that the partitioned topic does not have (PIP-414)."""
        with storage_faults_told():
            base = await self.partitioned.get(name.base)
            record = await self._policies.namespaces.get(name.namespace)
        if heartbeat_broker(name.namespace) is not None:
            return True
        if record is None or record.get("deleted"):
            return False
        if base is not None and name.is_partition:
            if name.partition_index >= base.partitions:
                raise NotAllowed(
                    f"Illegal topic partition name {name.full} with max allowed {base.partitions} partitions"
                )
            return not base.deleted
        if base is not None:
            raise NotAllowed(f"{name.full} is a partitioned topic: its messages are in its partitions")
        return is_system_topic(name) or self._policies.auto_topic_creation(record).allowed

    async def is_limited(self, name: TopicName) -> bool:
        """Returns whether `check_room` may refuse the topic."""
        return await self._limit_for(name) > 0

    @asynccontextmanager
    async def creating(self, name: TopicName) -> AsyncIterator[None]:
        """Lets one caller at a time create topics in a namespace with a limit. Within the block, the caller calls
        `check_room` and creates the topics or their records: otherwise two callers could count the same room for
        themselves. Another broker of the cluster does not wait, so it may exceed the limit, as with Apache's
        brokers."""
        if not await self.is_limited(name):
            yield
            return
        lock = self._creating.setdefault(name.namespace, asyncio.Lock())
        async with lock:
            yield

    async def check_room(self, name: TopicName, topics: int = 1) -> None:
        """Raises NotAllowed when `topics` more topics would exceed the namespace's limit. See `creating`."""
        limit = await self._limit_for(name)
        if limit <= 0:
            return
        topics += len(self.non_persistent_topics_of(name.namespace))
        if await self.count_topics(name.namespace) + topics <= limit:
            return  # system topics, which do not count, need not be told apart
        existing = 0
        async for some in in_slices(await self.topics_of(name.namespace)):
            existing += sum(not is_system_name(each) for each in some)
        if existing + topics > limit:
            raise NotAllowed("Exceed maximum number of topics in namespace.")

    async def _limit_for(self, name: TopicName) -> int:
        """Returns how many topics the topic's namespace may have, or a number below 1 when there is no limit."""
        if is_exempt(name):
            return 0
        with storage_faults_told():
            record = await self._policies.namespaces.get(name.namespace)
        limit = (record or {}).get("max_topics_per_namespace")
        return self._settings.max_topics_per_namespace if limit is None else int(limit)
