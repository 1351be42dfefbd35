"""Records of managed ledgers and their cursors: in the metadata store and in cursor ledgers.

The values themselves are the messages of `pb/managed_ledger.proto`, which keep fields that they do not know. See
docs/WIRE_FORMATS.md, "Managed ledgers' and cursors' records"; source: Java's MetaStoreImpl, ManagedCursorImpl and
OpenLongPairRangeSet, and records captured from Apache's broker (tests/vectors/pulsar_records.json).
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
"""Bytes. A record that claims to unpack to more is refused. ZooKeeper's own limit for a record is 1 MiB by default."""
_WORD_BITS = 64
_SET_BITS = re.compile("1+")

M = TypeVar("M", pb.ManagedLedgerInfo, pb.ManagedCursorInfo, pb.PositionInfo)


class AckedRange(NamedTuple):
    """Acknowledged entries of one ledger, both ends included."""

    ledger_id: int
    first_entry_id: int
    last_entry_id: int


def parse_managed_ledger_info(record: bytes) -> pb.ManagedLedgerInfo:
    """Parses the value of /managed-ledgers/…/{topic}, which is empty for a new managed ledger. Raises
    MalformedRecord."""
    return _parse(pb.ManagedLedgerInfo(), uncompressed(record))


def parse_managed_cursor_info(record: bytes) -> pb.ManagedCursorInfo:
    """Parses the value of a cursor's record. Raises MalformedRecord."""
    return _parse(pb.ManagedCursorInfo(), uncompressed(record))


def parse_position_info(payload: bytes) -> pb.PositionInfo:
    """Parses the payload of an entry in a cursor's ledger. Raises MalformedRecord."""
    return _parse(pb.PositionInfo(), payload)


def serialize(record: pb.ManagedLedgerInfo | pb.ManagedCursorInfo | pb.PositionInfo) -> bytes:
    """Returns the record uncompressed, a form that every version of Pulsar reads."""
    return record.SerializeToString()


def uncompressed(record: bytes) -> bytes:
    """Returns the record without its compression.

    A compressed record is 0x4778 | u32 size | CompressedInfoMetadata | body (MetaStoreImpl.compressManagedInfo). No
    other record begins with 0x4778: it would be field 8 with wire type 7, which does not exist. Raises MalformedRecord
    for damage, and for a compression that is not built in.
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
    """Returns the individually acknowledged entries, whether they are stored as ranges or as bit sets (field 6 of
    PositionInfo).

    They are not in the order of ledgers. Of a range across several ledgers only the part in the last one is returned,
    because the record does not say where the others end: entries in these are delivered again.
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
    """Adds acknowledged ranges to the record, as message ranges: the form that every version of Pulsar reads."""
    for ledger_id, first, last in ranges:
        stored = record.individualDeletedMessages.add()
        stored.lowerEndpoint.ledgerId = ledger_id
        stored.lowerEndpoint.entryId = first - 1
        stored.upperEndpoint.ledgerId = ledger_id
        stored.upperEndpoint.entryId = last


def bitset_from_words(words: Sequence[int]) -> int:
    """Returns the words of java.util.BitSet.toLongArray as one integer: its bit k is bit k % 64 of word k // 64."""
    return int.from_bytes(b"".join((word & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little") for word in words), "little")


def words_from_bits(bits: int) -> list[int]:
    """Does the reverse of `bitset_from_words`: returns signed words, the last of them not zero, as Java expects
    them."""
    size = (bits.bit_length() + _WORD_BITS - 1) // _WORD_BITS * 8
    data = bits.to_bytes(size, "little")
    return [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, size, 8)]


def runs_of_bits(bits: int) -> list[tuple[int, int]]:
    """Returns (first, last) of each run of set bits, in rising order."""
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
