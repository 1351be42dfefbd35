"""Answers reads from the committed records, and sets and removes watches. The module does no I/O.

FinalRequestProcessor and DataTree of ZooKeeper 3.9 are the model for the error that a request gets, and for when a
watch is set.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from magnetar.metadata.zookeeper_codes import ErrorCode
from magnetar.metadata.zookeeper_server import answers, node_rules
from magnetar.metadata.zookeeper_server.acl_rules import (
    AclTable,
    Identity,
    identities_shown,
    is_allowed,
    user_names,
)
from magnetar.metadata.zookeeper_server.jute_reader import JuteReader
from magnetar.metadata.zookeeper_server.node_tree_rules import NodeTree
from magnetar.metadata.zookeeper_server.protocol import (
    MalformedRequestError,
    NodeEvent,
    OpCode,
    Perms,
    RequestError,
)
from magnetar.metadata.zookeeper_server.watch_table_rules import WatcherType, Watches, WatchMode
from magnetar.metadata.zookeeper_server.write_requests import parse_multi_read

CHILDREN_AT_ONCE = 10_000
"""How many names are written into an answer at once; this takes a few milliseconds."""
RECURSIVE_MODE = 1
PERSISTENT_MODE = 0


class Watcher(Protocol):
    """Read requests use the connection that sent them through this interface."""

    @property
    def session_id(self) -> int: ...

    @property
    def identities(self) -> Sequence[Identity]: ...

    def send(self, frame: bytes) -> None:
        """Sends a frame behind the frames that were sent before."""


Slow = Generator[None, None, bytes]
"""A generator that makes the fields of an answer which take long. Each step makes a part of the fields, and the last
step returns all fields."""
Fields = bytes | Slow


class Reads:
    """Answers reads. Each method raises RequestError or MalformedRequestError."""

    def __init__(self, tree: NodeTree, acls: AclTable, watches: Watches[Watcher]) -> None:
        self._tree = tree
        self._acls = acls
        self._watches = watches
        self.by_opcode: dict[int, Callable[[Watcher, JuteReader], Fields]] = {
            OpCode.EXISTS: self._exists,
            OpCode.GET_DATA: self._get_data,
            OpCode.GET_ACL: self._get_acl,
            OpCode.GET_CHILDREN: self._get_children,
            OpCode.GET_CHILDREN2: self._get_children2,
            OpCode.GET_ALL_CHILDREN_NUMBER: self._count_below,
            OpCode.GET_EPHEMERALS: self._get_ephemerals,
            OpCode.MULTI_READ: self._multi_read,
            OpCode.SYNC: self._sync,
            OpCode.SET_WATCHES: self._set_watches,
            OpCode.SET_WATCHES2: self._set_watches2,
            OpCode.ADD_WATCH: self._add_watch,
            OpCode.CHECK_WATCHES: self._check_watches,
            OpCode.REMOVE_WATCHES: self._remove_watches,
            OpCode.WHO_AM_I: lambda client, reader: user_names(client.identities),
            OpCode.PING: lambda client, reader: b"",
            OpCode.RECONFIG: self._reconfigure,
        }

    def may_read(self, acl_id: int, client: Watcher) -> bool:
        return acl_id == node_rules.OPEN_ACL or is_allowed(self._acls[acl_id], Perms.READ, client.identities)

    def _exists(self, client: Watcher, reader: JuteReader) -> bytes:
        path, watch = reader.text(), reader.flag()
        if b"\0" in path:
            raise RequestError(ErrorCode.BAD_ARGUMENTS)
        node = self._tree.find(path)
        if node is not None:
            self._demand(node, Perms.READ, client)
        if watch:
            self._watches.data.add(path, client, WatchMode.ONCE)
        if node is None:
            raise RequestError(ErrorCode.NO_NODE)
        return node_rules.stat_of(node)

    def _get_data(self, client: Watcher, reader: JuteReader) -> bytes:
        path, watch = reader.text(), reader.flag()
        node = self._readable(path, client)
        if watch:
            self._watches.data.add(path, client, WatchMode.ONCE)
        return node_rules.data_field(node) + node_rules.stat_of(node)

    def _get_children(self, client: Watcher, reader: JuteReader) -> Fields:
        return self._children(client, reader.text(), reader.flag(), with_stat=False)

    def _get_children2(self, client: Watcher, reader: JuteReader) -> Fields:
        return self._children(client, reader.text(), reader.flag(), with_stat=True)

    def _children(self, client: Watcher, path: bytes, watch: bool, *, with_stat: bool) -> Fields:
        node = self._readable(path, client)
        children = self._tree.children(path)
        assert children is not None
        if watch:
            self._watches.children.add(path, client, WatchMode.ONCE)
        stat = node_rules.stat_of(node) if with_stat else b""
        if len(children) <= CHILDREN_AT_ONCE:
            return answers.texts(list(children)) + stat
        return _many_texts(list(children), stat)

    def _count_below(self, client: Watcher, reader: JuteReader) -> Fields:
        path = reader.text()
        self._readable(path, client)
        if path == b"/":
            return answers.number(self._tree.size - 1)
        return self._slow_count(path)

    def _slow_count(self, path: bytes) -> Slow:
        total = 0
        for counted in self._tree.count_below(path):
            total = counted
            yield
        return answers.number(total)

    def _get_acl(self, client: Watcher, reader: JuteReader) -> bytes:
        path = reader.text()
        node = self._tree.find(path)
        if node is None:
            raise RequestError(ErrorCode.NO_NODE)
        self._demand(node, Perms.READ | Perms.ADMIN, client)
        acl = self._acls[node_rules.acl_id_of(node)]
        if not is_allowed(acl, Perms.ADMIN, client.identities):
            acl = identities_shown(acl)
        return answers.access_list(acl) + node_rules.stat_of(node)

    def _get_ephemerals(self, client: Watcher, reader: JuteReader) -> bytes:
        prefix = reader.buffer() or b""
        paths = sorted(self._tree.ephemerals.get(client.session_id, ()))
        if prefix.strip() not in (b"", b"/"):
            paths = [path for path in paths if path.startswith(prefix)]
        return answers.texts(paths)

    def _multi_read(self, client: Watcher, reader: JuteReader) -> bytes:
        results = []
        for opcode, path in parse_multi_read(reader):
            try:
                node = self._readable(path, client)
            except RequestError as error:
                results.append(answers.multi_error(error.code))
                continue
            if opcode == OpCode.GET_DATA:
                fields = node_rules.data_field(node) + node_rules.stat_of(node)
            else:
                fields = answers.texts(list(self._tree.children(path) or ()))
            results.append((opcode, 0, fields))
        return answers.multi_answer(results)

    def _sync(self, client: Watcher, reader: JuteReader) -> bytes:
        return answers.text(reader.text())

    def _set_watches(self, client: Watcher, reader: JuteReader) -> bytes:
        self._restore_watches(client, reader.long_number(), reader.texts(), reader.texts(), reader.texts())
        return b""

    def _set_watches2(self, client: Watcher, reader: JuteReader) -> bytes:
        zxid, once = reader.long_number(), (reader.texts(), reader.texts(), reader.texts())
        persistent, recursive = reader.texts(), reader.texts()
        self._restore_watches(client, zxid, *once)
        for path in persistent:
            self._watches.add_persistent(path, client, recursive=False)
        for path in recursive:
            self._watches.add_persistent(path, client, recursive=True)
        return b""

    def _restore_watches(
        self, client: Watcher, zxid: int, data: list[bytes], exist: list[bytes], children: list[bytes]
    ) -> None:
        """Sets the watches that a client had on another connection. For a watch whose record has changed since `zxid`,
        sends the event instead (DataTree.setWatches)."""
        for path in data:
            node = self._tree.find(path)
            if node is None:
                client.send(answers.event(NodeEvent.DELETED, path))
            elif node_rules.mzxid_of(node) > zxid:
                client.send(answers.event(NodeEvent.DATA_CHANGED, path))
            else:
                self._watches.data.add(path, client, WatchMode.ONCE)
        for path in exist:
            if self._tree.find(path) is not None:
                client.send(answers.event(NodeEvent.CREATED, path))
            else:
                self._watches.data.add(path, client, WatchMode.ONCE)
        for path in children:
            node = self._tree.find(path)
            if node is None:
                client.send(answers.event(NodeEvent.DELETED, path))
            elif node_rules.pzxid_of(node) > zxid:
                client.send(answers.event(NodeEvent.CHILDREN_CHANGED, path))
            else:
                self._watches.children.add(path, client, WatchMode.ONCE)

    def _add_watch(self, client: Watcher, reader: JuteReader) -> bytes:
        path, mode = reader.text(), reader.number()
        if mode not in (PERSISTENT_MODE, RECURSIVE_MODE):
            raise MalformedRequestError(f"no watch has the mode {mode}")
        self._watches.add_persistent(path, client, recursive=mode == RECURSIVE_MODE)
        return answers.number(ErrorCode.OK)

    def _check_watches(self, client: Watcher, reader: JuteReader) -> bytes:
        path, kind = reader.text(), _watcher_type(reader.number())
        if not self._watches.contains(path, client, kind):
            raise RequestError(ErrorCode.NO_WATCHER)
        return b""

    def _remove_watches(self, client: Watcher, reader: JuteReader) -> bytes:
        path, kind = reader.text(), _watcher_type(reader.number())
        if not self._watches.remove(path, client, kind):
            raise RequestError(ErrorCode.NO_WATCHER)
        return b""

    def _reconfigure(self, client: Watcher, reader: JuteReader) -> bytes:
        raise RequestError(ErrorCode.RECONFIG_DISABLED)

    def _readable(self, path: bytes, client: Watcher) -> bytes:
        node = self._tree.find(path)
        if node is None:
            raise RequestError(ErrorCode.NO_NODE)
        self._demand(node, Perms.READ, client)
        return node

    def _demand(self, node: bytes, wanted: int, client: Watcher) -> None:
        acl_id = node_rules.acl_id_of(node)
        if acl_id != node_rules.OPEN_ACL and not is_allowed(self._acls[acl_id], wanted, client.identities):
            raise RequestError(ErrorCode.NO_AUTH)


def _watcher_type(number: int) -> WatcherType:
    try:
        return WatcherType(number)
    except ValueError:
        raise MalformedRequestError(f"no watcher has the type {number}") from None


def _many_texts(values: list[bytes], end: bytes) -> Slow:
    parts = [answers.number(len(values))]
    for start in range(0, len(values), CHILDREN_AT_ONCE):
        parts.append(answers.texts(values[start : start + CHILDREN_AT_ONCE])[4:])
        yield
    parts.append(end)
    return b"".join(parts)
