"""Requests and replies that are packed by hand equal aiozk's; connect strings; long requests are cut in pieces."""

import struct
from typing import Any

import pytest
from aiozk import protocol as zk  # type: ignore[import-untyped]

from magnetar.metadata.store import CheckOp, CreateOp, DeleteOp, EventType, Op, PutOp
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.connect_string import ConnectString
from magnetar.metadata.zookeeper_codes import ErrorCode

STAT = zk_codec.ZkStat(1 << 40, 2 << 40, 3 << 40, 4 << 40, 5, 6, 7, -(1 << 60), 8, 9, 10 << 40)
STAT_BYTES = struct.pack(">qqqqiiiqiiq", *STAT)
PATHS = ["/", "/a", "/ü/…", "/" + "x" * 300]


def text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()


@pytest.mark.parametrize("path", PATHS)
def test_requests_are_those_of_aiozk(path: str) -> None:
    assert zk_codec.get_body(path) == zk.GetDataRequest(path=path, watch=False).serialize()
    assert zk_codec.exists_body(path) == zk.ExistsRequest(path=path, watch=False).serialize()
    assert zk_codec.children_body(path) == zk.GetChildrenRequest(path=path, watch=False).serialize()
    assert zk_codec.delete_body(path, 3) == zk.DeleteRequest(path=path, version=3).serialize()
    for value in (b"", b"\0\xff" * 9):
        assert zk_codec.put_body(path, value, None) == zk.SetDataRequest(path=path, data=value, version=-1).serialize()
        for ephemeral in (False, True):
            for sequential in (False, True):
                request = zk.Create2Request(path=path, data=value, acl=[zk.UNRESTRICTED_ACCESS])
                request.set_flags(ephemeral, sequential)
                body = zk_codec.create_body(path, value, ephemeral=ephemeral, sequential=sequential)
                assert body == request.serialize()
    assert zk_codec.frame(zk_codec.get_body(path), 9)[4:] == zk.GetDataRequest(path=path, watch=False).serialize(xid=9)


def test_replies_are_read_as_aiozk_reads_them() -> None:
    def same(stat: zk_codec.ZkStat, theirs: Any) -> bool:
        return list(stat) == [getattr(theirs, name) for name, _ in theirs.parts]

    for value in (b"", b"value"):
        payload = struct.pack(">i", len(value)) + value + STAT_BYTES
        theirs = zk.GetDataResponse.deserialize(payload)
        ours, stat = zk_codec.parse_data(payload)
        assert ours == theirs.data == value
        assert same(stat, theirs.stat)
    assert zk_codec.parse_data(struct.pack(">i", -1) + STAT_BYTES) == (b"", STAT)
    assert same(zk_codec.parse_stat(STAT_BYTES), zk.ExistsResponse.deserialize(STAT_BYTES).stat)
    theirs = zk.Create2Response.deserialize(text("/ü") + STAT_BYTES)
    path, stat = zk_codec.parse_created(text("/ü") + STAT_BYTES)
    assert path == theirs.path == "/ü"
    assert same(stat, theirs.stat)


def test_a_multi_is_packed_and_its_results_read() -> None:
    ops: list[Op] = [CreateOp("/a", b"1", True), PutOp("/b", b"2", 3), DeleteOp("/c", None), CheckOp("/d", 4)]
    body = zk_codec.multi_body(ops, sequential=False)
    assert body.count(struct.pack(">i?i", -1, True, -1)) == 1
    assert [struct.pack(">i?i", kind, False, -1) in body for kind in (1, 5, 2, 13)] == [True] * 4
    header = struct.Struct(">i?i")
    done = header.pack(-1, True, -1)
    good = header.pack(1, False, 0) + text("/a") + header.pack(5, False, 0) + STAT_BYTES + header.pack(2, False, 0)
    assert zk_codec.parse_multi(good + done) == (-1, 0, ["/a", STAT, None])
    bad = b"".join(header.pack(-1, False, code) + struct.pack(">i", code) for code in (0, -110, -2))
    assert zk_codec.parse_multi(bad + done) == (1, -110, [])


def test_events_of_the_session_are_told_from_those_of_records() -> None:
    assert zk_codec.parse_notification(struct.pack(">ii", 4, 3) + text("/a")) == (EventType.CHILDREN_CHANGED, "/a")
    assert zk_codec.parse_notification(struct.pack(">ii", -1, 0) + text("")) == (None, "")


def test_watches_are_armed_in_pieces_that_a_server_takes() -> None:
    exact, recursive = [f"/exact/{n}" for n in range(1000)], [f"/recursive/{n}" for n in range(1000)]
    bodies = list(zk_codec.set_watches_bodies(77, exact, recursive, chunk_bytes_max=4000))
    assert len(bodies) > 5
    assert max(map(len, bodies)) < 4100
    for path in (*exact, *recursive):
        assert sum(text(path) in body for body in bodies) == 1
    assert list(zk_codec.set_watches_bodies(1, [], [], chunk_bytes_max=10)) == []


def test_long_lists_of_children_come_in_parts() -> None:
    names = [f"name-{n}" for n in range(2 * zk_codec.CHILDREN_AT_ONCE + 5)]
    payload = struct.pack(">i", len(names)) + b"".join(map(text, names))
    parts = list(zk_codec.parse_children(payload))
    assert [len(part) for part in parts] == [zk_codec.CHILDREN_AT_ONCE] * 2 + [5]
    assert [name for part in parts for name in part] == names
    assert list(zk_codec.parse_children(struct.pack(">i", 0))) == []


@pytest.mark.parametrize(
    ("connect", "servers", "chroot"),
    [
        ("a:1,b:2", (("a", 1), ("b", 2)), ""),
        ("zk:a, b:99/", (("a", 2181), ("b", 99)), ""),
        ("[::1]:5,[::2]/x/y", (("::1", 5), ("::2", 2181)), "/x/y"),
    ],
)
def test_a_connect_string_names_servers_and_chroot(
    connect: str, servers: tuple[tuple[str, int], ...], chroot: str
) -> None:
    assert ConnectString.parse(connect) == ConnectString(servers, chroot)


@pytest.mark.parametrize("connect", ["", "/x", "a:0", "a:x", ":5", "a:1/x/", "a:70000"])
def test_a_wrong_connect_string_is_refused(connect: str) -> None:
    with pytest.raises(ValueError):
        ConnectString.parse(connect)


def test_paths_move_below_the_chroot_and_back() -> None:
    connect = ConnectString.parse("a/app")
    for path, full in (("/", "/app"), ("/x/y", "/app/x/y")):
        assert connect.full_path(path) == full
        assert connect.user_path(full) == path
    assert not connect.contains("/apple")
    assert connect.user_path("/") == "/"
    plain = ConnectString.parse("a")
    assert plain.full_path("/x") == plain.user_path("/x") == "/x"


def test_codes_are_those_of_keeper_exception() -> None:
    """The numbers are those of org.apache.zookeeper.KeeperException.Code."""
    assert {code.name: code.value for code in ErrorCode} == {
        "OK": 0,
        "RUNTIME_INCONSISTENCY": -2,
        "CONNECTION_LOSS": -4,
        "MARSHALLING_ERROR": -5,
        "UNIMPLEMENTED": -6,
        "BAD_ARGUMENTS": -8,
        "UNKNOWN_SESSION": -12,
        "NO_NODE": -101,
        "NO_AUTH": -102,
        "BAD_VERSION": -103,
        "NO_CHILDREN_FOR_EPHEMERALS": -108,
        "NODE_EXISTS": -110,
        "NOT_EMPTY": -111,
        "SESSION_EXPIRED": -112,
        "INVALID_ACL": -114,
        "AUTH_FAILED": -115,
        "SESSION_MOVED": -118,
        "NO_WATCHER": -121,
        "RECONFIG_DISABLED": -123,
        "QUOTA_EXCEEDED": -125,
        "THROTTLED": -127,
    }
