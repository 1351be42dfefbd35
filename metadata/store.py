"""The contract of the metadata stores: versioned, watched, ephemeral records in a tree.

Every implementation (memory, embedded, ZooKeeper) passes the same tests, `tests/metadata/record_contract.py` and
`watch_contract.py`. The semantics are ZooKeeper's, because the records must mean the same to a Java broker or bookie: a
version starts at 0 and grows by one with every put; a parent must exist before its child; a record with children cannot
be deleted. Two differences make callers simpler: `create(..., make_parents=True)` makes missing parents (persistent,
empty), and a watch stays armed until it is cancelled.

All calls are made on the event loop's thread. When a change returns without error, it is durable; reads and watches
never see a change that is not. Changes that are asked for in one turn of the loop happen in the order of the calls.

Paths are "/" or "/name/name"; any other raises ValueError. "." and ".." are no names, so a caller checks a text that a
user typed before it makes a name of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from magnetar.metadata.errors import NoNodeError, NotEmptyError


class Stat(NamedTuple):
    """The facts about a record besides its value, as in ZooKeeper's Stat. Times are milliseconds since the epoch."""

    version: int
    created_ms: int
    modified_ms: int
    ephemeral: bool
    child_count: int


class Record(NamedTuple):
    """A record as it was read."""

    value: bytes
    stat: Stat


class Created(NamedTuple):
    """A record as it was created. The path of a sequential record is the path that was asked for, with `%010d`
    appended."""

    path: str
    stat: Stat


class EventType(Enum):
    """The kinds of events of a record. CHILDREN_CHANGED says that its list of children changed."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN_CHANGED = "children_changed"


class RecordEvent(NamedTuple):
    """An event that a watch is told of: something happened to the record at `path`."""

    type: EventType
    path: str


WatchCallback = Callable[[RecordEvent], None]
CancelWatch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class CreateOp:
    """Creates a record, within a `multi`."""

    path: str
    value: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class PutOp:
    """Overwrites a record, within a `multi`. An `expected_version` of None accepts any version."""

    path: str
    value: bytes
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteOp:
    """Deletes a record, within a `multi`. An `expected_version` of None accepts any version."""

    path: str
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class CheckOp:
    """Changes nothing, but fails the `multi` when the record has another version."""

    path: str
    expected_version: int


Op = CreateOp | PutOp | DeleteOp | CheckOp


class MetadataStore(ABC):
    """A store that keeps the contract in this module's docstring.

    Every method may raise StoreClosedError. Every change may also raise StoreOverloadedError, and StoreWriteError when
    it has not happened but a later change may succeed, as on a full disk. Other errors are named at each method.
    """

    @abstractmethod
    async def get(self, path: str) -> Record | None:
        """Returns the record, or None when there is none."""

    @abstractmethod
    async def exists(self, path: str) -> Stat | None:
        """Returns the record's Stat, or None when there is no record."""

    @abstractmethod
    async def children(self, path: str) -> list[str]:
        """Returns the names (not the paths) of the children, sorted. Raises NoNodeError."""

    @abstractmethod
    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        """Overwrites the record if it has the expected version; None accepts any version.

        Raises NoNodeError, BadVersionError.
        """

    @abstractmethod
    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> Created:
        """Creates a record.

        `sequential` appends the number of children that the parent ever had, as `%010d` (ZooKeeper's cversion). No
        number comes twice, not even after deletions or a restart. Raises NodeExistsError, NoNodeError when there is no
        parent, EphemeralParentError.
        """

    @abstractmethod
    async def delete(self, path: str, expected_version: int | None = None) -> None:
        """Deletes the record if it has the expected version; None accepts any version.

        Raises NoNodeError, BadVersionError, NotEmptyError.
        """

    @abstractmethod
    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        """Makes all changes in order, or none of them; returns one Stat for each op, None for a DeleteOp or CheckOp.

        Raises the error of the first op that fails.
        """

    @abstractmethod
    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        """Watches `path`, and all records below it if `recursive`; returns the function that ends the watch.

        The callback is called on the loop, after a change is durable. CHILDREN_CHANGED is reported for the parent whose
        list changed. Events of one record come in order, and equal ones may be merged. The callback must not raise and
        must not block.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends the session: the ephemeral records of this store go away. A second call has no further effect."""


async def delete_empty_parents(store: MetadataStore, path: str, root: str) -> None:
    """Deletes the parents of `path` below `root` that became empty.

    If another client creates a record below one of them at the same time, it creates the parent again (`make_parents`).
    """
    parent = path.rpartition("/")[0]
    while len(parent) > len(root):
        try:
            await store.delete(parent)
        except NotEmptyError:
            return
        except NoNodeError:
            pass
        parent = parent.rpartition("/")[0]
