"""Unloads bundles (gives them away to other brokers) and splits them.

A bundle is given away in this order: the broker deactivates the bundle in memory, so that no new clients are accepted;
it closes the topics, which stores their state and makes their clients look up again; then it releases the bundle's
lock. A split writes the new boundaries to the local policies, which are authoritative, and then to the policies, whose
boundaries are a copy. During a split this broker owns the old bundle and the new bundles, so clients notice nothing.

Sources: OwnedBundle.handleUnloadRequest, NamespaceService.splitAndOwnBundleOnceAndRetry.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import to_json
from magnetar.metadata.errors import BadVersionError, MetadataError, NoNodeError, OutcomeUnknownError
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.bundle_settings import BundleSettings
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ranges import fault_of_range
from magnetar.server.namespaces.bundles import A_LOCAL_POLICY, NamespaceBundles, bundles_value
from magnetar.server.namespaces.ownership import Ownership, being_unloaded
from magnetar.server.namespaces.split_point_rules import SplitRefused, SplitTask, TopicLoad, split_points
from magnetar.server.policies.namespace_records import NamespaceNotFound, NamespaceRecords, parse_object
from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.process.turns import in_portions
from pulsar_proto.errors import MetadataFault, PulsarError

log = logging.getLogger(__name__)

T = TypeVar("T")

SPLIT_ATTEMPTS_MAX = 8
"""How often a split is tried when other brokers keep changing the namespace's boundaries meanwhile
(BUNDLE_SPLIT_RETRY_LIMIT)."""
SPLIT_PAUSE_SECONDS = 0.1
COPY_ATTEMPTS_MAX = 5
"""How often the write of the boundaries' copy to the namespace's policies is tried. Without the copy the REST calls of
Apache's brokers refuse the new bundles."""
COPY_PAUSE_SECONDS = 1.0
MB = 1 << 20


class TopicsOfBundles(Protocol):
    """Unloads and splits use the topics of a bundle through this interface."""

    async def close(self, bundle: BundleName) -> None:
        """Closes all topics of the bundle."""

    async def loads_of(self, bundle: BundleName) -> list[TopicLoad]:
        """Returns the load of each topic of the bundle, whether the topic is loaded or not. Raises PulsarError when the
        metadata store fails."""


class BundleMoves:
    """Unloads and splits the bundles of this broker. All calls are made on the loop's thread."""

    def __init__(
        self,
        ownership: Ownership,
        topics: TopicsOfBundles,
        store: MetadataStore,
        policies: NamespaceRecords,
        settings: BundleSettings | None = None,
    ) -> None:
        self._ownership = ownership
        self._topics = topics
        self._store = store
        self._policies = policies
        self.settings = settings or BundleSettings()
        self._moving: dict[BundleName, asyncio.Task[Any]] = {}
        """The bundles that are being unloaded or split."""
        self._parts: set[BundleName] = set()
        """The bundles that splits are about to make. This broker owns them before the boundaries are written."""
        ownership.bundles.on_change(self._bundles_changed)
        self._background: set[asyncio.Task[None]] = set()

    # --- unload ------------------------------------------------------------------------------------------------------

    async def unload(self, bundle: BundleName) -> bool:
        """Gives the bundle away, and returns whether this broker owned it. At the next lookup the bundle gets a new
        owner, which may be this broker again. The work continues if the caller is cancelled. Raises PulsarError when
        the metadata store fails; the bundle is not served any more then, and its lock is deleted as soon as the store
        answers."""
        return await self._exclusively(bundle, lambda: self._unload(bundle))

    async def unload_all(self, bundles: Iterable[BundleName] | None = None) -> None:
        """Gives bundles away one after the other, by default all bundles that this broker owns. Failures are logged."""
        for bundle in self._ownership.owned_bundles() if bundles is None else list(bundles):
            try:
                await self.unload(bundle)
            except PulsarError as error:
                log.warning("%s: its lock is left to the end of the session: %s", bundle, error)

    async def _unload(self, bundle: BundleName) -> bool:
        if not self._ownership.deactivate(bundle):
            return False
        timeout_ms = self.settings.namespace_bundle_unloading_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._topics.close(bundle)
        except TimeoutError:
            log.warning("%s: given away although its topics took more than %d ms to close", bundle, timeout_ms)
        except Exception:
            log.exception("%s: given away although its topics could not be closed", bundle)
        await self._ownership.release(bundle)
        return True

    # --- split -------------------------------------------------------------------------------------------------------

    async def split(
        self, bundle: BundleName, algorithm: str = "", positions: Sequence[int] = (), *, unload: bool = False
    ) -> list[BundleName]:
        """Splits a bundle that this broker owns, and returns the new bundles, or an empty list when the algorithm sees
        no reason to split. With `unload` the new bundles are given away afterwards, in the background. The work
        continues if the caller is cancelled. Raises SplitRefused when there is no such bundle or the algorithm refuses,
        and PulsarError when the metadata store fails."""
        made = await self._exclusively(bundle, lambda: self._split(bundle, algorithm, positions))
        if unload and made:
            self._spawn(self.unload_all(made))
        return made

    async def largest(self, namespace: str, topics: Iterable[str]) -> BundleName | None:
        """Returns the bundle with most of these topics, or None when there are no topics. Raises PulsarError when the
        namespace's bundles cannot be read."""
        bundles = await self._ownership.bundles.get(namespace)
        counts = Counter([bundles.of_topic(topic) async for topic in in_portions(topics)])
        return max(counts, key=counts.__getitem__, default=None)

    async def _split(self, bundle: BundleName, algorithm: str, positions: Sequence[int]) -> list[BundleName]:
        algorithm = algorithm or self._default_algorithm
        for attempt in range(SPLIT_ATTEMPTS_MAX):
            if attempt:
                await asyncio.sleep(SPLIT_PAUSE_SECONDS)
            old = await self._ownership.bundles.refresh(bundle.namespace)
            points = split_points(algorithm, await self._task(old, bundle, positions))
            if not points:
                log.info("%s: not split, %s finds no point", bundle, algorithm)
                return []
            parts = _parts(bundle, points)
            cut = tuple(sorted({*old.boundaries, *points}))
            if await self._write(old, bundle, parts, cut):
                await self._finish(bundle, parts, cut)
                return parts
        raise MetadataFault(f"Failed to split {bundle}: its namespace's bundles changed {SPLIT_ATTEMPTS_MAX} times")

    @property
    def _default_algorithm(self) -> str:
        return self.settings.default_namespace_bundle_split_algorithm

    async def _task(self, old: NamespaceBundles, bundle: BundleName, positions: Sequence[int]) -> SplitTask:
        fault = fault_of_range(old.texts, bundle.namespace, bundle.range)
        if fault is not None:
            raise SplitRefused(fault)
        settings, (lower, upper) = self.settings, bundle.bounds
        return SplitTask(
            lower,
            upper,
            await self._topics.loads_of(bundle),
            positions,
            max_messages=settings.load_balancer_namespace_bundle_max_msg_rate,
            max_bytes=settings.load_balancer_namespace_bundle_max_bandwidth_mbytes * MB,
            tolerance=settings.flow_or_qps_difference_threshold_percentage / 100,
        )

    async def _write(
        self, old: NamespaceBundles, bundle: BundleName, parts: list[BundleName], cut: tuple[int, ...]
    ) -> bool:
        """Acquires the new bundles and writes the boundaries. Returns False when another broker has changed the
        boundaries; the new bundles are released then."""
        is_written = False
        self._parts.update(parts)
        try:
            for part in parts:
                await self._ownership.acquire_part(part)
            if not self._ownership.is_active(bundle):
                raise being_unloaded(bundle)
            with storage_faults_told():
                is_written = await self._write_local(old, cut)
            return is_written
        finally:
            if not is_written:
                for part in parts:
                    await self._give_back(part)
            self._parts.difference_update(parts)

    async def _give_back(self, part: BundleName) -> None:
        try:
            if self._ownership.deactivate(part):
                await self._ownership.release(part)
        except PulsarError as error:
            log.warning("%s: its lock goes as soon as the metadata store answers: %s", part, error)

    async def _write_local(self, old: NamespaceBundles, cut: tuple[int, ...]) -> bool:
        """Writes the boundaries to the local policies if these still have the version of `old`. Returns whether the
        boundaries are written. Other keys of the record stay unchanged."""
        path = paths.local_policies_path(old.namespace)
        record = await self._store.get(path)
        if record is None or record.stat.version != old.version:
            return False
        value = parse_object(path, record.value, A_LOCAL_POLICY)
        value["bundles"] = bundles_value(cut)
        try:
            await self._store.put(path, to_json(value), record.stat.version)
        except (BadVersionError, NoNodeError):
            return False
        except OutcomeUnknownError:
            return (await self._ownership.bundles.refresh(old.namespace)).boundaries == cut
        return True

    async def _finish(self, bundle: BundleName, parts: list[BundleName], cut: tuple[int, ...]) -> None:
        """Completes a split after its boundaries are in the local policies: updates the cached bundles, the owned
        bundles and the policies."""
        await self._write_copy(bundle.namespace, cut)
        try:
            await self._ownership.bundles.refresh(bundle.namespace)
        except PulsarError as error:
            log.warning("%s: its bundles cannot be read now: %s", bundle.namespace, error)
        await self._give_back(bundle)
        log.info("%s: split into %s", bundle, ", ".join(part.range for part in parts))

    async def _write_copy(self, namespace: str, cut: tuple[int, ...]) -> None:
        def change(policies: dict[str, Any]) -> None:
            policies["bundles"] = bundles_value(cut)

        for attempt in range(COPY_ATTEMPTS_MAX):
            if attempt:
                await asyncio.sleep(COPY_PAUSE_SECONDS)
            try:
                await self._policies.update(namespace, change)
                return
            except NamespaceNotFound:
                return  # the namespace was deleted meanwhile
            except (MetadataError, MetadataFault) as error:
                log.warning("%s: the copy of its bundles in its policies is not written yet: %s", namespace, error)

    def _bundles_changed(self, bundles: NamespaceBundles) -> None:
        """Gives away bundles that do not exist any more, because their topics belong to other bundles now. This is
        necessary when this broker could not find out whether one of its splits had succeeded."""
        for bundle in self._ownership.owned_bundles():
            is_ours_to_keep = bundle.namespace != bundles.namespace or bundle in bundles or bundle in self._parts
            if not is_ours_to_keep and bundle not in self._moving:
                log.warning("%s: given away, it does not exist any more", bundle)
                self._spawn(self.unload_all([bundle]))

    # --- both --------------------------------------------------------------------------------------------------------

    async def _exclusively(self, bundle: BundleName, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` in its own task, after any other unload or split of the bundle has ended, and returns the
        result."""
        while (other := self._moving.get(bundle)) is not None:
            await asyncio.wait((other,))
        task = self._moving[bundle] = asyncio.get_running_loop().create_task(work())
        task.add_done_callback(lambda _: self._moving.pop(bundle, None))
        return await asyncio.shield(task)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _parts(bundle: BundleName, points: Sequence[int]) -> list[BundleName]:
    lower, upper = bundle.bounds
    edges = [lower, *points, upper]
    return [BundleName.of(bundle.namespace, start, end) for start, end in pairwise(edges)]
