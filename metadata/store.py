"""The metadata contract: versioned, watched, ephemeral records in a tree.

Every implementation (memory, embedded, ZooKeeper) passes the same suite, `tests/metadata/record_contract.py` and
`watch_contract.py`. Semantics are ZooKeeper's, because the records must mean the same to a Java broker or bookie: a
version starts at 0 and grows by one with every put; a parent must exist before its child; a record with children cannot
be deleted. Two differences make callers simpler: `create(..., make_parents=True)` makes missing (persistent, empty)
parents, and a watch stays armed until it is cancelled.

All calls are made on the event loop's thread. A returned awaitable that completed without error means that the change
is durable; reads and watches never see one that is not. Changes that are asked for in one turn of the loop happen in
the order of the calls.

Paths are "/" or "/name/name"; any other raises ValueError (as "." and ".." are refused as names, a caller that makes a
name of what a user typed checks that first).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from magnetar.metadata.errors import NoNodeError, NotEmptyError


class Stat(NamedTuple):
    """What ZooKeeper's Stat says of a record; times are milliseconds since the epoch."""

    version: int
    created_ms: int
    modified_ms: int
    ephemeral: bool
    child_count: int


class Record(NamedTuple):
    value: bytes
    stat: Stat


class Created(NamedTuple):
    """`path` differs from the one asked for when the record is sequential (`%010d` is appended)."""

    path: str
    stat: Stat


class EventType(Enum):
    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN_CHANGED = "children_changed"


class RecordEvent(NamedTuple):
    type: EventType
    path: str


WatchCallback = Callable[[RecordEvent], None]
CancelWatch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class CreateOp:
    path: str
    value: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class PutOp:
    path: str
    value: bytes
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteOp:
    path: str
    expected_version: int | None = None


@dataclass(frozen=True, slots=True)
class CheckOp:
    path: str
    expected_version: int


Op = CreateOp | PutOp | DeleteOp | CheckOp


class MetadataStore(ABC):
    """See the module's text. Every method may raise StoreClosedError, every change also StoreWriteError (it has not
    happened; a later one may succeed: a full disk) and StoreOverloadedError; others are listed."""

    @abstractmethod
    async def get(self, path: str) -> Record | None:
        """The record, or None where there is none."""

    @abstractmethod
    async def exists(self, path: str) -> Stat | None: ...

    @abstractmethod
    async def children(self, path: str) -> list[str]:
        """Names (not paths) of the children, sorted. Raises NoNodeError."""

    @abstractmethod
    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        """Overwrites. Raises NoNodeError, BadVersionError."""

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
        """Raises NodeExistsError, NoNodeError (no parent), EphemeralParentError.

        `sequential` appends the number of children that the parent ever had, as `%010d` (ZooKeeper's cversion): no
        number comes twice, also not after deletions or a restart.
        """

    @abstractmethod
    async def delete(self, path: str, expected_version: int | None = None) -> None:
        """Raises NoNodeError, BadVersionError, NotEmptyError."""

    @abstractmethod
    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        """All or none, in order; one Stat per op (None for DeleteOp and CheckOp). Raises the first op's error."""

    @abstractmethod
    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        """Calls back on the loop, after the change is durable, for events of `path` (and all below it if recursive).

        CHILDREN_CHANGED is reported for the parent whose list changed. Events of one record come in order; equal
        events may be merged. The callback must not raise and must not block.
        """

    @abstractmethod
    async def close(self) -> None:
        """Ends the session: ephemeral records of this store go away. Idempotent."""


async def delete_empty_parents(store: MetadataStore, path: str, root: str) -> None:
    """Deletes the parents of `path` below `root` that hold nothing; whoever creates beside us makes them again
    (`make_parents`)."""
    parent = path.rpartition("/")[0]
    while len(parent) > len(root):
        try:
            await store.delete(parent)
        except NotEmptyError:
            return
        except NoNodeError:
            pass
        parent = parent.rpartition("/")[0]
