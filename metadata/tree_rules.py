"""The rules of the record tree, without I/O, clock or asyncio.

`Tree` holds the committed records. A `Batch` stages changes on top of the tree or of another batch: the methods of the
batch see the staged changes, and the tree stays unchanged until `Tree.apply`. This allows a store to make the changes
of a batch durable before any caller reads them. ZooKeeper's rules are cited by their Java class where they are not
obvious.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from magnetar.metadata.errors import BadVersionError, EphemeralParentError, NodeExistsError, NoNodeError, NotEmptyError
from magnetar.metadata.store import CheckOp, Created, CreateOp, DeleteOp, EventType, Op, PutOp, RecordEvent, Stat

Result = TypeVar("Result")

PERSISTENT = 0
"""The `owner` of a record that outlives its session. The ids of sessions are greater than this number."""


class RecordNode:
    """One record of the tree.

    `sequence` counts the children that were ever created; it is the number of the next sequential child (ZooKeeper's
    stored cversion, PrepRequestProcessor). A copy in a batch has no `children`, only their number: the tree's own node
    keeps them.
    """

    __slots__ = ("child_count", "children", "created_ms", "modified_ms", "owner", "sequence", "value", "version")

    def __init__(
        self,
        value: bytes,
        version: int,
        created_ms: int,
        modified_ms: int,
        *,
        owner: int = PERSISTENT,
        sequence: int = 0,
    ) -> None:
        self.value = value
        self.version = version
        self.created_ms = created_ms
        self.modified_ms = modified_ms
        self.owner = owner
        self.sequence = sequence
        self.child_count = 0
        self.children: dict[str, RecordNode] | None = None

    def stat(self) -> Stat:
        is_ephemeral = self.owner != PERSISTENT
        return Stat(self.version, self.created_ms, self.modified_ms, is_ephemeral, self.child_count, self.owner)

    def staged_copy(self) -> "RecordNode":
        """Returns a copy for a batch, without children."""
        copy = RecordNode(
            self.value, self.version, self.created_ms, self.modified_ms, owner=self.owner, sequence=self.sequence
        )
        copy.child_count = self.child_count
        return copy

    def take(self, staged: "RecordNode") -> None:
        """Takes over all fields of a batch's copy except the children, which stay."""
        self.value = staged.value
        self.version = staged.version
        self.created_ms = staged.created_ms
        self.modified_ms = staged.modified_ms
        self.owner = staged.owner
        self.sequence = staged.sequence
        self.child_count = staged.child_count


Staged = dict[str, RecordNode | None]
"""Changed records by path. None stands for a deleted record."""


_FAULTY_NAME = re.compile(r"/\.{0,2}(?:/|\Z)")
"""Matches an empty name, `.` and `..`. Every call of a store checks its path, and a look at each name by itself took a
tenth of the call."""


def check_path(path: str) -> None:
    """Raises ValueError unless `path` is "/" or "/name/name…" (ZooKeeper's PathUtils.validatePath)."""
    if path == "/":
        return
    if not path.startswith("/"):
        raise ValueError(f"metadata path {path!r} does not start with '/'")
    if not path.isascii() and not _is_unicode(path):
        raise ValueError(f"metadata path {path!r} is not Unicode text")
    if "\0" in path or _FAULTY_NAME.search(path):
        raise ValueError(f"metadata path {path!r} has an empty name, '.', '..' or a zero character")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def parent_of(path: str) -> str:
    """Returns the parent's path. As in a file system, the parent of "/" is "/" itself."""
    return path[: path.rindex("/")] or "/"


def name_of(path: str) -> str:
    return path[path.rindex("/") + 1 :]


class Tree:
    """The committed records; "/" always exists. `ephemerals` holds the paths of each session's ephemeral records."""

    __slots__ = ("ephemerals", "root", "size")

    def __init__(self, now_ms: int = 0) -> None:
        self.root = RecordNode(b"", 0, now_ms, now_ms)
        self.size = 1
        self.ephemerals: dict[int, set[str]] = {}

    def find(self, path: str) -> RecordNode | None:
        node: RecordNode | None = self.root
        if path == "/":
            return node
        for name in path[1:].split("/"):
            if node is None or node.children is None:
                return None
            node = node.children.get(name)
        return node

    def get(self, path: str) -> RecordNode:
        """Returns the record. Raises NoNodeError when the record does not exist."""
        node = self.find(path)
        if node is None:
            raise NoNodeError(path)
        return node

    def load(self, records: Iterable[tuple[str, RecordNode]]) -> None:
        """Fills a new tree with stored records. In `records` each parent must come before its children.

        Raises NoNodeError with the path of a missing parent.
        """
        parent_path, parent = "", self.root
        for path, node in records:
            if path == "/":
                self.root.take(node)
                continue
            split = path.rindex("/")
            if path[:split] != parent_path:
                parent_path = path[:split]
                parent = self.get(parent_path or "/")
            if parent.children is None:
                parent.children = {}
            parent.children[path[split + 1 :]] = node
            parent.child_count += 1
            self.size += 1

    def apply(self, staged: Staged) -> None:
        """Makes the changes of a batch the committed state. The batch must have been staged on the present state of the
        tree."""
        paths = sorted(staged)  # parents come first: a parent's path is the beginning of its child's
        for path in paths:
            node = staged[path]
            if node is None:
                continue
            current = self.find(path)
            if current is None:
                self._insert(path, node)
            else:
                self._note_owner(path, current.owner, node.owner)
                current.take(node)
        for path in reversed(paths):
            if staged[path] is None:
                self._remove(path)

    def _insert(self, path: str, node: RecordNode) -> None:
        parent = self.get(parent_of(path))
        if parent.children is None:
            parent.children = {}
        parent.children[name_of(path)] = node
        self.size += 1
        self._note_owner(path, PERSISTENT, node.owner)

    def _remove(self, path: str) -> None:
        parent = self.find(parent_of(path))
        node = None if parent is None or parent.children is None else parent.children.pop(name_of(path), None)
        if node is None:
            return  # created and deleted within one batch
        assert parent is not None
        if not parent.children:
            parent.children = None
        self.size -= 1
        self._note_owner(path, node.owner, PERSISTENT)

    def _note_owner(self, path: str, old: int, new: int) -> None:
        if old == new:
            return
        if old != PERSISTENT:
            paths = self.ephemerals[old]
            paths.discard(path)
            if not paths:
                del self.ephemerals[old]
        if new != PERSISTENT:
            self.ephemerals.setdefault(new, set()).add(path)


class Batch:
    """Changes that are staged on `base`. A method that raises leaves the batch as it was."""

    __slots__ = ("_base", "_now_ms", "_owner", "events", "staged")

    def __init__(self, base: "Tree | Batch", *, owner: int, now_ms: int) -> None:
        """Makes an empty batch. `owner` is the id of the session that makes the changes, `now_ms` their time."""
        self._base = base
        self._owner = owner
        self._now_ms = now_ms
        self.staged: Staged = {}
        self.events: list[RecordEvent] = []

    def find(self, path: str) -> RecordNode | None:
        try:
            return self.staged[path]
        except KeyError:
            return self._base.find(path)

    def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
    ) -> Created:
        """Creates a record; the arguments are those of `MetadataStore.create`.

        Raises the errors of `MetadataStore.create`, and ValueError for an impossible path.
        """
        if make_parents:
            return self._all_or_none(lambda inner: inner._create_with_parents(path, value, ephemeral, sequential))
        check_path(f"{path}0" if sequential else path)
        parent_path = parent_of(path)
        parent = self.find(parent_path)
        if parent is None:
            raise NoNodeError(parent_path)
        if parent.owner != PERSISTENT:
            raise EphemeralParentError(path)
        if sequential:
            path = f"{path}{parent.sequence:010d}"
        if self.find(path) is not None:
            raise NodeExistsError(path)
        node = RecordNode(bytes(value), 0, self._now_ms, self._now_ms, owner=self._owner if ephemeral else PERSISTENT)
        self.staged[path] = node
        parent = self._staged_copy(parent_path, parent)
        parent.child_count += 1
        parent.sequence += 1
        self.events += RecordEvent(EventType.CREATED, path), RecordEvent(EventType.CHILDREN_CHANGED, parent_path)
        return Created(path, node.stat())

    def _create_with_parents(self, path: str, value: bytes, ephemeral: bool, sequential: bool) -> Created:
        check_path(f"{path}0" if sequential else path)
        missing = []
        ancestor = path
        while ancestor != "/" and self.find(ancestor := parent_of(ancestor)) is None:
            missing.append(ancestor)
        for ancestor in reversed(missing):
            self.create(ancestor)
        return self.create(path, value, ephemeral=ephemeral, sequential=sequential)

    def put(self, path: str, value: bytes, expected_version: int | None = None) -> Stat:
        """Overwrites a record. Raises NoNodeError when the record does not exist, and BadVersionError when it has
        another version."""
        node = self._staged_copy(path, self._expect(path, expected_version))
        node.value = bytes(value)
        node.version += 1
        node.modified_ms = self._now_ms
        self.events.append(RecordEvent(EventType.CHANGED, path))
        return node.stat()

    def delete(self, path: str, expected_version: int | None = None) -> None:
        """Deletes a record. Raises NoNodeError, BadVersionError, and NotEmptyError. "/" cannot be deleted and always
        raises NotEmptyError."""
        node = self._expect(path, expected_version)
        if node.child_count or path == "/":
            raise NotEmptyError(path)
        parent_path = parent_of(path)
        parent = self.find(parent_path)
        assert parent is not None, f"{path} has no parent"
        self.staged[path] = None
        self._staged_copy(parent_path, parent).child_count -= 1
        self.events += RecordEvent(EventType.DELETED, path), RecordEvent(EventType.CHILDREN_CHANGED, parent_path)

    def multi(self, ops: Sequence[Op]) -> list[Stat | None]:
        """Makes all changes or none. Raises the error of the first op that fails."""
        return self._all_or_none(lambda inner: [inner._one(op) for op in ops])

    def _one(self, op: Op) -> Stat | None:
        match op:
            case CreateOp(path, value, ephemeral):
                return self.create(path, value, ephemeral=ephemeral).stat
            case PutOp(path, value, expected_version):
                return self.put(path, value, expected_version)
            case DeleteOp(path, expected_version):
                self.delete(path, expected_version)
            case CheckOp(path, expected_version):
                self._expect(path, expected_version)
        return None

    def _all_or_none(self, change: Callable[["Batch"], Result]) -> Result:
        """Runs `change` on a separate batch, and takes over the staged changes of that batch unless `change` raises."""
        inner = Batch(self, owner=self._owner, now_ms=self._now_ms)
        result = change(inner)
        self.staged.update(inner.staged)
        self.events += inner.events
        return result

    def merged_events(self) -> Iterator[RecordEvent]:
        """Returns the events in order. Leaves out an event that equals the previous event of the same record."""
        last: dict[str, EventType] = {}
        for event in self.events:
            if last.get(event.path) is not event.type:
                last[event.path] = event.type
                yield event

    def _expect(self, path: str, version: int | None) -> RecordNode:
        node = self.find(path)
        if node is None:
            raise NoNodeError(path)
        if version is not None and node.version != version:
            raise BadVersionError(path, version, node.version)
        return node

    def _staged_copy(self, path: str, node: RecordNode) -> RecordNode:
        if self.staged.get(path) is node:
            return node
        copy = node.staged_copy()
        self.staged[path] = copy
        return copy
