"""Makes two metadata stores appear as one: the records that all clusters of an instance share are in the configuration
store (configurationMetadataStoreUrl), all other records in the cluster's local store (metadataStoreUrl).

Source: PulsarResources, which uses one of the two stores for each kind of record. Ephemeral records, and therefore the
session, belong to the local store; the configuration store has no locks.
"""

import asyncio
from collections.abc import Sequence

from magnetar.metadata import paths
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import (
    CancelWatch,
    Created,
    MetadataStore,
    Op,
    Record,
    RecordEvent,
    SessionCallback,
    Stat,
    WatchCallback,
)

CONFIGURATION_ROOTS = (
    paths.POLICIES,
    paths.CLUSTERS,
    paths.PARTITIONED_TOPICS,
    paths.RESOURCE_GROUPS,
    paths.FLAGS,
)
"""The records at and below these paths are in the configuration store."""


def is_configuration(path: str) -> bool:
    return any(path == root or path.startswith(f"{root}/") for root in CONFIGURATION_ROOTS)


def holds_configuration(path: str) -> bool:
    """Returns whether `path` itself is in the local store, but has records below it in the configuration store."""
    return any(root.startswith("/" if path == "/" else f"{path}/") for root in CONFIGURATION_ROOTS)


class RoutedStore(MetadataStore):
    """Sends each call to the store that has the record. "/" and "/admin" are records of the local store, and have
    children in both stores."""

    def __init__(self, local: MetadataStore, configuration: MetadataStore) -> None:
        self.local = local
        self.configuration = configuration

    @property
    def session_id(self) -> int:
        """The id of the local store's session."""
        return self.local.session_id

    @property
    def is_connected(self) -> bool:
        """Whether the local store can be reached. Ledgers and the ownership of bundles depend on this store."""
        return self.local.is_connected

    @property
    def is_answering(self) -> bool:
        return self.local.is_answering

    @property
    def is_remote(self) -> bool:
        return self.local.is_remote

    def on_session(self, callback: SessionCallback) -> CancelWatch:
        return self.local.on_session(callback)

    async def get(self, path: str) -> Record | None:
        return await self._of(path).get(path)

    async def exists(self, path: str) -> Stat | None:
        return await self._of(path).exists(path)

    async def owns(self, path: str) -> bool:
        return await self._of(path).owns(path)

    async def children(self, path: str) -> list[str]:
        if not holds_configuration(path):
            return await self._of(path).children(path)
        below = path.rstrip("/")
        names = {name for name in await self.local.children(path) if not is_configuration(f"{below}/{name}")}
        try:
            shared = await self.configuration.children(path)
        except NoNodeError:
            shared = []
        names.update(name for name in shared if is_configuration(f"{below}/{name}"))
        return sorted(names)

    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        return await self._of(path).put(path, value, expected_version)

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> Created:
        return await self._of(path).create(
            path, value, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents
        )

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        await self._of(path).delete(path, expected_version)

    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        """Makes all changes or none. Raises ValueError when the changes are for both stores, because two stores cannot
        make one atomic change."""
        stores = {is_configuration(op.path) for op in ops}
        if len(stores) > 1:
            raise ValueError("one change cannot be made in two metadata stores: " + ", ".join(op.path for op in ops))
        return await (self.configuration if True in stores else self.local).multi(ops)

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        """Watches the record in the store that has it. A recursive watch of a path with children in both stores watches
        both: it reports the events of each store's own records, and CHANGED of its own path when the connection of
        either store is back."""
        if not holds_configuration(path):
            return self._of(path).watch(path, callback, recursive=recursive)

        def of_configuration(event: RecordEvent) -> None:
            if event.path == path or is_configuration(event.path):
                callback(event)

        def of_local(event: RecordEvent) -> None:
            if not is_configuration(event.path):
                callback(event)

        cancels = [
            self.local.watch(path, of_local, recursive=recursive),
            self.configuration.watch(path, of_configuration, recursive=recursive),
        ]

        def cancel() -> None:
            for cancel_one in cancels:
                cancel_one()

        return cancel

    async def close(self) -> None:
        await asyncio.gather(self.local.close(), self.configuration.close())

    def _of(self, path: str) -> MetadataStore:
        return self.configuration if is_configuration(path) else self.local
