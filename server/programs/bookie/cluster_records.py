"""What a bookie's process reads and writes in its cluster's metadata at the start: that it is one, and the cookie."""

from magnetar.metadata import paths
from magnetar.metadata.errors import NodeExistsError
from magnetar.metadata.store import MetadataStore, Record
from magnetar.metadata.zookeeper.service_uri import ServiceUri, layout_fault
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import DirectoryMismatch
from magnetar.storage.bookie.cookie import BookieDirectories, Cookie, parse_cookie
from magnetar.storage.bookie.cookie_rules import check_cookies


class ClusterError(Exception):
    """The metadata is not a BookKeeper cluster's, or not one that this bookie can be in."""


async def instance_id(store: MetadataStore, uri: ServiceUri) -> str:
    """The cluster's. Raises ClusterError, MetadataError."""
    layout, instance = await store.get(paths.LAYOUT), await store.get(paths.INSTANCE_ID)
    if layout is None or instance is None:
        missing = paths.LAYOUT if layout is None else paths.INSTANCE_ID
        raise ClusterError(
            f"there is no BookKeeper cluster at {uri.connect}: no {missing}; make one with: magnetar bk initnewcluster"
        )
    if fault := layout_fault(layout.value, uri.layout):
        raise ClusterError(fault)
    return instance_of(instance)


def instance_of(record: Record) -> str:
    """What the record INSTANCEID says."""
    return record.value.decode("utf-8", "replace").strip()


class ClusterCookie:
    """The cookie of a bookie in ZooKeeper: `check` before the folders are opened, `write` when they are."""

    def __init__(self, store: MetadataStore, config: BookieConfig, bookie_id: str, instance: str) -> None:
        self._store = store
        self._config = config
        self._directories = BookieDirectories(config, bookie_id, instance)
        self._path = paths.cookie_path(bookie_id)
        self._found: Record | None = None
        self._to_write = False

    async def check(self) -> None:
        """Raises DirectoryMismatch, MetadataError, OSError. Changes nothing."""
        self._found = await self._store.get(self._path)
        self._to_write = check_cookies(
            self._directories.cookie,
            self._registered(),
            self._directories.cookies(),
            self._directories.files(),
            allow_storage_expansion=self._config.allow_storage_expansion,
        )

    async def write(self) -> None:
        """Folders bear it already: one that is killed here goes on at its next start. Raises DirectoryMismatch when
        another bookie took the id meanwhile, MetadataError."""
        if not self._to_write:
            return
        value = self._directories.cookie.format()
        if self._found is not None:
            await self._store.put(self._path, value, self._found.stat.version)
            return
        try:
            await self._store.create(self._path, value, make_parents=True)
        except NodeExistsError:
            self._found = await self._store.get(self._path)
            if self._registered() != self._directories.cookie:
                raise DirectoryMismatch(
                    f"another bookie registered the id {self._directories.cookie.bookie_id} meanwhile"
                ) from None

    def _registered(self) -> Cookie | None:
        if self._found is None:
            return None
        try:
            return parse_cookie(self._found.value)
        except ValueError as error:
            raise DirectoryMismatch(f"the cookie in ZooKeeper, {self._path}, cannot be read: {error}") from None
