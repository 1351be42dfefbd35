"""BookKeeper's v2 wire protocol: return codes, flags, and the packets of requests and responses.

A frame is a u32 length and a packet of that many bytes. Encoders return whole frames, decoders take packets. The layout
of each packet stands in docs/WIRE_FORMATS.md, "Version 2: binary". Sources: BookieProtoEncoding and BookieProtocol of
BookKeeper 4.17, and bytes captured from it.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag
from typing import NamedTuple

from pulsar_proto.errors import MalformedFrame

CURRENT_VERSION = 2
MASTER_KEY_SIZE = 20
LAST_ENTRY = -1
"""The entry id of a read request that asks for the entry with the highest id. The answer repeats the -1."""


class BookieRc(IntEnum):
    """Return codes of v2. Java's v2 client drops the connection on EUNKNOWNLEDGERSTATE, and on values that are not
    listed here."""

    EOK = 0
    ENOLEDGER = 1
    ENOENTRY = 2
    EBADREQ = 100
    EIO = 101
    EUA = 102
    EBADVERSION = 103
    EFENCED = 104
    EREADONLY = 105
    ETOOMANYREQUESTS = 106
    EUNKNOWNLEDGERSTATE = 107


class AddFlags(IntFlag):
    """Flags of an add. Recovery sets both bits; re-replication sets RECOVERY_ADD alone."""

    NONE = 0
    RECOVERY_ADD = 2
    HIGH_PRIORITY = 4


class ReadFlags(IntFlag):
    """Flags of a read. Recovery reads set both bits. A request with FENCING carries the master key."""

    NONE = 0
    FENCING = 1
    HIGH_PRIORITY = 4


class BookieError(Exception):
    """A bookie refused a request or failed at it. `rc` is the return code that the wire carries."""

    def __init__(self, rc: BookieRc, message: str = "") -> None:
        super().__init__(f"{rc.name}: {message}" if message else rc.name)
        self.rc = rc


class EntryDamaged(BookieError):
    """The bookie's copy of an entry is damaged, so that asking again does not help. On the wire this error is an EIO
    like any other."""

    def __init__(self, message: str) -> None:
        super().__init__(BookieRc.EIO, message)


class OpCode(IntEnum):
    """Requests that a v2 server decodes. 4 to 6 are reserved: they close the connection, as any unknown number does."""

    ADD_ENTRY = 1
    READ_ENTRY = 2
    AUTH = 3
    BATCH_READ_ENTRY = 7


class AddRequest(NamedTuple):
    """A request to add an entry. `version` may be above 2, as in any request: the answer is then EBADVERSION, with the
    same version."""

    version: int
    flags: int
    ledger_id: int
    entry_id: int
    master_key: bytes
    entry: bytes


class ReadRequest(NamedTuple):
    """A request to read one entry."""

    version: int
    flags: int
    ledger_id: int
    entry_id: int
    master_key: bytes
    """The ledger's master key; empty unless FENCING is set."""


class BatchReadRequest(NamedTuple):
    """A request to read consecutive entries, from `entry_id` on."""

    version: int
    flags: int
    ledger_id: int
    entry_id: int
    master_key: bytes
    request_id: int
    max_count: int
    """The largest number of entries; 0 or less stands for no limit."""
    max_size: int


class AuthRequest(NamedTuple):
    """A step of the authentication."""

    version: int
    flags: int
    message: bytes
    """A serialised bookkeeper_pb2.AuthMessage."""


Request = AddRequest | ReadRequest | BatchReadRequest | AuthRequest


class Response(NamedTuple):
    """The answer to an add, a read or a batch read."""

    version: int
    opcode: OpCode
    rc: int
    ledger_id: int
    entry_id: int
    request_id: int
    """The request id of a batch read; 0 in other answers."""
    entries: tuple[bytes, ...]
    """Empty on an error and for an add; one entry for a read; any number of entries for a batch read."""


_WORD = struct.Struct(">I")
_IDS = struct.Struct(">qq")
_BATCH_TAIL = struct.Struct(">qiq")
_RESPONSE = struct.Struct(">Iiqq")
_REQUEST_ID = struct.Struct(">q")


def _header(version: int, opcode: int, flags: int) -> int:
    return version << 24 | opcode << 16 | flags if version else opcode


def _frame(*parts: bytes) -> bytes:
    return b"".join((_WORD.pack(sum(map(len, parts))), *parts))


def add_request(master_key: bytes, entry: bytes, flags: int = 0, version: int = CURRENT_VERSION) -> bytes:
    """Makes the frame of an add request. `entry` is the stored entry (`entry_digest`), whose first 16 bytes are its
    ids."""
    return _frame(_WORD.pack(_header(version, OpCode.ADD_ENTRY, flags)), master_key, entry)


def read_request(ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
    """Makes the frame of a read request. `master_key` is sent only with FENCING."""
    key = master_key if flags & ReadFlags.FENCING else b""
    header = _WORD.pack(_header(CURRENT_VERSION, OpCode.READ_ENTRY, flags))
    return _frame(header, _IDS.pack(ledger_id, entry_id), key)


def batch_read_request(
    ledger_id: int,
    first_entry_id: int,
    request_id: int,
    max_count: int,
    max_size: int,
    flags: int = 0,
    key: bytes = b"",
) -> bytes:
    """Makes the frame of a batch read request. A bookie older than 4.17 closes the connection when it gets one. The
    frame of the answer has at most `max_size` bytes."""
    header = _WORD.pack(_header(CURRENT_VERSION, OpCode.BATCH_READ_ENTRY, flags))
    tail = _BATCH_TAIL.pack(request_id, max_count, max_size)
    return _frame(header, _IDS.pack(ledger_id, first_entry_id), tail, key if flags & ReadFlags.FENCING else b"")


def auth_request(message: bytes) -> bytes:
    return _frame(_WORD.pack(_header(CURRENT_VERSION, OpCode.AUTH, 0)), message)


auth_response = auth_request


def add_response(rc: int, ledger_id: int, entry_id: int, version: int = CURRENT_VERSION) -> bytes:
    return _frame(_RESPONSE.pack(_header(version, OpCode.ADD_ENTRY, 0), rc, ledger_id, entry_id))


def read_response(rc: int, ledger_id: int, entry_id: int, entry: bytes = b"", version: int = CURRENT_VERSION) -> bytes:
    """Makes the frame of the answer to a read. The ids are those of the request (-1 stays -1); `entry` is empty on an
    error."""
    return _frame(_RESPONSE.pack(_header(version, OpCode.READ_ENTRY, 0), rc, ledger_id, entry_id), entry)


def batch_read_response(
    rc: int, ledger_id: int, entry_id: int, request_id: int, entries: Sequence[bytes], version: int = CURRENT_VERSION
) -> bytes:
    parts = [
        _RESPONSE.pack(_header(version, OpCode.BATCH_READ_ENTRY, 0), rc, ledger_id, entry_id),
        _REQUEST_ID.pack(request_id),
    ]
    for entry in entries:
        parts.append(_WORD.pack(len(entry)))
        parts.append(entry)
    return _frame(*parts)


def decode_request(packet: bytes) -> Request:
    """Decodes a request. Raises MalformedFrame for an unknown opcode or a packet that is too short: the bookie then
    closes the connection without an answer."""
    version, opcode, flags = _split_header(packet)
    try:
        if opcode == OpCode.ADD_ENTRY:
            ledger_id, entry_id = _IDS.unpack_from(packet, 24)
            return AddRequest(version, flags, ledger_id, entry_id, packet[4:24], packet[24:])
        if opcode == OpCode.READ_ENTRY:
            ledger_id, entry_id = _IDS.unpack_from(packet, 4)
            return ReadRequest(version, flags, ledger_id, entry_id, _key(packet, 20, flags))
        if opcode == OpCode.BATCH_READ_ENTRY:
            ledger_id, entry_id = _IDS.unpack_from(packet, 4)
            request_id, max_count, max_size = _BATCH_TAIL.unpack_from(packet, 20)
            key = _key(packet, 40, flags)
            return BatchReadRequest(version, flags, ledger_id, entry_id, key, request_id, max_count, max_size)
    except struct.error as error:
        raise MalformedFrame(f"v2 packet of {len(packet)} bytes is too short for opcode {opcode}") from error
    if opcode == OpCode.AUTH:
        return AuthRequest(version, flags, packet[4:])
    raise MalformedFrame(f"unknown v2 opcode {opcode}")


def decode_response(packet: bytes) -> Response:
    """Decodes the answer to an add, a read or a batch read. Raises MalformedFrame for anything else.

    The caller recognises an answer to AUTH beforehand, by `packet[1] == OpCode.AUTH`.
    """
    version, opcode, _ = _split_header(packet)
    try:
        _, rc, ledger_id, entry_id = _RESPONSE.unpack_from(packet)
        if opcode == OpCode.ADD_ENTRY:
            return Response(version, OpCode.ADD_ENTRY, rc, ledger_id, entry_id, 0, ())
        if opcode == OpCode.READ_ENTRY:
            entries = (packet[24:],) if rc == BookieRc.EOK else ()
            return Response(version, OpCode.READ_ENTRY, rc, ledger_id, entry_id, 0, entries)
        if opcode == OpCode.BATCH_READ_ENTRY:
            (request_id,) = _REQUEST_ID.unpack_from(packet, 24)
            return Response(
                version, OpCode.BATCH_READ_ENTRY, rc, ledger_id, entry_id, request_id, tuple(_split_entries(packet, 32))
            )
    except struct.error as error:
        raise MalformedFrame(f"v2 answer of {len(packet)} bytes is too short for opcode {opcode}") from error
    raise MalformedFrame(f"unknown v2 opcode {opcode} in an answer")


def _split_header(packet: bytes) -> tuple[int, int, int]:
    if len(packet) < 4:
        raise MalformedFrame(f"v2 packet of {len(packet)} bytes has no header")
    word = int.from_bytes(packet[:4], "big")
    version = word >> 24
    if version == 0:
        return 0, word, 0
    return version, word >> 16 & 0xFF, word & 0xFFFF


def _key(packet: bytes, offset: int, flags: int) -> bytes:
    """Returns the master key of a fencing request. Bytes that follow any other request are ignored, as in Java."""
    if not flags & ReadFlags.FENCING:
        return b""
    key = packet[offset : offset + MASTER_KEY_SIZE]
    if len(key) < MASTER_KEY_SIZE:
        raise MalformedFrame("fencing read without a master key")
    return key


def _split_entries(packet: bytes, offset: int) -> list[bytes]:
    entries = []
    while offset < len(packet):
        (size,) = _WORD.unpack_from(packet, offset)
        end = offset + 4 + size
        if end > len(packet):
            raise MalformedFrame(f"entry of {size} bytes reaches beyond its batch")
        entries.append(packet[offset + 4 : end])
        offset = end
    return entries
