"""BookKeeper's v3 wire protocol (protobuf): status codes, requests and answers as whole frames.

The messages are those of `pb/bookkeeper.proto`; this module sets the fields that Apache's peers insist on
(docs/WIRE_FORMATS.md, "Version 3: protobuf"; source: BookkeeperProtocol.proto and PerChannelBookieClient of BookKeeper
4.17, and exchanges captured from it):

- A client of 4.17 reads ids and status from the sub-response even on an error, so every answer to a known operation
  carries one. Only START_TLS without TLS and unknown operations are answered by header and status alone.
- The field `flag` of a read or an add has its enum's first value when it is unset, so HasField must be asked.

Adds and the answers to ADD and READ are encoded by hand; tests hold them equal to protobuf's bytes.
"""

import re
from collections.abc import Sequence
from struct import Struct

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.varint import varint
from pulsar_proto.wire.bookie_wire import AddFlags, BookieRc, ReadFlags

HIGH_PRIORITY = 100
"""The value that Java's client puts into `priority` when a v2 request would have the flag HIGH_PRIORITY."""
DEFERRED_SYNC = 1
"""The bit of `writeFlags` that asks for an answer before the entry is synced."""
TOTAL_DISK_CAPACITY = 1
FREE_DISK_SPACE = 2
"""Bits of GetBookieInfoRequest.requested."""
AUTH_DISABLED_PLUGIN = "AuthDisabledPlugin"

_STATUS_OF_RC: dict[int, pb.StatusCode.ValueType] = {int(rc): pb.StatusCode.Value(rc.name) for rc in BookieRc}
_RC_OF_STATUS: dict[int, BookieRc] = {pb.StatusCode.Value(rc.name): rc for rc in BookieRc}

_LENGTH = Struct(">I").pack
_ADD_HEAD = b"\x08\x03\x10\x02\x18"
_READ_HEAD = b"\x08\x03\x10\x01\x18"
"""The header of an ADD and of a READ, up to the value of txnId: version 3, the operation, the tag of txnId."""
_ADD_FIELD = b"\xaa\x06"
_READ_FIELD = b"\xa2\x06"
"""Tags of the sub-messages for ADD and READ, the same in Request and Response."""


def status_of(rc: int) -> pb.StatusCode.ValueType:
    """Returns the v3 status of the same name. Raises KeyError for a code that v2 does not have, because it must not be
    sent."""
    return _STATUS_OF_RC[rc]


def rc_of(status: int) -> BookieRc:
    """Returns the v2 return code of the same name. A status of a later version counts as EIO, as in Java's client."""
    return _RC_OF_STATUS.get(status, BookieRc.EIO)


def frame(message: pb.Request | pb.Response) -> bytes:
    body = message.SerializeToString()
    return _LENGTH(len(body)) + body


def parse_request(packet: bytes) -> pb.Request:
    """Parses a request. Raises MalformedFrame for damage, a missing required field, or an operation that is not
    known."""
    try:
        request = pb.Request.FromString(packet)
    except DecodeError as error:
        raise MalformedFrame(f"v3 request of {len(packet)} bytes: {error}") from None
    if not request.IsInitialized():
        raise MalformedFrame(f"v3 request of {len(packet)} bytes lacks a required field")
    return request


def parse_response(packet: bytes) -> pb.Response:
    """Parses an answer. Raises MalformedFrame for damage or a missing required field."""
    try:
        response = pb.Response.FromString(packet)
    except DecodeError as error:
        raise MalformedFrame(f"v3 answer of {len(packet)} bytes: {error}") from None
    if not response.IsInitialized():
        raise MalformedFrame(f"v3 answer of {len(packet)} bytes lacks a required field")
    return response


_ANSWER_FIELDS = (
    "addResponse",
    "readResponse",
    "writeLacResponse",
    "readLacResponse",
    "getBookieInfoResponse",
    "forceLedgerResponse",
    "getListOfEntriesOfLedgerResponse",
)


def status_in(response: pb.Response) -> int:
    """Returns the answer's status as Java's client takes it: the outer status or, when that is EOK, the
    sub-message's."""
    if response.status != pb.EOK:
        return response.status
    for field in _ANSWER_FIELDS:
        if response.HasField(field):  # type: ignore[arg-type]
            return int(getattr(response, field).status)
    return response.status


# ---- requests -------------------------------------------------------------------------------------------------------


def new_request(operation: pb.OperationType.ValueType, txn_id: int, priority: int = 0) -> pb.Request:
    """Makes a request without its sub-message. A `priority` of 0 is left unset, as in Java."""
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=operation, txnId=txn_id)
    if priority:
        header.priority = priority
    return pb.Request(header=header)


_HIGH_PRIORITY_FIELD = b"\x20" + varint(HIGH_PRIORITY)
_RECOVERY_FIELD = b"\xa0\x06" + varint(pb.AddRequest.RECOVERY_ADD)


def add_requests(
    first_txn_id: int,
    ledger_id: int,
    entry_ids: Sequence[int],
    master_key: bytes,
    entries: Sequence[bytes],
    flags: int = 0,
    write_flags: int = 0,
) -> list[bytes]:
    """Returns the frames of adds with consecutive txnIds, in pieces to be joined.

    `entries` are stored entries with their headers; `flags` are those of v2 (`AddFlags`).
    """
    priority = _HIGH_PRIORITY_FIELD if flags & AddFlags.HIGH_PRIORITY else b""
    ledger = b"\x08" + varint(ledger_id) + b"\x10"
    key = b"\x1a" + varint(len(master_key)) + master_key + b"\x22"
    tail = (b"\x28" + varint(write_flags) if write_flags else b"") + (
        _RECOVERY_FIELD if flags & AddFlags.RECOVERY_ADD else b""
    )
    fixed = len(ledger) + len(key) + len(tail)
    parts: list[bytes] = []
    for txn_id, entry_id, entry in zip(
        range(first_txn_id, first_txn_id + len(entries)), entry_ids, entries, strict=True
    ):
        size = len(entry)
        txn, number, length = varint(txn_id), varint(entry_id), varint(size)
        inner = varint(fixed + len(number) + len(length) + size)
        header = b"".join((_ADD_HEAD, txn, priority))
        head = b"".join((b"\x0a%c" % len(header), header, _ADD_FIELD, inner, ledger, number, key, length))
        parts += (_LENGTH(len(head) + size + len(tail)), head, entry)
        if tail:
            parts.append(tail)
    return parts


def add_request(
    txn_id: int, ledger_id: int, entry_id: int, master_key: bytes, entry: bytes, flags: int = 0, write_flags: int = 0
) -> bytes:
    return b"".join(add_requests(txn_id, ledger_id, (entry_id,), master_key, (entry,), flags, write_flags))


def read_request(txn_id: int, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
    """Makes the frame of a read request. `flags` are those of v2 (`ReadFlags`); the master key is sent only with
    FENCING."""
    request = new_request(pb.READ_ENTRY, txn_id, HIGH_PRIORITY if flags & ReadFlags.HIGH_PRIORITY else 0)
    read = request.readRequest
    read.ledgerId = ledger_id
    read.entryId = entry_id
    if flags & ReadFlags.FENCING:
        read.masterKey = master_key
        read.flag = pb.ReadRequest.FENCE_LEDGER
    return frame(request)


def long_poll_request(txn_id: int, ledger_id: int, previous_lac: int, timeout_ms: int) -> pb.Request:
    """Makes the request of a long poll.

    The bookie answers once the last add confirmed that it knows exceeds `previous_lac`, or after `timeout_ms`. The
    answer holds the entry after `previous_lac` if that bookie has it.
    """
    request = new_request(pb.READ_ENTRY, txn_id)
    read = request.readRequest
    read.ledgerId = ledger_id
    read.entryId = -1
    read.previousLAC = previous_lac
    read.timeOut = timeout_ms
    read.flag = pb.ReadRequest.ENTRY_PIGGYBACK
    return request


# ---- adds, as every client writes them ------------------------------------------------------------------------------

_VARINT = rb"([\x80-\xff]{0,9}[\x00-\x7f])"
_USUAL_ADD = re.compile(
    rb"\x0a(.)\x08\x03\x10\x02\x18" + _VARINT + rb"\xaa\x06" + _VARINT  # header without priority, addRequest
    + rb"\x08" + _VARINT + rb"\x10" + _VARINT + rb"\x1a\x14(.{20})\x22" + _VARINT,  # ids, master key, length of body
    re.DOTALL,
).match  # fmt: skip
_ADD_REQUEST_TAG_BYTES = 2
_HEADER_OFFSET = 2


Echo = tuple[bytes, bytes, bytes]
"""The numbers that an answer repeats from its request, as varints: txnId, ledgerId and entryId."""


UsualAdd = tuple[Echo, bytes, int]
"""A tuple (echo, master key, offset of the entry). The entry reaches to the end of the packet."""


def usual_add(data: bytes, start: int, stop: int) -> UsualAdd | None:
    """Reads the add in `data[start:stop]` without protobuf. Returns None unless the add has the usual form.

    "Usual" is an add with protobuf's order of fields, a master key of 20 bytes, no flags and no priority. One match of
    `_USUAL_ADD` takes a third of the time that pb.Request and its fields take. The expression alone proves nothing: it
    could match bytes whose lengths say something else. So the three lengths in it (header, sub-message, entry) are
    compared with where the parts really end. When all agree, protobuf's parser would find the same fields, and no byte
    is left over; otherwise the packet is parsed like all others.
    """
    found = _USUAL_ADD(data, start, stop)
    if found is None:
        return None
    header_size, txn, size, ledger, entry, key, body_size = found.groups()
    body_start = found.end()
    if (
        body_start + _length(body_size) != stop
        or found.start(3) + len(size) + _length(size) != stop
        or start + _HEADER_OFFSET + header_size[0] != found.start(3) - _ADD_REQUEST_TAG_BYTES
    ):
        return None
    return (txn, ledger, entry), key, body_start


_STORED = re.compile(rb"\x0a(.)\x08\x03\x10\x02\x18" + _VARINT + rb"\x10\x00\xaa\x06(.)\x08\x00", re.DOTALL).match


def stored_txn(data: bytes, start: int, stop: int) -> int | None:
    """Returns the txnId when `data[start:stop]` is the usual answer to an add, with EOK in both places; otherwise
    returns None.

    As in `usual_add`, the lengths are compared with where the parts end.
    """
    found = _STORED(data, start, stop)
    if found is None:
        return None
    header_size, txn, size = found.groups()
    if header_size[0] != 5 + len(txn) or found.end(3) + size[0] != stop:
        return None
    return _length(txn)


def _length(raw: bytes) -> int:
    """Returns the value of a varint that the expressions above matched. Two bytes are the usual case."""
    if len(raw) == 2:
        return raw[0] & 0x7F | raw[1] << 7
    value = 0
    for index, byte in enumerate(raw):
        value |= (byte & 0x7F) << 7 * index
    return value


# ---- answers --------------------------------------------------------------------------------------------------------


def add_flags(request: pb.Request) -> int:
    """Returns the flags that the add would have in v2."""
    flags = int(AddFlags.NONE)
    if request.addRequest.HasField("flag") and request.addRequest.flag == pb.AddRequest.RECOVERY_ADD:
        flags |= AddFlags.RECOVERY_ADD
    if request.header.priority:
        flags |= AddFlags.HIGH_PRIORITY
    return flags


def is_fencing(read: pb.ReadRequest) -> bool:
    return read.HasField("flag") and read.flag == pb.ReadRequest.FENCE_LEDGER


def is_piggyback(read: pb.ReadRequest) -> bool:
    return read.HasField("flag") and read.flag == pb.ReadRequest.ENTRY_PIGGYBACK


def _status_field(number: bytes, rc: int) -> bytes:
    return number + varint(_STATUS_OF_RC[rc])


_OUTER_STATUS = {int(rc): _status_field(b"\x10", rc) for rc in BookieRc}
_INNER_STATUS = {int(rc): _status_field(b"\x08", rc) for rc in BookieRc}


def echo_of(txn_id: int, ledger_id: int, entry_id: int) -> Echo:
    return varint(txn_id), varint(ledger_id), varint(entry_id)


def add_responses(rc: int, echoes: Sequence[Echo]) -> bytes:
    """Returns the joined frames of answers to adds with the same outcome.

    Each takes about 0.6 µs; building a pb.Response takes 2.5. All lengths fit one byte, as the three varints have at
    most ten bytes each.
    """
    outer, inner = _OUTER_STATUS[rc], _INNER_STATUS[rc]
    # The bytes around the three varints. Header: 5 bytes and txnId. Sub-message: status, two tags and two ids.
    fixed, around = len(inner) + 2, len(outer) + len(inner) + 12
    parts: list[bytes] = []
    for txn, ledger, entry in echoes:
        body = fixed + len(ledger) + len(entry)
        size = around + len(txn) + len(ledger) + len(entry)
        parts += (
            b"\0\0\0%c\x0a%c\x08\x03\x10\x02\x18" % (size, 5 + len(txn)),
            txn,
            outer,
            b"\xaa\x06%c" % body,
            inner,
            b"\x10",
            ledger,
            b"\x18",
            entry,
        )
    return b"".join(parts)


def read_response(
    rc: int,
    txn_id: int,
    ledger_id: int,
    entry_id: int,
    entry: bytes | None = None,
    max_lac: int | None = None,
    lac_time_ms: int | None = None,
) -> bytes:
    """Makes the frame of the answer to a read. The ids are those of the request (-1 stays -1); only the answer to a
    long poll has the real id of its entry."""
    txn = varint(txn_id)
    fields = [_INNER_STATUS[rc], b"\x10", varint(ledger_id), b"\x18", varint(entry_id)]
    if entry is not None:
        fields += (b"\x22", varint(len(entry)), entry)
    if max_lac is not None:
        fields += (b"\x28", varint(max_lac))
    if lac_time_ms is not None:
        fields += (b"\x30", varint(lac_time_ms))
    size = sum(map(len, fields))
    head = b"".join(
        (b"\x0a%c" % (5 + len(txn)), _READ_HEAD, txn, _OUTER_STATUS[rc], _READ_FIELD, varint(size)),
    )
    return b"".join((_LENGTH(len(head) + size), head, *fields))


def response_to(request: pb.Request, rc: int) -> pb.Response:
    """Makes an answer of header and status, without a sub-response."""
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=request.header.operation, txnId=request.header.txnId)
    return pb.Response(header=header, status=status_of(rc))


def refusal(request: pb.Request, rc: int) -> bytes:
    """Makes the frame of an error response. The frame includes the sub-response for the request's operation, because
    clients read the status there."""
    response = response_to(request, rc)
    status = response.status
    operation = request.header.operation
    if operation == pb.ADD_ENTRY:
        add = request.addRequest
        response.addResponse.CopyFrom(pb.AddResponse(status=status, ledgerId=add.ledgerId, entryId=add.entryId))
    elif operation == pb.READ_ENTRY:
        read = request.readRequest
        response.readResponse.CopyFrom(pb.ReadResponse(status=status, ledgerId=read.ledgerId, entryId=read.entryId))
    elif operation == pb.WRITE_LAC:
        response.writeLacResponse.CopyFrom(
            pb.WriteLacResponse(status=status, ledgerId=request.writeLacRequest.ledgerId)
        )
    elif operation == pb.READ_LAC:
        response.readLacResponse.CopyFrom(pb.ReadLacResponse(status=status, ledgerId=request.readLacRequest.ledgerId))
    elif operation == pb.GET_BOOKIE_INFO:
        response.getBookieInfoResponse.CopyFrom(pb.GetBookieInfoResponse(status=status))
    elif operation == pb.FORCE_LEDGER:
        response.forceLedgerResponse.CopyFrom(
            pb.ForceLedgerResponse(status=status, ledgerId=request.forceLedgerRequest.ledgerId)
        )
    elif operation == pb.GET_LIST_OF_ENTRIES_OF_LEDGER:
        response.getListOfEntriesOfLedgerResponse.CopyFrom(
            pb.GetListOfEntriesOfLedgerResponse(
                status=status, ledgerId=request.getListOfEntriesOfLedgerRequest.ledgerId
            )
        )
    return frame(response)
