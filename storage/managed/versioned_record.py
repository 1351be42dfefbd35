"""One record of the metadata store that a single owner replaces by compare-and-set.

The version proves the ownership: an owner that finds another version than the one it wrote has lost the record to
another owner. Such a loss is final: unlike `metadata/compare_and_set.py`, this class does not repeat the write on the
newer value. A write whose answer never came is looked up before the next write. If the record is exactly what was
written, one version later, the write had arrived.
"""

from magnetar.metadata.errors import BadVersionError, NodeExistsError, NoNodeError
from magnetar.metadata.store import MetadataStore, Stat


class SupersededError(Exception):
    """The record was lost: another owner wrote or deleted it."""


class VersionedRecord:
    """One record, and the version at which this owner last wrote or loaded it. The caller makes one write at a time.
    Methods raise MetadataError when the store fails."""

    __slots__ = ("_doubtful", "_store", "_version", "path")

    def __init__(self, store: MetadataStore, path: str) -> None:
        self._store = store
        self._version = -1
        self._doubtful: bytes | None = None
        self.path = path

    @property
    def in_doubt(self) -> bool:
        """Whether the answer to the last write was lost: the record may hold what was written, or what it held
        before."""
        return self._doubtful is not None

    async def load(self) -> bytes | None:
        """Returns the value as it is now, which becomes the base of the next write; None when there is no record."""
        record = await self._store.get(self.path)
        if record is None:
            return None
        self._version = record.stat.version
        self._doubtful = None
        return record.value

    async def create(self, value: bytes) -> None:
        """Creates the record. Raises NodeExistsError when another owner has created it, and SupersededError.

        When the answer is lost, the caller calls again, with the same value or another one, and the record gets that
        value. As long as it is unknown whether an earlier call created the record, the first value is tried again,
        because a record with any other value belongs to another owner.
        """
        if self._version < 0:
            first = value if self._doubtful is None else self._doubtful
            await self._make(first)
            if first == value:
                return
        await self.write(value)

    async def _make(self, value: bytes) -> None:
        """Creates the record. An existing record counts as ours only if it has exactly the value of a write whose
        answer was lost."""
        try:
            created = await self._store.create(self.path, value, make_parents=True)
        except NodeExistsError:
            record = await self._store.get(self.path)
            if record is None or record.stat.version != 0 or record.value != self._doubtful:
                raise
            self._version = record.stat.version
        except BaseException:
            self._doubtful = value
            raise
        else:
            self._version = created.stat.version
        self._doubtful = None

    async def write(self, value: bytes) -> Stat:
        """Replaces the value and returns the facts about the new record. Raises SupersededError."""
        await self._settle_doubt()
        try:
            stat = await self._store.put(self.path, value, self._version)
        except (BadVersionError, NoNodeError) as error:
            raise SupersededError(str(error)) from error
        except BaseException:
            self._doubtful = value
            raise
        self._version = stat.version
        return stat

    async def check(self) -> None:
        """Checks that this owner wrote the record last. Raises SupersededError when another owner wrote or deleted the
        record. While the last write is in doubt this cannot be decided, and nothing is raised; the next write
        decides it."""
        stat = await self._store.exists(self.path)
        if self._doubtful is None and (stat is None or stat.version != self._version):
            found = "nothing" if stat is None else f"version {stat.version}"
            raise SupersededError(f"{self.path}: expected version {self._version}, found {found}")

    async def delete(self) -> None:
        """Deletes the record, whatever its version. If it is gone already, that is success."""
        try:
            await self._store.delete(self.path)
        except NoNodeError:
            return

    async def _settle_doubt(self) -> None:
        if self._doubtful is None:
            return
        record = await self._store.get(self.path)
        if record is None:
            raise SupersededError(f"{self.path}: deleted")
        if record.stat.version == self._version + 1 and record.value == self._doubtful:
            self._version = record.stat.version
        elif record.stat.version != self._version:
            raise SupersededError(f"{self.path}: expected version {self._version}, found {record.stat.version}")
        self._doubtful = None
