"""Checks writes and stages them on top of the committed records, without I/O.

A write is checked against the state that all earlier writes will leave, and becomes a `Txn`: the changed records, and
the events to send. The processor makes a batch of Txns durable and then applies them one by one, in order; readers see
the changes only after that. The errors, and the order of the checks, are taken from PrepRequestProcessor.
"""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar.metadata.zookeeper_codes import ErrorCode
from magnetar.metadata.zookeeper_server import answers, node_rules
from magnetar.metadata.zookeeper_server.acl_rules import Acl, AclTable, Identity, effective_acl, is_allowed
from magnetar.metadata.zookeeper_server.node_tree_rules import NodeTree
from magnetar.metadata.zookeeper_server.path_rules import (
    ROOT,
    check_path,
    parent_to_create_in,
    parent_to_delete_from,
)
from magnetar.metadata.zookeeper_server.protocol import (
    ANY_VERSION,
    NodeEvent,
    OpCode,
    Perms,
    RequestError,
)
from magnetar.metadata.zookeeper_server.write_requests import Check, Create, Delete, SetAcl, SetData, WriteOp

GONE = b""
"""Stands for a deleted record among staged ones. A record has at least its head, so it is never empty."""


_ANSWERED_AS_CREATE2 = (OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
"""Operations whose result in the answer to a multi has the type of a create2 (OpResult.CreateResult)."""


class Event(NamedTuple):
    """An event of a record. `acl_id` is the number of the record's access control list, because clients that may not
    read the record do not get the event."""

    kind: NodeEvent
    path: bytes
    acl_id: int


class Txn:
    """The changes of one request. `changes` are (path, record or GONE), in order; `ephemerals` are (session, path,
    whether the record exists after the change)."""

    __slots__ = ("changes", "ephemerals", "events", "zxid")

    def __init__(self, zxid: int) -> None:
        self.zxid = zxid
        self.changes: list[tuple[bytes, bytes]] = []
        self.events: list[Event] = []
        self.ephemerals: list[tuple[int, bytes, bool]] = []


Staged = dict[bytes, tuple[bytes, int]]
"""Staged records by path, each with the number of its transaction."""
Undo = dict[bytes, tuple[bytes, int] | None]
"""The entries of `Staged` that a multi has replaced, by path. None stands for a path that had no entry."""


class Staging:
    """The state that the records will have when everything that was staged is committed."""

    def __init__(self, tree: NodeTree, acls: AclTable, zxid: int) -> None:
        self._tree = tree
        self._acls = acls
        self.zxid = zxid
        """The number of the last transaction that was staged."""
        self._staged: Staged = {}
        self._ephemerals: dict[int, set[bytes]] = {owner: set(paths) for owner, paths in tree.ephemerals.items()}
        self.new_acls: list[int] = []
        """The numbers of access control lists that have to be stored with the next batch. The caller empties this
        list."""

    def find(self, path: bytes) -> bytes | None:
        staged = self._staged.get(path)
        if staged is None:
            return self._tree.find(path)
        return staged[0] or None

    def write(self, op: WriteOp, session_id: int, identities: Sequence[Identity], now_ms: int) -> tuple[Txn, bytes]:
        """Stages one write. Returns its Txn and the fields of its answer. Raises RequestError when the write is
        refused; nothing is staged then."""
        txn = Txn(self.zxid + 1)
        fields = self._one(op, txn, session_id, identities, now_ms)
        self._accept(txn)
        return txn, fields

    def multi(
        self, ops: Sequence[WriteOp], session_id: int, identities: Sequence[Identity], now_ms: int
    ) -> tuple[Txn | None, bytes]:
        """Stages all operations or none. Returns the Txn, or None when an operation fails, and the fields of the
        answer.

        The operations before the failing one are answered with OK, the operations behind it with RuntimeInconsistency
        (DataTree.processTxn).
        """
        txn = Txn(self.zxid + 1)
        undo: Undo = {}
        results: list[tuple[int, int, bytes]] = []
        for op in ops:
            known = len(txn.changes)
            try:
                fields = self._one(op, txn, session_id, identities, now_ms, undo)
            except RequestError as error:
                del txn.changes[known:]
                self._restore(undo)
                failed = [answers.multi_error(ErrorCode.OK)] * len(results) + [answers.multi_error(error.code)]
                rest = len(ops) - len(failed)
                failed += [answers.multi_error(ErrorCode.RUNTIME_INCONSISTENCY)] * rest
                return None, answers.multi_answer(failed)
            kind = OpCode.CREATE2 if op.opcode in _ANSWERED_AS_CREATE2 else op.opcode
            results.append((kind, 0, fields))
        self._accept(txn)
        return txn, answers.multi_answer(results)

    def end_session(self, session_id: int) -> Txn:
        """Stages the end of a session, which deletes its ephemeral records."""
        txn = Txn(self.zxid + 1)
        for path in sorted(self._ephemerals.get(session_id, ())):
            node = self.find(path)
            assert node is not None
            self._remove(path, node, txn, None)
        self._accept(txn)
        return txn

    def begin_session(self) -> Txn:
        """Stages the beginning of a session. This transaction changes no record, but has a number of its own."""
        txn = Txn(self.zxid + 1)
        self._accept(txn)
        return txn

    def delete_container(self, path: bytes) -> Txn | None:
        """Stages the deletion of an empty container. Returns None when the record has children by now, or is no
        container any more."""
        node = self.find(path)
        if node is None or not node_rules.is_container(node) or node_rules.child_count_of(node):
            return None
        txn = Txn(self.zxid + 1)
        self._remove(path, node, txn, None)
        self._accept(txn)
        return txn

    def applied(self, txn: Txn) -> None:
        """Forgets a Txn whose changes were applied to the tree."""
        staged = self._staged
        for path, _ in txn.changes:
            if path in staged and staged[path][1] == txn.zxid:
                del staged[path]

    def _accept(self, txn: Txn) -> None:
        self.zxid = txn.zxid
        for owner, path, is_there in txn.ephemerals:
            paths = self._ephemerals.setdefault(owner, set())
            if is_there:
                paths.add(path)
            else:
                paths.discard(path)
            if not paths:
                del self._ephemerals[owner]

    def _one(
        self,
        op: WriteOp,
        txn: Txn,
        session_id: int,
        identities: Sequence[Identity],
        now_ms: int,
        undo: Undo | None = None,
    ) -> bytes:
        match op:
            case Create():
                return self._create(op, txn, session_id, identities, now_ms, undo)
            case SetData():
                return self._set_data(op, txn, identities, now_ms, undo)
            case Delete():
                return self._delete(op, txn, identities, undo)
            case SetAcl():
                return self._set_acl(op, txn, identities, undo)
            case Check():
                check_path(op.path)
                node = self._get(op.path)
                self._demand(node, Perms.READ, identities)
                _expect(node_rules.version_of(node), op.version)
        return b""

    def _create(
        self,
        op: Create,
        txn: Txn,
        session_id: int,
        identities: Sequence[Identity],
        now_ms: int,
        undo: Undo | None,
    ) -> bytes:
        mode, path = op.mode(), op.path
        parent_path = parent_to_create_in(path)
        acl = effective_acl(op.acl, identities)
        parent = self._get(parent_path)
        self._demand(parent, Perms.CREATE, identities)
        if mode.sequential:
            path += b"%010d" % node_rules.creations_of(parent)
        check_path(path)
        if self.find(path) is not None:
            raise RequestError(ErrorCode.NODE_EXISTS)
        if node_rules.owner_of(parent):
            raise RequestError(ErrorCode.NO_CHILDREN_FOR_EPHEMERALS)
        is_container = op.opcode == OpCode.CREATE_CONTAINER
        owner = session_id if mode.ephemeral and not is_container else 0
        node = node_rules.new_node(
            op.data, zxid=txn.zxid, now_ms=now_ms, owner=owner, acl_id=self._acl_id(acl), container=is_container
        )
        if owner:
            txn.ephemerals.append((owner, path, True))
        self._stage(parent_path, node_rules.with_children_changed(parent, 1, txn.zxid), txn, undo)
        self._stage(path, node, txn, undo)
        txn.events.append(Event(NodeEvent.CREATED, path, node_rules.acl_id_of(node)))
        txn.events.append(Event(NodeEvent.CHILDREN_CHANGED, parent_path, node_rules.acl_id_of(parent)))
        stat = node_rules.stat_of(node) if op.opcode != OpCode.CREATE else b""
        return answers.text(path) + stat

    def _set_data(
        self,
        op: SetData,
        txn: Txn,
        identities: Sequence[Identity],
        now_ms: int,
        undo: Undo | None,
    ) -> bytes:
        check_path(op.path)
        node = self._get(op.path)
        self._demand(node, Perms.WRITE, identities)
        _expect(node_rules.version_of(node), op.version)
        changed = node_rules.with_data(node, op.data, zxid=txn.zxid, now_ms=now_ms)
        self._stage(op.path, changed, txn, undo)
        txn.events.append(Event(NodeEvent.DATA_CHANGED, op.path, node_rules.acl_id_of(node)))
        return node_rules.stat_of(changed)

    def _delete(self, op: Delete, txn: Txn, identities: Sequence[Identity], undo: Undo | None) -> bytes:
        parent_path = parent_to_delete_from(op.path)
        if op.opcode != OpCode.DELETE_CONTAINER:
            self._demand(self._get(parent_path), Perms.DELETE, identities)
        node = self._get(op.path)
        if op.opcode != OpCode.DELETE_CONTAINER:
            _expect(node_rules.version_of(node), op.version)
        if node_rules.child_count_of(node):
            raise RequestError(ErrorCode.NOT_EMPTY)
        if op.opcode == OpCode.DELETE_CONTAINER and not node_rules.is_container(node):
            raise RequestError(ErrorCode.BAD_VERSION)
        self._remove(op.path, node, txn, undo)
        return b""

    def _set_acl(self, op: SetAcl, txn: Txn, identities: Sequence[Identity], undo: Undo | None) -> bytes:
        check_path(op.path)
        acl = effective_acl(op.acl, identities)
        node = self._get(op.path)
        self._demand(node, Perms.ADMIN, identities)
        _expect(node_rules.acl_version_of(node), op.version)
        changed = node_rules.with_acl(node, self._acl_id(acl))
        self._stage(op.path, changed, txn, undo)
        return node_rules.stat_of(changed)

    def _remove(self, path: bytes, node: bytes, txn: Txn, undo: Undo | None) -> None:
        parent_path = path[: path.rfind(b"/")] or ROOT
        parent = self._get(parent_path)
        self._stage(path, GONE, txn, undo)
        owner = node_rules.owner_of(node)
        if owner:
            txn.ephemerals.append((owner, path, False))
        self._stage(parent_path, node_rules.with_children_changed(parent, -1, txn.zxid), txn, undo)
        txn.events.append(Event(NodeEvent.DELETED, path, node_rules.acl_id_of(node)))
        txn.events.append(Event(NodeEvent.CHILDREN_CHANGED, parent_path, node_rules.acl_id_of(parent)))

    def _stage(self, path: bytes, node: bytes, txn: Txn, undo: Undo | None) -> None:
        if undo is not None and path not in undo:
            undo[path] = self._staged.get(path)
        self._staged[path] = node, txn.zxid
        txn.changes.append((path, node))

    def _restore(self, undo: Undo) -> None:
        for path, staged in undo.items():
            if staged is None:
                self._staged.pop(path, None)
            else:
                self._staged[path] = staged

    def _get(self, path: bytes) -> bytes:
        node = self.find(path)
        if node is None:
            raise RequestError(ErrorCode.NO_NODE)
        return node

    def _demand(self, node: bytes, wanted: int, identities: Sequence[Identity]) -> None:
        acl_id = node_rules.acl_id_of(node)
        if acl_id != node_rules.OPEN_ACL and not is_allowed(self._acls[acl_id], wanted, identities):
            raise RequestError(ErrorCode.NO_AUTH)

    def _acl_id(self, acl: Acl) -> int:
        acl_id, is_new = self._acls.id_of(acl)
        if is_new:
            self.new_acls.append(acl_id)
        return acl_id


def _expect(version: int, expected: int) -> None:
    if expected not in (ANY_VERSION, version):
        raise RequestError(ErrorCode.BAD_VERSION)
