"""The contract of the metadata stores: versioned, watched, ephemeral records in a tree.

Every implementation (memory, embedded, ZooKeeper) passes the same tests, `tests/metadata/record_contract.py` and
`watch_contract.py`. The semantics are ZooKeeper's, because the records must mean the same to a Java broker or bookie: a
version starts at 0 and grows by one with every put; a parent must exist before its child; a record with children cannot
be deleted. Two differences make callers simpler: `create(..., make_parents=True)` makes missing parents (these are
empty and may vanish after they have lost their last child, so a caller passes `make_parents` each time), and a watch
stays armed until it is cancelled.

All calls are made on the event loop's thread. When the call of a change returns without error, the change is durable;
reads and watches never see a change that is not durable. Changes that are requested in one turn of the loop happen in
the order of the calls.

A path is "/" or has the form "/name/name"; other paths raise ValueError. "." and ".." are not allowed as names, so a
caller checks a text that a user typed before using the text as a name.
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
    owner: int = 0
    """The id of the session that an ephemeral record belongs to; 0 for a persistent record."""


class Record(NamedTuple):
    """A record at the time of a read."""

    value: bytes
    stat: Stat


class Created(NamedTuple):
    """The path and the Stat of a new record. The path of a sequential record is the requested path with a number of ten
    digits (`%010d`) appended."""

    path: str
    stat: Stat


class EventType(Enum):
    """The kinds of events of a record. CHILDREN_CHANGED means that the record's list of children changed."""

    CREATED = "created"
    CHANGED = "changed"
    DELETED = "deleted"
    CHILDREN_CHANGED = "children_changed"


class RecordEvent(NamedTuple):
    """An event that a watch reports. `path` is the path of the record that the event is about."""

    type: EventType
    path: str


class SessionEvent(Enum):
    """A change of the session's state."""

    CONNECTED = "connected"
    """The client is connected again in the same session, whose ephemeral records still exist."""
    DISCONNECTED = "disconnected"
    """The connection is lost. When the session timeout has passed, the session may end without notice."""
    EXPIRED = "expired"
    """The session is over. Its ephemeral records are deleted now or soon."""
    NEW_SESSION = "new_session"
    """The client is connected in a new session. The owners of ephemeral records have to make these again."""


WatchCallback = Callable[[RecordEvent], None]
SessionCallback = Callable[[SessionEvent], None]
CancelWatch = Callable[[], None]


@dataclass(frozen=True, slots=True)
class CreateOp:
    """Creates a record, within a `multi`."""

    path: str
    value: bytes = b""
    ephemeral: bool = False
    container: bool = False
    """Asks ZooKeeper to remove the record once its last child is gone. Other stores keep it."""


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

    Every method may raise StoreClosedError. Every method that changes records may also raise StoreOverloadedError, and
    StoreWriteError when the change has not happened but a later change may succeed, for instance after a full disk. If
    the store is in another process (`is_remote`), a read may also raise StoreUnavailableError or StoreOverloadedError,
    and a change OutcomeUnknownError. Each method's docstring names further errors.
    """

    @abstractmethod
    async def get(self, path: str) -> Record | None:
        """Returns the record, or None when there is none."""

    @abstractmethod
    async def exists(self, path: str) -> Stat | None:
        """Returns the record's Stat, or None when there is no record."""

    @abstractmethod
    async def children(self, path: str) -> list[str]:
        """Returns the names (not the paths) of the children, sorted. Raises NoNodeError when the record does not
        exist."""

    @abstractmethod
    async def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        """Overwrites the record if it has the expected version; None accepts any version.

        Raises NoNodeError when the record does not exist, and BadVersionError when it has another version.
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
        number is used twice, not even after deletions or a restart. Raises NodeExistsError when the record exists,
        NoNodeError when the parent does not exist, and EphemeralParentError when the parent is ephemeral.
        """

    @abstractmethod
    async def delete(self, path: str, expected_version: int | None = None) -> None:
        """Deletes the record if it has the expected version; None accepts any version.

        Raises NoNodeError when the record does not exist, BadVersionError when it has another version, and
        NotEmptyError when it has children.
        """

    @abstractmethod
    async def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        """Makes all changes in order, or none of them. Returns a list with one Stat for each op, or None in place of
        the Stat of a DeleteOp or CheckOp.

        Raises the error of the first op that fails.
        """

    @abstractmethod
    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        """Watches `path`, and all records below it if `recursive`; returns the function that ends the watch.

        The callback is called on the loop, after a change is durable. CHILDREN_CHANGED is reported for the parent whose
        list changed. Events of one record come in order, and equal ones may be merged. The callback must not raise and
        must not block.

        When a lost connection is back, a watch of one record reports the events that it missed. A recursive watch
        reports CHANGED of its own path, which stands for any change at or below that path; a caller that keeps copies
        of these records has to read them again.
        """

    @property
    @abstractmethod
    def session_id(self) -> int:
        """The id of the present session, which the ephemeral records of this store have as `Stat.owner`; 0 while there
        is no session."""

    @property
    @abstractmethod
    def is_connected(self) -> bool:
        """Whether the store can be reached now. While it is False, calls wait until their deadline."""

    @property
    def is_answering(self) -> bool:
        """Whether the store is connected and has not fallen silent, so that work may be begun that needs its answers.
        The default is `is_connected`."""
        return self.is_connected

    @property
    def is_remote(self) -> bool:
        """Whether calls go to another process, which may stop answering without notice. The default is False."""
        return False

    @abstractmethod
    def on_session(self, callback: SessionCallback) -> CancelWatch:
        """Calls `callback` on the loop at each change of the session's state. Returns the function that ends these
        calls.

        The callback must not raise or block. The memory and the embedded store never call it, because their sessions
        never change.
        """

    async def owns(self, path: str) -> bool:
        """Returns whether the record exists and is an ephemeral record of the present session."""
        stat = await self.exists(path)
        return stat is not None and stat.owner == self.session_id != 0

    @abstractmethod
    async def close(self) -> None:
        """Ends the session, and with it the ephemeral records of this store. A second call has no further effect."""


async def delete_empty_parents(store: MetadataStore, path: str, root: str) -> None:
    """Deletes the parents of `path` below `root` that became empty.

    If another client creates a record below such a parent at the same time, that client creates the parent again
    (`make_parents`).
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
