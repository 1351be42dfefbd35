"""The bundles that a broker of a cluster owns. Each owned bundle is a lock, /namespace/{tenant}/{namespace}/{range}.

Whether this broker owns a bundle is decided in memory. The owners of other bundles are read from their locks. Copies of
these locks are kept and follow the store by a watch; while the metadata store cannot be reached, answers come from the
copies.

Sources: OwnershipCache, OwnedBundle, LockManagerImpl.
"""

import asyncio
import logging
from enum import Enum
from functools import partial

from magnetar.metadata import paths
from magnetar.metadata.coordination.lock_errors import LockBusyError
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.coordination.resource_lock import ResourceLock
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, BundleOwner, parse_owner
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ranges import hash_of
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.namespaces.departures import Departures
from magnetar.server.namespaces.ownership import BundleListener, being_unloaded, being_unloaded_topic, not_served
from magnetar.server.process.storage_faults import storage_faults_told
from pulsar_proto.errors import MalformedRecord, MetadataFault
from pulsar_proto.names import TopicName

log = logging.getLogger(__name__)

RELEASE_SECONDS_MAX = 10.0
"""How long a caller waits for the deletion of a lock. Without a connection to the metadata store the caller does not
wait."""
OWNERS_CACHED_MAX = 50_000
"""How many answers about other brokers' locks are kept. A full cache drops the least recently used answer."""


class BundleState(Enum):
    """The states of a bundle that this broker owns."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    """The broker is about to give the bundle away, and accepts no new clients for the bundle's topics."""


class OwnedBundle:
    """One bundle that this broker owns."""

    __slots__ = ("lock", "name", "state")

    def __init__(self, name: BundleName, lock: ResourceLock) -> None:
        self.name = name
        self.lock = lock
        self.state = BundleState.ACTIVE


class BundleOwnership:
    """The `Ownership` of a broker in a cluster, by locks. One object serves the process. All calls are made on the
    loop's thread."""

    is_sole = False

    def __init__(
        self, bundles: BundleCache, *, store: MetadataStore, locks: LockManager, addresses: BrokerAddresses
    ) -> None:
        self.bundles = bundles
        self.addresses = addresses
        self._store = store
        self._locks = locks
        self._releasing: set[asyncio.Task[None]] = set()
        self._value = BundleOwner(addresses).value()
        self._owned: dict[BundleName, OwnedBundle] = {}
        self._by_namespace: dict[str, dict[BundleName, OwnedBundle]] = {}
        self._acquiring: dict[BundleName, asyncio.Task[None]] = {}
        self._owners: RecordCache[BundleOwner] = RecordCache(
            store, paths.NAMESPACE_OWNERS, _parse, cached_max=OWNERS_CACHED_MAX
        )
        self.departures = Departures()
        self._gained: list[BundleListener] = []
        self._lost: list[BundleListener] = []
        self._is_closed = False

    def start(self) -> None:
        self.bundles.start()
        self._owners.start()

    def take_no_more(self) -> None:
        self._is_closed = True

    def close(self) -> None:
        """Ends the watches. From now on no bundle is acquired. The locks end with the lock manager or the session."""
        self.take_no_more()
        self._owners.close()
        self.bundles.close()

    @property
    def broker_id(self) -> str:
        return self.addresses.broker_id

    # --- what this broker owns, in memory ----------------------------------------------------------------------------

    def owns(self, topic: TopicName) -> bool:
        owned = self._find(topic)
        return owned is not None and owned.state is BundleState.ACTIVE

    def check_now(self, topic: TopicName) -> None:
        owned = self._find(topic)
        if owned is not None and owned.state is BundleState.INACTIVE:
            raise being_unloaded_topic(topic)
        if owned is None:
            known = self.bundles.cached(topic.namespace)
            bundle = BundleName(topic.namespace, "?") if known is None else known.of_topic(topic.full)
            raise not_served(bundle, topic, self.broker_id)

    def _find(self, topic: TopicName) -> OwnedBundle | None:
        """Returns the bundle of the topic if this broker owns it. During a split, a topic is in the old bundle and in a
        new bundle; the active one of the two is returned."""
        topic_hash = hash_of(topic.full)
        found: OwnedBundle | None = None
        for name, owned in self._by_namespace.get(topic.namespace, {}).items():
            if name.includes(topic_hash):
                if owned.state is BundleState.ACTIVE:
                    return owned
                found = owned
        return found

    def owned_bundles(self) -> list[BundleName]:
        return list(self._owned)

    def is_active(self, bundle: BundleName) -> bool:
        owned = self._owned.get(bundle)
        return owned is not None and owned.state is BundleState.ACTIVE

    # --- questions that may need the metadata store ------------------------------------------------------------------

    async def check(self, topic: TopicName) -> None:
        owned = self._find(topic)
        if owned is not None:
            await self.departures.wait(owned.name)
            if self.owns(topic):
                return
            if owned.name in self.departures:
                raise being_unloaded_topic(topic)
        bundle = await self.bundle_of(topic)
        await self.owner_of(bundle)  # takes a lock that is in this broker's name
        if not self.owns(topic):
            raise not_served(bundle, topic, self.broker_id)

    async def bundle_of(self, topic: TopicName) -> BundleName:
        return await self.bundles.of_topic(topic)

    async def owner_of(self, bundle: BundleName) -> BrokerAddresses | None:
        own = await self._own_address(bundle)
        if own is not None:
            return own
        with storage_faults_told():
            copy = await self._owners.get(_path(bundle))
        own = await self._own_address(bundle)  # this broker may have become the owner meanwhile
        if own is not None or copy is None:
            return own
        owner = copy.value
        if owner.is_disabled:
            raise being_unloaded(bundle)
        if self._is_own(owner):
            # The lock is from before a restart of this broker, or has outlived its release.
            self._owners.forget(_path(bundle))
            await self.acquire(bundle)
            return self.addresses
        return owner.broker

    async def _own_address(self, bundle: BundleName) -> BrokerAddresses | None:
        """Waits for an acquisition of the bundle that is under way, and returns this broker's addresses if this broker
        owns the bundle, otherwise None. Raises MetadataFault when the bundle is being unloaded."""
        under_way = self._acquiring.get(bundle)
        if under_way is not None:
            await asyncio.wait((under_way,))
        owned = self._owned.get(bundle)
        if owned is None:
            return None
        if owned.state is BundleState.INACTIVE:
            raise being_unloaded(bundle)
        return self.addresses

    def _is_own(self, owner: BundleOwner) -> bool:
        return owner.broker.urls == self.addresses.urls and owner.broker.listeners == self.addresses.listeners

    # --- taking and giving -------------------------------------------------------------------------------------------

    async def acquire(self, bundle: BundleName) -> None:
        if await self._own_address(bundle) is not None:
            return
        await self._check_exists(bundle)
        await self.acquire_part(bundle)
        try:
            await self._check_exists(bundle)
        except MetadataFault:
            # A split replaced the bundle while the lock was acquired.
            if self.deactivate(bundle):
                await self.release(bundle)
            raise

    async def acquire_part(self, bundle: BundleName) -> None:
        """Acquires a bundle like `acquire`, even if the bundle does not exist yet, because a split is about to make
        it."""
        if bundle in self._owned:
            return
        task = self._acquiring.get(bundle)
        if task is None:
            task = self._acquiring[bundle] = asyncio.get_running_loop().create_task(self._acquire(bundle))
            task.add_done_callback(lambda _: self._acquiring.pop(bundle, None))
        # The cancellation of one caller must leave neither the other callers without an answer nor a lock without an
        # owner.
        await asyncio.wait((task,))
        task.result()

    async def _acquire(self, bundle: BundleName) -> None:
        if self._is_closed:
            raise MetadataFault(f"Failed to acquire ownership for namespace bundle {bundle}: the broker stops")
        try:
            lock = await self._locks.acquire(_path(bundle), self._value, is_same=_is_same)
            if self._is_closed:
                await lock.release()
        except LockBusyError as error:
            self._owners.forget(_path(bundle))
            raise MetadataFault(f"Failed to acquire ownership for namespace bundle {bundle}") from error
        except MetadataError as error:
            raise MetadataFault(f"Failed to acquire ownership for namespace bundle {bundle}: {error}") from error
        if not lock.is_held:
            raise MetadataFault(f"Failed to acquire ownership for namespace bundle {bundle}")
        owned = OwnedBundle(bundle, lock)
        self._owned[bundle] = owned
        self._by_namespace.setdefault(bundle.namespace, {})[bundle] = owned
        lock.on_lost(partial(self._lock_lost, owned))
        log.info("%s: owned by this broker", bundle)
        _tell(self._gained, bundle)

    async def _check_exists(self, bundle: BundleName) -> None:
        if bundle not in await self.bundles.get(bundle.namespace):
            raise MetadataFault(f"Namespace bundle {bundle} does not exist any more, it was split")

    def deactivate(self, bundle: BundleName) -> bool:
        owned = self._owned.get(bundle)
        if owned is None or owned.state is BundleState.INACTIVE:
            return False
        owned.state = BundleState.INACTIVE
        self.departures.begin(bundle)
        return True

    def activate(self, bundle: BundleName) -> None:
        owned = self._owned.get(bundle)
        if owned is not None:
            owned.state = BundleState.ACTIVE
            self.departures.end(bundle)

    async def release(self, bundle: BundleName) -> None:
        owned = self._owned.get(bundle)
        if owned is None:
            return
        assert owned.state is BundleState.INACTIVE, f"{bundle} is released before it was deactivated"
        releasing = asyncio.get_running_loop().create_task(owned.lock.release())
        self._releasing.add(releasing)
        releasing.add_done_callback(self._released)
        try:
            await asyncio.wait((releasing,), timeout=RELEASE_SECONDS_MAX if self._store.is_connected else 0)
            if not releasing.done():
                raise MetadataFault(f"{paths.NAMESPACE_OWNERS}/{bundle}: the metadata store does not answer")
            with storage_faults_told():
                releasing.result()
        finally:
            # If the store did not answer, the lock continues to try the deletion of its record.
            if self._drop(owned):
                log.info("%s: not owned by this broker any more", bundle)
                _tell(self._lost, bundle)

    def _released(self, task: "asyncio.Task[None]") -> None:
        self._releasing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("a bundle's lock goes as soon as the metadata store answers: %s", task.exception())

    def _lock_lost(self, owned: OwnedBundle) -> None:
        if self._drop(owned):
            log.warning("%s: another broker has taken it", owned.name)
            _tell(self._lost, owned.name)

    def fenced(self, topic: TopicName) -> None:
        owned = self._find(topic)
        if owned is not None and not self._store.is_connected:
            # The watch of the lock cannot tell what has happened. When the connection is back, the lock is looked at,
            # and the bundle is taken again if nobody has it.
            log.warning("%s: a topic was taken over while the metadata store is away: not owned any more", owned.name)
            if self._drop(owned):
                _tell(self._lost, owned.name)

    def _drop(self, owned: OwnedBundle) -> bool:
        if self._owned.get(owned.name) is not owned:
            return False
        del self._owned[owned.name]
        held = self._by_namespace[owned.name.namespace]
        del held[owned.name]
        if not held:
            del self._by_namespace[owned.name.namespace]
        self._owners.forget(_path(owned.name))
        self.departures.end(owned.name)
        return True

    def on_gained(self, listener: BundleListener) -> None:
        self._gained.append(listener)

    def on_lost(self, listener: BundleListener) -> None:
        self._lost.append(listener)


def _path(bundle: BundleName) -> str:
    return paths.bundle_owner_path(bundle.namespace, bundle.range)


def _parse(path: str, value: bytes) -> BundleOwner:
    try:
        return parse_owner(value)
    except MalformedRecord as error:
        raise MetadataFault(f"{path}: {error}") from error


def _is_same(one: bytes, other: bytes) -> bool:
    """Returns whether two records name the same broker, even if their JSON texts differ
    (NamespaceEphemeralData.equals)."""
    try:
        return parse_owner(one) == parse_owner(other)
    except MalformedRecord:
        return False


def _tell(listeners: list[BundleListener], bundle: BundleName) -> None:
    for listener in listeners:
        try:
            listener(bundle)
        except Exception:
            log.exception("%s: a listener failed", bundle)
