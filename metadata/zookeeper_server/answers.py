"""Frames that the server sends: length, then the header of an answer (xid, zxid, error) and its fields, in Jute."""

import struct
from collections.abc import Iterable, Sequence

from magnetar.metadata.zookeeper_server.protocol import NOTIFICATION_XID, SYNC_CONNECTED, OpCode

_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_FRAME = struct.Struct(">iiqi")
_HEADER_BYTES = _FRAME.size - _INT.size
_CONNECT = struct.Struct(">iiqi")
_MULTI_HEADER = struct.Struct(">ibi")
_EVENT = struct.Struct(">iii")

NO_ZXID = -1
"""The zxid of an event that a session missed while it was not connected (WatchedEvent.NO_ZXID)."""

NULL = _INT.pack(-1)


def answer(xid: int, zxid: int, error: int, payload: bytes = b"") -> bytes:
    """Returns the frame of an answer."""
    return _FRAME.pack(_HEADER_BYTES + len(payload), xid, zxid, error) + payload


def event(kind: int, path: bytes, zxid: int = NO_ZXID) -> bytes:
    """Returns the frame that reports an event to a watcher."""
    return answer(NOTIFICATION_XID, zxid, 0, _EVENT.pack(kind, SYNC_CONNECTED, len(path)) + path)


def connected(timeout_ms: int, session_id: int, password: bytes, *, with_read_only: bool) -> bytes:
    """Returns the answer to a connect request. Clients before 3.4 do not expect the flag that says whether the server
    is read-only (ProtocolManager.serializeConnectResponse)."""
    payload = _CONNECT.pack(0, timeout_ms, session_id, len(password)) + password + b"\0" * with_read_only
    return _INT.pack(len(payload)) + payload


def text(value: bytes) -> bytes:
    return _INT.pack(len(value)) + value


def number(value: int) -> bytes:
    return _INT.pack(value)


def texts(values: Sequence[bytes]) -> bytes:
    return _INT.pack(len(values)) + b"".join([part for value in values for part in (_INT.pack(len(value)), value)])


def access_list(entries: Iterable[tuple[int, bytes, bytes]]) -> bytes:
    """Returns a vector of access control entries (permissions, scheme, id)."""
    entries = tuple(entries)
    packed = [_INT.pack(perms) + text(scheme) + text(name) for perms, scheme, name in entries]
    return _INT.pack(len(packed)) + b"".join(packed)


def multi_answer(results: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Returns the fields of the answer to a multi. A result is (type of the operation, error, fields)."""
    parts = []
    for kind, error, fields in results:
        parts.append(_MULTI_HEADER.pack(kind, 0, error))
        parts.append(fields)
    parts.append(_MULTI_HEADER.pack(OpCode.ERROR, 1, -1))
    return b"".join(parts)


def multi_error(code: int) -> tuple[int, int, bytes]:
    """Returns the result of an operation that was not done because its multi failed (OpResult.ErrorResult)."""
    return OpCode.ERROR, code, _INT.pack(code)
