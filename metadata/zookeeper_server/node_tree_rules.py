"""The tree of committed records, without I/O.

A record without children is a bytes object (`node_rules`); a record with children is a `Branch`. Most records of a
cluster have no children, and 600,000 such records have to fit into the memory of a small machine.
"""

from collections.abc import Iterable, Iterator

from magnetar.metadata.zookeeper_server.node_rules import is_container, new_node, owner_of

COUNTED_AT_ONCE = 20_000
"""How many records are counted before other tasks may run; this takes a few milliseconds."""


class Branch:
    """A record with children."""

    __slots__ = ("children", "node")

    def __init__(self, node: bytes) -> None:
        self.node = node
        self.children: dict[bytes, bytes | Branch] = {}


class MissingParentError(Exception):
    """A record has no parent. The text of the error is the path of the record."""


class NodeTree:
    """The tree of records. `ephemerals` has the paths of each session's ephemeral records, `containers` the paths of
    all containers."""

    __slots__ = ("containers", "ephemerals", "root", "size")

    def __init__(self) -> None:
        self.root = Branch(new_node(b"", zxid=0, now_ms=0))
        self.size = 1
        self.ephemerals: dict[int, set[bytes]] = {}
        self.containers: set[bytes] = set()

    def find(self, path: bytes) -> bytes | None:
        """Returns the record, or None when there is no record at the path."""
        found = self._entry(path)
        return found.node if isinstance(found, Branch) else found

    def children(self, path: bytes) -> dict[bytes, bytes | Branch] | None:
        """Returns the children by name, in a dict that the caller must not change, or None when there is no such
        record."""
        found = self._entry(path)
        if found is None:
            return None
        return found.children if isinstance(found, Branch) else {}

    def put(self, path: bytes, node: bytes) -> None:
        """Adds or replaces a record. Raises MissingParentError when the parent does not exist."""
        if path == b"/":
            self.root.node = node
            return
        parent, name = self._parent_branch(path)
        before = parent.children.get(name)
        if isinstance(before, Branch):
            before.node = node
            return
        parent.children[name] = node
        if before is None:
            self.size += 1
            self._index(path, node)

    def remove(self, path: bytes) -> bytes | None:
        """Removes a record without children and returns it. Returns None when there is no record at the path."""
        parent_path, _, name = path.rpartition(b"/")
        parent = self._entry(parent_path)
        if not isinstance(parent, Branch):
            return None
        node = parent.children.get(name)
        if node is None or isinstance(node, Branch):
            return None
        del parent.children[name]
        self.size -= 1
        owner = owner_of(node)
        if owner:
            paths = self.ephemerals[owner]
            paths.discard(path)
            if not paths:
                del self.ephemerals[owner]
        elif is_container(node):
            self.containers.discard(path)
        if not parent.children and parent is not self.root:
            self._make_leaf(parent_path, parent.node)
        return node

    def load(self, records: Iterable[tuple[bytes, bytes]]) -> None:
        """Fills a new tree with stored records, which come by ascending path. Raises MissingParentError for a record
        whose parent is not among them."""
        parent_path: bytes | None = None
        parent = self.root
        for path, node in records:
            if path == b"/":
                self.root.node = node
                continue
            this_parent, _, name = path.rpartition(b"/")
            if this_parent != parent_path:
                parent, _ = self._parent_branch(path)
                parent_path = this_parent
            parent.children[name] = node
            self.size += 1
            self._index(path, node)

    def count_below(self, path: bytes) -> Iterator[int]:
        """Counts the records below `path`. Yields the count so far after each COUNTED_AT_ONCE records, so that other
        tasks may run, and the total at the end. The count is 0 for a missing record."""
        start = self._entry(path)
        branches = [start] if isinstance(start, Branch) else []
        total = portion = 0
        while branches:
            children = branches.pop().children
            total += len(children)
            portion += len(children)
            branches += [child for child in children.values() if child.__class__ is Branch]
            if portion >= COUNTED_AT_ONCE:
                portion = 0
                yield total
        yield total

    def _entry(self, path: bytes) -> "bytes | Branch | None":
        found: bytes | Branch | None = self.root
        if len(path) <= 1:
            return found if path in (b"/", b"") else None
        names = path.split(b"/")
        if names[0]:
            return None
        del names[0]
        for name in names:
            if found.__class__ is not Branch:
                return None
            found = found.children.get(name)
        return found

    def _parent_branch(self, path: bytes) -> tuple[Branch, bytes]:
        """Returns the parent, which becomes a Branch if it had no children, and the name of the record."""
        parent_path, _, name = path.rpartition(b"/")
        parent = self._entry(parent_path)
        if isinstance(parent, Branch):
            return parent, name
        if parent is None:
            raise MissingParentError(path.decode(errors="replace"))
        branch = Branch(parent)
        grandparent, parent_name = self._parent_branch(parent_path)
        grandparent.children[parent_name] = branch
        return branch, name

    def _make_leaf(self, path: bytes, node: bytes) -> None:
        grandparent_path, _, name = path.rpartition(b"/")
        grandparent = self._entry(grandparent_path)
        assert isinstance(grandparent, Branch)
        grandparent.children[name] = node

    def _index(self, path: bytes, node: bytes) -> None:
        owner = owner_of(node)
        if owner:
            self.ephemerals.setdefault(owner, set()).add(path)
        elif is_container(node):
            self.containers.add(path)
