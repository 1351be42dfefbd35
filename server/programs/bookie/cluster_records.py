"""The cookie of a bookie in its cluster's metadata, which is compared and written when the bookie starts."""

from magnetar.metadata import paths
from magnetar.metadata.errors import NodeExistsError
from magnetar.metadata.store import MetadataStore, Record
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import DirectoryMismatch
from magnetar.storage.bookie.cookie import BookieDirectories, Cookie, parse_cookie
from magnetar.storage.bookie.cookie_rules import check_cookies


class ClusterCookie:
    """The cookie of a bookie in ZooKeeper. `check` is called before the folders are opened, `write` after that."""

    def __init__(self, store: MetadataStore, config: BookieConfig, bookie_id: str, instance: str) -> None:
        self._store = store
        self._config = config
        self._directories = BookieDirectories(config, bookie_id, instance)
        self._path = paths.cookie_path(bookie_id)
        self._found: Record | None = None
        self._to_write = False

    async def check(self) -> None:
        """Compares the cookies in ZooKeeper and in the folders, and changes nothing. Raises DirectoryMismatch when they
        differ, MetadataError when ZooKeeper cannot be reached, and OSError when a folder cannot be read."""
        self._found = await self._store.get(self._path)
        self._to_write = check_cookies(
            self._directories.cookie,
            self._registered(),
            self._directories.cookies(),
            self._directories.files(),
            allow_storage_expansion=self._config.allow_storage_expansion,
        )

    async def write(self) -> None:
        """Writes the cookie to ZooKeeper. The folders have the cookie already, so a bookie that is killed before this
        call continues at its next start. Raises DirectoryMismatch when another bookie took the id meanwhile, and
        MetadataError when ZooKeeper cannot be reached."""
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
