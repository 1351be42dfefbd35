"""Records of managed ledgers and their cursors: in the metadata store and in cursor ledgers.

The values themselves are the messages of `pb/managed_ledger.proto`, which keep fields that they do not know. Source:
Java's MetaStoreImpl, ManagedCursorImpl and OpenLongPairRangeSet (facts 6.1, 6.3, 14).
"""

import re
import zlib
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError, Message

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.text import check_text

_COMPRESSED_MAGIC = b"\x47\x78"
_COMPRESSED_HEAD = Struct(">2sI")
_UNCOMPRESSED_MAX = 256 * 1024 * 1024
"""Bytes; a record that claims more is refused rather than unpacked. ZooKeeper's own limit is 1 MiB by default."""
_WORD_BITS = 64
_SET_BITS = re.compile("1+")

M = TypeVar("M", pb.ManagedLedgerInfo, pb.ManagedCursorInfo, pb.PositionInfo)


class AckedRange(NamedTuple):
    """Acknowledged entries of one ledger, both ends included."""

    ledger_id: int
    first_entry_id: int
    last_entry_id: int


def parse_managed_ledger_info(record: bytes) -> pb.ManagedLedgerInfo:
    """The value of /managed-ledgers/…/{topic}; empty: a new managed ledger. Raises MalformedRecord."""
    return _parse(pb.ManagedLedgerInfo(), uncompressed(record))


def parse_managed_cursor_info(record: bytes) -> pb.ManagedCursorInfo:
    """The value of a cursor's node. Raises MalformedRecord."""
    return _parse(pb.ManagedCursorInfo(), uncompressed(record))


def parse_position_info(payload: bytes) -> pb.PositionInfo:
    """The payload of an entry of a cursor ledger. Raises MalformedRecord."""
    return _parse(pb.PositionInfo(), payload)


def serialize(record: pb.ManagedLedgerInfo | pb.ManagedCursorInfo | pb.PositionInfo) -> bytes:
    """Uncompressed, which every version reads."""
    return record.SerializeToString()


def uncompressed(record: bytes) -> bytes:
    """The record without its compression: 0x4778 | u32 size | CompressedInfoMetadata | body, or the record as it is.

    No uncompressed record begins with 0x4778 (field 8 of wire type 7). Raises MalformedRecord, also for a compression
    that is not built in.
    """
    if not record.startswith(_COMPRESSED_MAGIC):
        return record
    if len(record) < _COMPRESSED_HEAD.size:
        raise MalformedRecord(f"compressed record of {len(record)} bytes is cut")
    _, size = _COMPRESSED_HEAD.unpack_from(record)
    start = _COMPRESSED_HEAD.size + size
    if start > len(record):
        raise MalformedRecord(f"the head of a compressed record claims {size} of {len(record)} bytes")
    head = _parse_head(record[_COMPRESSED_HEAD.size : start])
    if not 0 <= head.uncompressedSize <= _UNCOMPRESSED_MAX:
        raise MalformedRecord(f"a compressed record claims {head.uncompressedSize} bytes")
    body = record[start:]
    if head.compressionType == pb.NONE:
        data = body
    elif head.compressionType == pb.ZLIB:
        try:
            data = zlib.decompressobj().decompress(body, head.uncompressedSize + 1)
        except zlib.error as error:
            raise MalformedRecord(f"a ZLIB record does not unpack: {error}") from error
    else:
        name = pb.CompressionType.Name(head.compressionType)
        raise MalformedRecord(f"a record is compressed with {name}, which this version cannot read")
    if len(data) != head.uncompressedSize:
        raise MalformedRecord(f"a record unpacks to other than the {head.uncompressedSize} bytes that it claims")
    return data


def acked_ranges(record: pb.ManagedCursorInfo | pb.PositionInfo) -> list[AckedRange]:
    """The individually acknowledged entries, whether stored as ranges or (PositionInfo's field 6) as bit sets.

    Not in ledger order. Of a range across ledgers only the part in its last ledger is given, as where the others end is
    not said: the rest is delivered again.
    """
    ranges = []
    for stored in record.individualDeletedMessages:
        lower, upper = stored.lowerEndpoint, stored.upperEndpoint
        first = lower.entryId + 1 if lower.ledgerId == upper.ledgerId else 0
        if first <= upper.entryId:
            ranges.append(AckedRange(upper.ledgerId, first, upper.entryId))
    if isinstance(record, pb.PositionInfo):
        for bit_set in record.individualDeletedMessageRanges:
            bits = bitset_from_words(bit_set.values)
            ranges += [AckedRange(bit_set.key, first, last) for first, last in runs_of_bits(bits)]
    return ranges


def add_acked_ranges(record: pb.ManagedCursorInfo | pb.PositionInfo, ranges: Iterable[AckedRange]) -> None:
    """Adds them as message ranges, the form that every version of Pulsar reads."""
    for ledger_id, first, last in ranges:
        stored = record.individualDeletedMessages.add()
        stored.lowerEndpoint.ledgerId = ledger_id
        stored.lowerEndpoint.entryId = first - 1
        stored.upperEndpoint.ledgerId = ledger_id
        stored.upperEndpoint.entryId = last


def bitset_from_words(words: Sequence[int]) -> int:
    """The bits of java.util.BitSet.toLongArray as one integer: bit k of it is bit k % 64 of word k // 64."""
    return int.from_bytes(b"".join((word & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little") for word in words), "little")


def words_from_bits(bits: int) -> list[int]:
    """The reverse: signed words, none of them zero at the end, as Java writes and expects them."""
    size = (bits.bit_length() + _WORD_BITS - 1) // _WORD_BITS * 8
    data = bits.to_bytes(size, "little")
    return [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, size, 8)]


def runs_of_bits(bits: int) -> list[tuple[int, int]]:
    """(first, last) of each run of set bits, rising."""
    return [(run.start(), run.end() - 1) for run in _SET_BITS.finditer(f"{bits:b}"[::-1])]


def _parse(message: M, data: bytes) -> M:
    _merge(message, data)
    return message


def _parse_head(data: bytes) -> pb.CompressedInfoMetadata:
    head = pb.CompressedInfoMetadata()
    _merge(head, data)
    return head


def _merge(message: Message, data: bytes) -> None:
    try:
        message.MergeFromString(data)
        check_text(message)
    except DecodeError as error:
        raise MalformedRecord(f"{message.DESCRIPTOR.name} of {len(data)} bytes does not decode: {error}") from error
    if not message.IsInitialized():
        raise MalformedRecord(f"{message.DESCRIPTOR.name} of {len(data)} bytes lacks a required field")
