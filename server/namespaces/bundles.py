"""The bundles of namespaces. They are read from the local policies, kept in memory, and read again after the local
policies have changed.

The local policies of a namespace, /admin/local-policies/{tenant}/{namespace}, have the authoritative boundaries. When a
broker first asks for the bundles of a namespace without this record, the broker makes the record with the boundaries of
the namespace's policies. A namespace without any policies has one bundle. Sources: NamespaceBundleFactory,
LocalPoliciesResources.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.compare_and_set import ATTEMPTS_MAX, rounds_lost
from magnetar.metadata.coordination.cache_rules import Copy
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.errors import NodeExistsError, OutcomeUnknownError
from magnetar.metadata.store import MetadataStore
from magnetar.server.namespaces.bundle_name import BundleName, heartbeat_broker, sla_broker
from magnetar.server.namespaces.bundle_ranges import LAST, fault_of_boundaries, hash_of, numbers_of
from magnetar.server.policies.namespace_records import parse_object
from magnetar.server.process.storage_faults import storage_faults_told
from pulsar_proto.errors import MetadataFault
from pulsar_proto.names import TopicName

CACHED_MAX = 10_000
"""The number of namespaces whose bundles are kept. A full cache drops the least recently used namespace."""

A_LOCAL_POLICY = "the record of a namespace's local policies"

Boundaries = tuple[int, ...]
WHOLE: Boundaries = (0, LAST)
"""The boundaries of a namespace that has one bundle."""

ReadPolicies = Callable[[str], Awaitable[Mapping[str, Any] | None]]
"""Returns the policies of a namespace, or None when there is no such namespace."""


@dataclass(frozen=True)
class NamespaceBundles:
    """The bundles of one namespace, in ascending order."""

    namespace: str
    boundaries: Boundaries
    version: int | None
    """The version of the record of local policies that has these boundaries, or None when there is no such record. A
    split writes the record only if the record still has this version."""

    @property
    def all(self) -> list[BundleName]:
        return [self._at(index) for index in range(len(self.boundaries) - 1)]

    @property
    def texts(self) -> list[str]:
        """The boundaries in the format of records and REST answers."""
        return [f"0x{number:08x}" for number in self.boundaries]

    def of_topic(self, full_name: str) -> BundleName:
        """Returns the bundle of a topic. `full_name` includes the partition suffix."""
        return self.of_hash(hash_of(full_name))

    def of_hash(self, topic_hash: int) -> BundleName:
        return self._at(min(bisect_right(self.boundaries, topic_hash), len(self.boundaries) - 1) - 1)

    def _at(self, index: int) -> BundleName:
        return BundleName.of(self.namespace, self.boundaries[index], self.boundaries[index + 1])

    def __contains__(self, bundle: object) -> bool:
        return (
            isinstance(bundle, BundleName)
            and bundle.namespace == self.namespace
            and self.of_hash(bundle.bounds[0]) == bundle
        )


class BundleCache:
    """The cache of the bundles of namespaces. One object serves the process. All calls are made on the loop's
    thread."""

    def __init__(self, store: MetadataStore, policies_of: ReadPolicies) -> None:
        self._store = store
        self._policies_of = policies_of
        self._records: RecordCache[Boundaries] = RecordCache(
            store, paths.LOCAL_POLICIES, _parse, on_change=self._changed, cached_max=CACHED_MAX
        )
        self._made: dict[str, NamespaceBundles] = {}
        """The bundles by namespace, made from the copies in `_records`."""
        self._listeners: list[Callable[[NamespaceBundles], None]] = []

    def start(self) -> None:
        """Begins to watch the records. Until then every `get` reads from the metadata store."""
        self._records.start()

    def close(self) -> None:
        self._records.close()

    def on_change(self, listener: Callable[[NamespaceBundles], None]) -> None:
        """Calls `listener` with the bundles of a namespace each time when they were read and differ from the bundles
        that were known before. The listener must not raise and must not block."""
        self._listeners.append(listener)

    def cached(self, namespace: str) -> NamespaceBundles | None:
        """Returns the bundles if they are in memory, otherwise None."""
        return self._made.get(namespace)

    def fresh(self, namespace: str) -> NamespaceBundles | None:
        """Returns the bundles that `get` would return without asking the metadata store, or None when `get` may have to
        ask."""
        copy = self._records.fresh(paths.local_policies_path(namespace))
        return self._bundles(namespace, copy) if copy is not None and copy.value else None

    @property
    def namespaces(self) -> list[str]:
        """The namespaces whose bundles are in memory."""
        return list(self._made)

    async def get(self, namespace: str) -> NamespaceBundles:
        """Returns the bundles of a namespace. Writes the local policies first if they do not exist yet. Raises
        PulsarError when the metadata store fails or a record cannot be decoded."""
        if heartbeat_broker(namespace) or sla_broker(namespace):
            return NamespaceBundles(namespace, WHOLE, None)
        path = paths.local_policies_path(namespace)
        with storage_faults_told():
            for _ in range(ATTEMPTS_MAX):
                copy = await self._records.get(path)
                if copy is not None and copy.value:
                    return self._bundles(namespace, copy)
                policies = await self._policies_of(namespace)
                bundles = _boundaries_in(paths.policies_path(namespace), policies or {}) or WHOLE
                if copy is not None or policies is None:
                    return NamespaceBundles(namespace, bundles, None if copy is None else copy.stat.version)
                with suppress(NodeExistsError, OutcomeUnknownError):  # another broker made the record
                    await self._store.create(path, _first_record(bundles), make_parents=True)
                self.forget(namespace)
            raise rounds_lost(path)

    async def of_topic(self, topic: TopicName) -> BundleName:
        """Returns the bundle of a topic. Raises the errors of `get`."""
        return (await self.get(topic.namespace)).of_topic(topic.full)

    async def refresh(self, namespace: str) -> NamespaceBundles:
        """Reads the namespace's bundles from the metadata store now. Raises the errors of `get`."""
        self.forget(namespace)
        return await self.get(namespace)

    def forget(self, namespace: str) -> None:
        """Drops the cached bundles of a namespace, so that the next `get` reads them again."""
        self._records.forget(paths.local_policies_path(namespace))
        self._made.pop(namespace, None)

    def _bundles(self, namespace: str, copy: Copy[Boundaries]) -> NamespaceBundles:
        made = self._made.get(namespace)
        if made is None or (made.boundaries, made.version) != (copy.value, copy.stat.version):
            made = NamespaceBundles(namespace, copy.value, copy.stat.version)
            if self._records.cached(paths.local_policies_path(namespace)) is copy:
                if len(self._made) >= CACHED_MAX:
                    del self._made[next(iter(self._made))]
                self._made[namespace] = made
                for listener in self._listeners:
                    listener(made)
        return made

    def _changed(self, path: str) -> None:
        namespace = path.removeprefix(f"{paths.LOCAL_POLICIES}/")
        copy = self._records.cached(path)
        if copy is None or not copy.value:
            self._made.pop(namespace, None)
        else:
            self._bundles(namespace, copy)


def _boundaries_in(path: str, record: Mapping[str, Any]) -> Boundaries:
    """Returns the boundaries in a record of policies or local policies, or an empty tuple when the record has no
    boundaries. Raises MetadataFault when the boundaries are invalid."""
    bundles = record.get("bundles")
    texts = bundles.get("boundaries") if isinstance(bundles, dict) else None
    if not texts:
        return ()
    fault = fault_of_boundaries(texts)
    if fault is not None:
        raise MetadataFault(f"{path}: {fault}")
    return tuple(numbers_of(texts))


def _parse(path: str, value: bytes) -> Boundaries:
    return _boundaries_in(path, parse_object(path, value, A_LOCAL_POLICY))


def bundles_value(boundaries: Sequence[int]) -> dict[str, Any]:
    """Returns the boundaries in the format of policies and local policies (BundlesData)."""
    return {"boundaries": [f"0x{number:08x}" for number in boundaries], "numBundles": len(boundaries) - 1}


def _first_record(boundaries: Sequence[int]) -> bytes:
    return to_json({"bundles": bundles_value(boundaries), "migrated": False})
