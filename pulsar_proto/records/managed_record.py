"""Records of managed ledgers and their cursors: in the metadata store and in cursor ledgers.

The values themselves are the messages of `pb/managed_ledger.proto`, which keep fields that they do not know. See
docs/WIRE_FORMATS.md, "Managed ledgers' and cursors' records"; source: Java's MetaStoreImpl, ManagedCursorImpl and
OpenLongPairRangeSet, and records captured from Apache's broker (tests/vectors/pulsar_records.json).
"""

from struct import Struct
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from pulsar_proto.errors import MalformedFrame, MalformedRecord
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.pb import pulsar_api_pb2 as api
from pulsar_proto.records.compression import decompress
from pulsar_proto.text import check_text

_COMPRESSED_MAGIC = b"\x47\x78"
_COMPRESSED_HEAD = Struct(">2sI")
_UNCOMPRESSED_MAX = 256 * 1024 * 1024
"""A record that claims to hold more bytes than this uncompressed is refused. ZooKeeper's own limit for a record is 1
MiB by default."""

M = TypeVar("M", pb.ManagedLedgerInfo, pb.ManagedCursorInfo, pb.PositionInfo)


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
    for damage.
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
    try:
        data = decompress(
            api.CompressionType.ValueType(head.compressionType),
            record[start:],
            head.uncompressedSize,
            _UNCOMPRESSED_MAX,
        )
    except MalformedFrame as error:
        raise MalformedRecord(f"a compressed record: {error}") from error
    if len(data) != head.uncompressedSize:
        raise MalformedRecord(f"a record unpacks to other than the {head.uncompressedSize} bytes that it claims")
    return data


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
