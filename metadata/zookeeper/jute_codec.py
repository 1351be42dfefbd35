"""ZooKeeper's requests and replies as bytes (Jute): aiozk's codecs, and the request types that aiozk lacks.

This is the only module that uses aiozk. It uses `aiozk.protocol` only, never aiozk's session or connection, and the
version of aiozk is pinned. A "body" is a request without its length and xid, that is, its type and fields. This module
packs the requests and replies of single records by itself, because aiozk handles the fields one by one, which took
30 to 60 µs of CPU a call; a test compares the bytes with aiozk's. Source: zookeeper.jute, ZooDefs.OpCode and
KeeperException.Code of ZooKeeper 3.9.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from aiozk import protocol as zk  # type: ignore[import-untyped]
from aiozk.protocol.primitives import Int, Long, UString, Vector  # type: ignore[import-untyped]
from aiozk.protocol.request import Request  # type: ignore[import-untyped]

from magnetar.metadata.store import CheckOp, CreateOp, DeleteOp, EventType, Op, PutOp
from magnetar.metadata.zookeeper_codes import ErrorCode

WATCH_XID: int = zk.WATCH_XID
PING_XID: int = zk.PING_XID
AUTH_XID: int = zk.AUTH_XID

ANY_VERSION = -1
NO_VERSION = -2
"""A version that no record ever has. A caller's -1 is sent as this version, because on the wire -1 would mean "any"
(PrepRequestProcessor)."""

PERSISTENT = 0
PERSISTENT_RECURSIVE = 1
"""The modes of a watch (ZooDefs.AddWatchModes)."""

ANY_WATCHER = 3
"""Removes watches of any kind (Watcher.WatcherType.Any)."""

SEQUENCE_DIGITS = 10

CHILDREN_AT_ONCE = 5_000
"""How many names are decoded in one turn of the loop; this takes a few milliseconds."""

_INT = struct.Struct(">i")
_TWO_INTS = struct.Struct(">ii")
_HEADER = struct.Struct(">iqi")
_STAT = struct.Struct(">qqqqiiiqiiq")


SESSION_GONE = frozenset((ErrorCode.CONNECTION_LOSS, ErrorCode.SESSION_EXPIRED, ErrorCode.SESSION_MOVED))
"""The codes with which a server refuses a request because the session is over, or was moved to another server."""

EVENT_TYPES = {
    zk.WatchEvent.CREATED: EventType.CREATED,
    zk.WatchEvent.DELETED: EventType.DELETED,
    zk.WatchEvent.DATA_CHANGED: EventType.CHANGED,
    zk.WatchEvent.CHILDREN_CHANGED: EventType.CHILDREN_CHANGED,
}


class ZkStat(NamedTuple):
    """ZooKeeper's Stat (zookeeper.jute), in the order of its fields."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class ConnectReply(NamedTuple):
    """The server's answer in the handshake. A session id of 0 means that the session is over."""

    timeout_ms: int
    session_id: int
    password: bytes


class AddWatchRequest(Request):  # type: ignore[misc]
    opcode = 106
    parts = (("path", UString), ("mode", Int))


class CreateContainerRequest(Request):  # type: ignore[misc]
    """The request ZooDefs.OpCode.createContainer. Its flags are CreateMode.CONTAINER."""

    opcode = 19
    parts = zk.CreateRequest.parts


class SetWatches2Request(Request):  # type: ignore[misc]
    opcode = 105
    parts = (
        ("relative_zxid", Long),
        ("data_watches", Vector.of(UString)),
        ("exist_watches", Vector.of(UString)),
        ("child_watches", Vector.of(UString)),
        ("persistent_watches", Vector.of(UString)),
        ("persistent_recursive_watches", Vector.of(UString)),
    )


_GET: int = zk.GetDataRequest.opcode
_EXISTS: int = zk.ExistsRequest.opcode
_CHILDREN: int = zk.GetChildrenRequest.opcode
_CREATE2: int = zk.Create2Request.opcode
_SET_DATA: int = zk.SetDataRequest.opcode
_DELETE: int = zk.DeleteRequest.opcode
_EPHEMERAL: int = zk.CreateRequest.EPHEMERAL_FLAG
_SEQUENTIAL: int = zk.CreateRequest.SEQUENTIAL_FLAG
_CONTAINER: int = zk.CreateRequest.CONTAINER_FLAG
_OPEN_ACL: bytes = struct.pack("!" + zk.UNRESTRICTED_ACCESS.render()[0], *zk.UNRESTRICTED_ACCESS.render()[1])
_OPEN_ACL = _INT.pack(1) + _OPEN_ACL


def frame(body: bytes, xid: int | None = None) -> bytes:
    """Returns the frame of a request: length, xid, body. A connect request has no xid."""
    if xid is None:
        return _INT.pack(len(body)) + body
    return _TWO_INTS.pack(len(body) + 4, xid) + body


def connect_body(timeout_ms: int, last_zxid: int, session_id: int, password: bytes) -> bytes:
    return _serialized(
        zk.ConnectRequest(
            protocol_version=0,
            last_seen_zxid=last_zxid,
            timeout=timeout_ms,
            session_id=session_id,
            password=password,
            read_only=False,
        )
    )


def parse_connect_reply(payload: bytes) -> ConnectReply:
    """Parses the first reply on a link. Raises struct.error when the reply is too short."""
    reply = zk.ConnectResponse.deserialize(payload)
    return ConnectReply(reply.timeout, reply.session_id, reply.password or b"")


def parse_header(payload: bytes) -> tuple[int, int, int]:
    """Returns (xid, zxid, error) of a reply. Raises struct.error when the reply is too short."""
    header: tuple[int, int, int] = _HEADER.unpack_from(payload)
    return header


HEADER_BYTES = _HEADER.size


def ping_body() -> bytes:
    return _serialized(zk.PingRequest())


def close_body() -> bytes:
    return _serialized(zk.CloseRequest())


def auth_body(scheme: str, credential: bytes) -> bytes:
    return _serialized(zk.AuthRequest(type=0, scheme=scheme, auth=credential))


def sync_body(path: str) -> bytes:
    return _serialized(zk.SyncRequest(path=path))


def get_body(path: str) -> bytes:
    return _path_body(_GET, path, b"\0")


def exists_body(path: str) -> bytes:
    return _path_body(_EXISTS, path, b"\0")


def children_body(path: str) -> bytes:
    return _path_body(_CHILDREN, path, b"\0")


def create_body(path: str, value: bytes, *, ephemeral: bool = False, sequential: bool = False) -> bytes:
    flags = _EPHEMERAL * ephemeral | _SEQUENTIAL * sequential
    return _path_body(_CREATE2, path, b"".join((_INT.pack(len(value)), value, _OPEN_ACL, _INT.pack(flags))))


def put_body(path: str, value: bytes, expected_version: int | None) -> bytes:
    version = _INT.pack(wire_version(expected_version))
    return _path_body(_SET_DATA, path, b"".join((_INT.pack(len(value)), value, version)))


def delete_body(path: str, expected_version: int | None) -> bytes:
    return _path_body(_DELETE, path, _INT.pack(wire_version(expected_version)))


def _path_body(opcode: int, path: str, rest: bytes) -> bytes:
    name = path.encode()
    return b"".join((_TWO_INTS.pack(opcode, len(name)), name, rest))


def multi_body(ops: Sequence[Op], *, sequential: bool) -> bytes:
    """Returns the body of a multi. `sequential` says that the last op, a CreateOp, is a sequential create."""
    request = zk.TransactionRequest()
    for position, op in enumerate(ops):
        match op:
            case CreateOp(path, value, container=True):
                acl = [zk.UNRESTRICTED_ACCESS]
                request.add(CreateContainerRequest(path=path, data=value, acl=acl, flags=_CONTAINER))
            case CreateOp(path, value, ephemeral):
                numbered = sequential and position == len(ops) - 1
                request.add(_create(path, value, ephemeral, numbered))
            case PutOp(path, value, version):
                request.add(zk.SetDataRequest(path=path, data=value, version=wire_version(version)))
            case DeleteOp(path, version):
                request.add(zk.DeleteRequest(path=path, version=wire_version(version)))
            case CheckOp(path, version):
                request.add(zk.CheckVersionRequest(path=path, version=wire_version(version)))
    return _serialized(request)


def add_watch_body(path: str, *, recursive: bool) -> bytes:
    return _serialized(AddWatchRequest(path=path, mode=PERSISTENT_RECURSIVE if recursive else PERSISTENT))


def remove_watches_body(path: str) -> bytes:
    return _serialized(zk.RemoveWatchesRequest(path=path, type=ANY_WATCHER))


def set_watches_bodies(
    zxid: int, exact: Iterable[str], recursive: Iterable[str], *, chunk_bytes_max: int
) -> Iterator[bytes]:
    """Yields requests that together arm all these watches. No request is longer than `chunk_bytes_max`, because a
    server refuses frames that are too long."""
    chunk: tuple[list[str], list[str]] = ([], [])
    size = 0
    for kind, paths in enumerate((exact, recursive)):
        for path in paths:
            path_bytes = len(path.encode()) + _INT.size
            if size and size + path_bytes > chunk_bytes_max:
                yield _set_watches(zxid, *chunk)
                chunk, size = ([], []), 0
            chunk[kind].append(path)
            size += path_bytes
    if size:
        yield _set_watches(zxid, *chunk)


def _set_watches(zxid: int, exact: list[str], recursive: list[str]) -> bytes:
    return _serialized(
        SetWatches2Request(relative_zxid=zxid, persistent_watches=exact, persistent_recursive_watches=recursive)
    )


def wire_version(expected: int | None) -> int:
    """Returns the version to send when a caller expects the version `expected`; None stands for any version."""
    if expected is None:
        return ANY_VERSION
    return expected if 0 <= expected < 2**31 else NO_VERSION


def parse_data(payload: bytes) -> tuple[bytes, ZkStat]:
    """Parses the reply to a getData."""
    (length,) = _INT.unpack_from(payload)
    end = _INT.size + max(length, 0)  # a length of -1 stands for null
    return payload[_INT.size : end], ZkStat._make(_STAT.unpack_from(payload, end))


def parse_stat(payload: bytes) -> ZkStat:
    """Parses the reply to an exists or a setData."""
    return ZkStat._make(_STAT.unpack_from(payload))


def parse_created(payload: bytes) -> tuple[str, ZkStat]:
    """Parses the reply to a create2."""
    (length,) = _INT.unpack_from(payload)
    end = _INT.size + length
    return payload[_INT.size : end].decode(), ZkStat._make(_STAT.unpack_from(payload, end))


def parse_notification(payload: bytes) -> tuple[EventType | None, str]:
    """Parses a watch event. Returns its type and path. The type is None for an event of the session's state, which
    concerns no record."""
    event = zk.WatchEvent.deserialize(payload)
    return EVENT_TYPES.get(event.type), event.path or ""


def parse_multi(payload: bytes) -> tuple[int, int, list[Any]]:
    """Parses the reply to a multi.

    Returns the position of the op that failed or -1, its error code, and one result for each op: a path, a ZkStat or
    None. In a failed multi the ops before the one that failed have code 0, those after it RUNTIME_INCONSISTENCY
    (DataTree.processTxn).
    """
    results: list[Any] = []
    for position, reply in enumerate(zk.TransactionResponse.deserialize(payload).responses):
        code = getattr(reply, "error_code", None)
        if code is None:
            results.append(_multi_result(reply))
        elif code not in (ErrorCode.OK, ErrorCode.RUNTIME_INCONSISTENCY):
            return position, code, []
        else:
            results.append(None)
    return -1, ErrorCode.OK, results


def _multi_result(reply: Any) -> Any:
    if isinstance(reply, zk.SetDataResponse):
        return _stat(reply.stat)
    return getattr(reply, "path", None)


def parse_children(payload: bytes) -> Iterator[list[str]]:
    """Yields the names in the order of the reply, in lists of at most CHILDREN_AT_ONCE names, so that the caller can
    let other tasks run in between."""
    (left,) = _INT.unpack_from(payload)
    offset = _INT.size
    while left > 0:
        names: list[str] = []
        for _ in range(min(left, CHILDREN_AT_ONCE)):
            (length,) = _INT.unpack_from(payload, offset)
            start = offset + _INT.size
            offset = start + length
            names.append(payload[start:offset].decode())
        left -= len(names)
        yield names


def _create(path: str, value: bytes, ephemeral: bool, sequential: bool) -> Any:
    request = zk.CreateRequest(path=path, data=value, acl=[zk.UNRESTRICTED_ACCESS])
    request.set_flags(ephemeral, sequential)
    return request


def _stat(stat: Any) -> ZkStat:
    return ZkStat(
        stat.created_zxid,
        stat.last_modified_zxid,
        stat.created,
        stat.modified,
        stat.version,
        stat.child_version,
        stat.acl_version,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
        stat.last_modified_children,
    )


def _serialized(request: Any) -> bytes:
    body: bytes = request.serialize()
    return body
