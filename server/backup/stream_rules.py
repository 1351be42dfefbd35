"""The stream in which a server sends a backup, and the request for it.

A frame is u8 kind and a block (`block_rules`). The order of the frames:

    HEADER                 JSON: what server this is
    RECORDS …              the metadata of one moment
    LEDGER, ENTRIES …      for each ledger by ascending id: JSON, and the entries that the client does not have
    END                    JSON: how many records and ledgers there were; a stream without it is not whole
    FAULT                  instead of all that follows: the server's reason in UTF-8
"""

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from magnetar.server.backup.backup_errors import StreamError
from magnetar.server.backup.block_rules import BLOCK_HEAD, block, check_body, check_length
from pulsar_proto.varint import varint, varint_at

STREAM_FORMAT = 1
HISTORY_BYTES = 16
REQUEST_BYTES_MAX = 1 << 20
"""The largest body that the web port takes. The ledgers that find no room in it are sent once more."""
_UNPACKED_BYTES_MAX = 8 << 20
"""A request unpacks to no more than this; it is the size of about two million ledgers."""

_KIND = struct.Struct(">B")


class Kind(IntEnum):
    HEADER = 1
    RECORDS = 2
    LEDGER = 3
    ENTRIES = 4
    END = 5
    FAULT = 6


class Frame(NamedTuple):
    kind: Kind
    body: bytes

    def fields(self) -> dict[str, Any]:
        """Returns the JSON object in the frame. Raises StreamError when there is none."""
        try:
            fields = json.loads(self.body)
        except ValueError:
            fields = None
        if not isinstance(fields, dict):
            raise StreamError(f"a frame {self.kind.name} holds no JSON object")
        return fields


def frame(kind: Kind, body: bytes) -> bytes:
    return _KIND.pack(kind) + block(body)


def json_frame(kind: Kind, **fields: Any) -> bytes:
    return frame(kind, json.dumps(fields).encode())


class FrameReader:
    """Cuts received bytes into frames."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Takes bytes as they came and yields the frames that are whole now. Raises StreamError for bytes that are no
        frames."""
        self._buffer += data
        head_bytes = _KIND.size + BLOCK_HEAD.size
        at = 0
        while len(self._buffer) - at >= head_bytes:
            length, checksum = BLOCK_HEAD.unpack_from(self._buffer, at + _KIND.size)
            check_length(length)
            end = at + head_bytes + length
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[at + head_bytes : end])
            check_body(body, checksum)
            try:
                kind = Kind(self._buffer[at])
            except ValueError:
                raise StreamError(f"a frame of kind {self._buffer[at]} came, which is unknown here") from None
            at = end
            yield Frame(kind, body)
        del self._buffer[:at]

    @property
    def is_between_frames(self) -> bool:
        return not self._buffer


class Held(NamedTuple):
    """What a client has already: the history of the server's metadata that its backup belongs to (empty when it has no
    backup), and the last entry of each ledger."""

    history: bytes
    last_entry_ids: Mapping[int, int]

    def first_wanted(self, history: bytes, ledger_id: int) -> int:
        """Returns the first entry that the client lacks. A backup of another history counts for nothing, because the
        same ids may stand for other entries in it."""
        if history != self.history:
            return 0
        return self.last_entry_ids.get(ledger_id, -1) + 1


def encode_held(held: Held, bytes_max: int = REQUEST_BYTES_MAX) -> bytes:
    """Returns the body of a request. Ledgers that find no room are left out, which costs their transfer only."""
    ids = sorted(held.last_entry_ids)
    while True:
        parts, before = [held.history.ljust(HISTORY_BYTES, b"\0")], 0
        for ledger_id in ids:
            parts += varint(ledger_id - before), varint(held.last_entry_ids[ledger_id] + 1)
            before = ledger_id
        data = b"".join(parts)
        packed = zlib.compress(data)
        if (len(packed) <= bytes_max and len(data) < _UNPACKED_BYTES_MAX) or not ids:
            return packed
        ids = ids[: len(ids) // 2]


def decode_held(body: bytes) -> Held:
    """Returns what a request says; an empty body says that the client has nothing. Raises StreamError."""
    if not body:
        return Held(b"", {})
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(body, _UNPACKED_BYTES_MAX)
    except zlib.error as error:
        raise StreamError(f"the request is not packed as it should be: {error}") from None
    if not unpacker.eof or len(data) < HISTORY_BYTES:
        raise StreamError("the request breaks off or is too long")
    last_entry_ids: dict[int, int] = {}
    at, ledger_id = HISTORY_BYTES, 0
    while at < len(data):
        step, at = varint_at(data, at, len(data))
        if at == len(data):
            raise StreamError("the request ends within a ledger")
        end, at = varint_at(data, at, len(data))
        ledger_id += step
        last_entry_ids[ledger_id] = end - 1
    return Held(data[:HISTORY_BYTES], last_entry_ids)
