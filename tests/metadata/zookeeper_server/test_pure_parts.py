"""Rules of the server that need no process: paths, access control lists, sessions, watches, rows and damage."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.metadata.errors import StoreDamagedError
from magnetar.metadata.zookeeper_server import node_rules
from magnetar.metadata.zookeeper_server.acl_rules import AclTable, effective_acl, is_allowed
from magnetar.metadata.zookeeper_server.node_tree_rules import Branch, NodeTree
from magnetar.metadata.zookeeper_server.path_rules import check_path
from magnetar.metadata.zookeeper_server.protocol import OpCode, RequestError
from magnetar.metadata.zookeeper_server.session_rules import Session, SessionTable
from magnetar.metadata.zookeeper_server.staging_rules import Staging, Txn
from magnetar.metadata.zookeeper_server.stored_records import ZOOKEEPER, StoredRows, crc_of, load_state
from magnetar.metadata.zookeeper_server.watch_table_rules import WatcherType, Watches
from magnetar.metadata.zookeeper_server.write_requests import Create, Delete, SetData, WriteOp

OPEN = ((31, b"world", b"anyone"),)
IP = (b"ip", b"127.0.0.1")


@pytest.mark.parametrize("path", ["/", "/a", "/a/b c", "/ü/%2F", "/.a", "/a..", "/...", "/\ud7ff"])
def test_a_path_that_java_takes_is_taken(path: str) -> None:
    check_path(path.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize(
    "path", ["", "a", "/a/", "//", "/a//b", "/.", "/a/../b", "/a\0", "/\x1f", "/\x85", "/\ue000", "/😀"]
)
def test_a_path_that_java_refuses_is_refused(path: str) -> None:
    with pytest.raises(RequestError):
        check_path(path.encode())


def test_permissions_are_those_of_any_identity() -> None:
    acl = effective_acl(
        ((1, b"world", b"anyone"), (31, b"auth", b""), (2, b"ip", b"127.0.0.0/8")), [(b"digest", b"a:b")]
    )
    assert acl == ((1, b"world", b"anyone"), (31, b"digest", b"a:b"), (2, b"ip", b"127.0.0.0/8"))
    assert is_allowed(acl, 1, [])
    assert is_allowed(acl, 2, [IP])
    assert not is_allowed(acl, 4, [IP])
    assert is_allowed(acl, 4, [IP, (b"digest", b"a:b")])
    assert is_allowed(acl, 4, [(b"super", b"")])


def test_a_session_expires_at_the_end_of_a_tick_unless_it_is_touched() -> None:
    table = SessionTable(tick_ms=100)
    table.add(Session(1, 250, b""), 0)
    table.add(Session(2, 250, b""), 0)
    assert table.expired(299) == []
    assert table.touch(2, 250, 120)
    assert [session.session_id for session in table.expired(300)] == [1]
    assert not table.touch(1, 250, 301)
    assert table.expired(399) == []
    table.postpone(390)
    assert table.expired(600) == []
    assert [session.session_id for session in table.expired(700)] == [2]


def test_watches_that_hold_once_are_over_and_others_stay() -> None:
    watches: Watches[str] = Watches()
    watches.add_persistent(b"/a", "deep", recursive=True)
    watches.add_persistent(b"/a/b", "flat", recursive=False)
    assert watches.data.trigger(b"/a/b") == ["flat", "deep"]
    assert watches.children.trigger(b"/a/b") == ["flat"]
    assert watches.deleted(b"/a/b") == ["flat", "deep"]
    assert watches.data.trigger(b"/ab") == []
    assert watches.remove(b"/a/b", "flat", WatcherType.ANY)
    assert not watches.remove(b"/a/b", "flat", WatcherType.ANY)
    watches.remove_watcher("deep")
    assert watches.data.trigger(b"/a/b") == []
    assert watches.counts() == (0, 0, 0)


NAMES = st.sampled_from([b"/a", b"/b", b"/a/x", b"/a/y", b"/a/x/z", b"/b/s-"])
OPS = st.lists(
    st.one_of(
        st.builds(
            lambda path, flags: Create(OpCode.CREATE, path, b"d", OPEN, flags), NAMES, st.sampled_from([0, 1, 2])
        ),
        st.builds(lambda path: Delete(OpCode.DELETE, path, -1), NAMES),
        st.builds(lambda path: SetData(OpCode.SET_DATA, path, b"new", -1), NAMES),
    ),
    max_size=30,
)


@given(OPS, st.integers())
def test_staged_ahead_or_applied_at_once_the_records_are_the_same(ops: list[WriteOp], seed: int) -> None:
    """Writes are staged on writes that are not applied yet. That changes neither answers nor records, a multi that
    fails leaves nothing behind, and what is stored is read back as the same tree."""
    rng = random.Random(seed)
    at_once, ahead = Scene(), Scene()
    rows = dict(ahead.rows)
    waiting: list[Txn] = []
    for op in ops:
        expected = at_once.write(op)
        assert ahead.write(op, waiting) == expected
        assert ahead.fails(op)
        if rng.random() < 0.3:
            for txn in waiting:
                ahead.apply(txn, rows)
            waiting.clear()
    for txn in waiting:
        ahead.apply(txn, rows)
    assert flat(ahead.tree.root) == flat(at_once.tree.root)
    stored = sorted((key, content, crc_of(key, content)) for key, content in rows.items() if content)
    loaded, totals = load_state("file", stored)
    assert flat(loaded.tree.root) == flat(ahead.tree.root)
    assert loaded.tree.ephemerals == ahead.tree.ephemerals
    assert loaded.tree.size == ahead.tree.size
    assert totals == ahead.totals
    assert not ahead.staging._staged


class Scene:
    """A server's records without its shell."""

    def __init__(self) -> None:
        state, self.totals = load_state("file", list(ZOOKEEPER.first_rows))
        self.tree: NodeTree = state.tree
        self.staging = Staging(self.tree, AclTable(), 0)
        self.rows = {key: content for key, content, _ in ZOOKEEPER.first_rows}
        self._stored = StoredRows(state, self.totals)

    def write(self, op: WriteOp, waiting: list[Txn] | None = None) -> object:
        try:
            txn, fields = self.staging.write(op, 7, [IP], 1000)
        except RequestError as error:
            return error.code
        if waiting is None:
            self.apply(txn, {})
        else:
            waiting.append(txn)
        return txn.zxid, fields, txn.events

    def fails(self, op: WriteOp) -> bool:
        missing = Delete(OpCode.DELETE, b"/nowhere/x", -1)
        txn, _ = self.staging.multi([op, op, missing], 7, [IP], 1000)
        return txn is None

    def apply(self, txn: Txn, rows: dict[bytes, bytes]) -> None:
        changed = dict(txn.changes)
        change = self._stored.plan(changed)
        self._stored.committed(changed, change)
        self.totals = change.totals
        rows.update(changed)
        for path, node in txn.changes:
            if node:
                self.tree.put(path, node)
            else:
                self.tree.remove(path)
        self.staging.applied(txn)


def flat(branch: Branch) -> object:
    below = {name: flat(each) if isinstance(each, Branch) else each for name, each in branch.children.items()}
    assert node_rules.child_count_of(branch.node) == len(branch.children)
    return branch.node, below


def test_a_row_that_is_not_as_it_was_written_is_found() -> None:
    rows = list(ZOOKEEPER.first_rows)
    for number, (key, content, crc) in enumerate(rows):
        changed = bytes([content[0] ^ 1]) + content[1:]
        with pytest.raises(StoreDamagedError, match="is not as it was written"):
            load_state("file", [*rows[:number], (key, changed, crc), *rows[number + 1 :]])
