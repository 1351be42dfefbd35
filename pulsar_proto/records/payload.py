"""Reads and builds payloads. A payload follows the command in SEND and MESSAGE, and is stored as the payload of an
entry.

    [0x0e02 u16 | u32 size | BrokerEntryMetadata]   in stored entries and for clients that want it, never from clients
    [0x0e01 u16 | u32 crc32c]                       a checksum of everything after it
    u32 size | MessageMetadata | body

See docs/WIRE_FORMATS.md, "Payloads: checksum, metadata, batches"; source: Java's `Commands.parseMessageMetadata`. An
`offset` says where the payload begins in the bytes given, so that a whole stored entry can be looked at without cutting
it (`EntryCodec.payload_offset`).
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from struct import Struct
from struct import error as struct_error
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pulsar_proto.checksum import crc32c_extend, crc32c_of
from pulsar_proto.element_count import check_elements
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.usual_metadata import usual_sticky_key_of
from pulsar_proto.text import raw_field
from pulsar_proto.varint import varint

BatchMessage = tuple[pb.SingleMessageMetadata, bytes]
"""A message of a batch: its metadata in the batch, and its content."""

METADATA_BYTES_MAX = 128 << 10
"""How many bytes of metadata a message of a batch may have. A parser takes some 10 ms for so many bytes of the smallest
elements."""

INNOCENT_METADATA_BYTES = 1 << 10
"""Metadata of an entry up to this length is not checked, even if it consists of the smallest elements. A hundred such
entries are sent in one turn of the event loop."""
METADATA_ELEMENTS_MAX = 4_096
"""How many elements metadata of an entry that is longer than INNOCENT_METADATA_BYTES may have: properties, keys, and
the elements inside them."""

MAGIC_CRC32C = 0x0E01
MAGIC_BROKER_ENTRY_METADATA = 0x0E02

_MAGIC_AND_WORD = Struct(">HI")
_MAGIC_CRC_SIZE = Struct(">HII")
_SIZE = Struct(">I")
_BLOCK_BYTES = _MAGIC_AND_WORD.size
_NUM_MESSAGES_TAG = 11 << 3

_pack_size = _SIZE.pack
_pack_magic_word = _MAGIC_AND_WORD.pack
_unpack_magic_crc_size = _MAGIC_CRC_SIZE.unpack_from
_unpack_magic_word = _MAGIC_AND_WORD.unpack_from
_parse_metadata = pb.MessageMetadata.FromString
_parse_single = pb.SingleMessageMetadata.FromString


def verify_checksum(payload: bytes) -> bool:
    """Returns whether a client's payload agrees with its CRC-32C. A payload without a checksum counts as sound."""
    try:
        magic, stored = _unpack_magic_word(payload)
    except struct_error:
        return payload[:2] != b"\x0e\x01"
    return bool(magic != MAGIC_CRC32C or crc32c_of(payload[6:]) == stored)


def skip_broker_entry_metadata(payload: bytes, offset: int = 0) -> int:
    """Returns where the client's own bytes begin: behind the 0x0e02 block, if there is one.

    Raises MalformedFrame for a block that reaches beyond its entry.
    """
    try:
        magic, size = _unpack_magic_word(payload, offset)
    except struct_error:
        return offset
    if magic != MAGIC_BROKER_ENTRY_METADATA:
        return offset
    start: int = offset + _BLOCK_BYTES + size
    if start > len(payload):
        raise MalformedFrame(f"broker entry metadata of {size} bytes reaches beyond its entry")
    return start


def broker_entry_metadata(payload: bytes, offset: int = 0) -> pb.BrokerEntryMetadata | None:
    """Returns the decoded 0x0e02 block, or None when there is no such block. Raises MalformedFrame for a damaged
    one."""
    start = skip_broker_entry_metadata(payload, offset)
    if start == offset:
        return None
    try:
        return pb.BrokerEntryMetadata.FromString(payload[offset + _BLOCK_BYTES : start])
    except DecodeError as error:
        raise MalformedFrame("broker entry metadata does not decode") from error


def skip_checksum(payload: bytes, offset: int = 0) -> int:
    """Returns the offset of metadataSize, which follows both blocks. Clients below protocol 11 get a payload from here
    on.

    Raises MalformedFrame for a block that reaches beyond its entry.
    """
    start = skip_broker_entry_metadata(payload, offset)
    return start + _BLOCK_BYTES if payload[start : start + 2] == b"\x0e\x01" else start


def parse_metadata(payload: bytes, offset: int = 0) -> pb.MessageMetadata:
    """Parses the message metadata.

    Raises MalformedFrame when a size is wrong, the metadata does not decode, or a required field is missing.
    """
    metadata = _metadata(payload, offset)
    if not metadata.IsInitialized():
        raise MalformedFrame("message metadata lacks a required field")
    return metadata


def metadata_fault(payload: bytes) -> str | None:
    """Returns why a broker refuses to store a client's payload, or None when it may be stored.

    Metadata longer than INNOCENT_METADATA_BYTES is refused when it has more than METADATA_ELEMENTS_MAX elements,
    because parsing it would keep all other clients waiting, or when it contains a group. Raises MalformedFrame when a
    size is wrong.
    """
    start, end = _metadata_span(payload, 0)
    if end - start <= INNOCENT_METADATA_BYTES:
        return None
    try:
        check_elements(payload[start:end], pb.MessageMetadata.DESCRIPTOR, METADATA_ELEMENTS_MAX)
    except MalformedFrame as error:
        return f"Exceed maximum message metadata: {error}"
    return None


def message_count(payload: bytes, offset: int = 0) -> int:
    """Returns how many messages the entry holds: num_messages_in_batch, or 1 when that field is absent.

    Raises MalformedFrame when a size is wrong or a batch's metadata does not decode.
    """
    try:
        magic, _, size = _unpack_magic_crc_size(payload, offset)
        if magic == MAGIC_CRC32C:
            start = offset + 10
            end = start + size
            if end <= len(payload):
                if payload.find(_NUM_MESSAGES_TAG, start, end) < 0:
                    return 1
                return _parse_metadata(payload[start:end]).num_messages_in_batch
    except (DecodeError, struct_error):
        pass
    return _metadata(payload, offset).num_messages_in_batch


class MessageChunk(NamedTuple):
    """A part of a large message."""

    uuid: bytes
    """The uuid of the whole message, as its producer wrote it."""
    is_last: bool


class Special(NamedTuple):
    """The properties of an entry that is not simply sent to the next consumer."""

    deliver_at_ms: int
    """The message is not to be delivered before this time (milliseconds since the epoch); 0 when it has no delay."""
    is_marker: bool
    """Whether a broker wrote the entry for other brokers: the end of a transaction, or the snapshot of a replicated
    subscription."""
    chunk: MessageChunk | None
    txn_id: TxnId | None = None
    """The transaction to which the message belongs, or which the marker ends."""


def count_and_special(payload: bytes) -> tuple[int, Special | None]:
    """Returns `message_count`, and the special properties of the entry, or None when there are none. Raises
    MalformedFrame."""
    metadata = _metadata_at_start(payload)
    deliver_at_ms, marker_type, chunks = metadata.deliver_at_time, metadata.marker_type, metadata.num_chunks_from_msg
    txn_id = txn_of(metadata)
    if deliver_at_ms <= 0 and not marker_type and chunks <= 1 and txn_id is None:
        return metadata.num_messages_in_batch, None
    uuid = raw_field(metadata, "uuid") if chunks > 1 else b""
    chunk = MessageChunk(uuid, metadata.chunk_id >= chunks - 1) if uuid else None
    return metadata.num_messages_in_batch, Special(max(0, deliver_at_ms), marker_type != 0, chunk, txn_id)


def txn_of(metadata: pb.MessageMetadata) -> TxnId | None:
    """Returns the transaction to which an entry belongs, or None. An entry belongs to a transaction when it has either
    half of the id; the other half then counts as 0."""
    if metadata.HasField("txnid_least_bits") or metadata.HasField("txnid_most_bits"):
        return TxnId(metadata.txnid_most_bits, metadata.txnid_least_bits)
    return None


def with_txn_id(payload: bytes, txn_id: TxnId) -> bytes:
    """Returns a client's payload with a transaction's id at the end of its metadata, where there must be none yet.
    Raises MalformedFrame."""
    start, end = _metadata_span(payload, 0)
    ids = b"\xb0\x01%b\xb8\x01%b" % (varint(txn_id.least), varint(txn_id.most))
    sized = _SIZE.pack(end - start + len(ids)) + payload[start:end] + ids
    return _checked_payload(sized, payload[end:]) if payload[:2] == b"\x0e\x01" else sized + payload[end:]


def publish_time_of(payload: bytes, offset: int = 0) -> int:
    """Returns the publish time in milliseconds since the epoch, by the producer's clock. Raises MalformedFrame."""
    return _metadata(payload, offset).publish_time


def sticky_key_of(payload: bytes) -> bytes | None:
    """Returns the key by which Key_Shared subscriptions choose a consumer (Commands.resolveStickyKey).

    The key is the ordering key, else the partition key, else `producer-sequence id`; None when the metadata names no
    producer either. The keys of a batch are those of the batch itself. A key that is not UTF-8 is returned as its
    bytes, while Java hashes the text that its lossy decoder makes of them. Raises MalformedFrame.
    """
    usual = usual_sticky_key_of(payload)
    if usual is not None:
        return usual
    metadata = _metadata_at_start(payload)
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key = raw_field(metadata, "partition_key")
        if not metadata.partition_key_b64_encoded:
            return key
        try:
            return b64decode(key, validate=True)
        except ValueError:
            return key
    if metadata.HasField("producer_name") and metadata.HasField("sequence_id"):
        return b"%b-%d" % (raw_field(metadata, "producer_name"), metadata.sequence_id)
    return None


def body(payload: bytes, offset: int = 0) -> bytes:
    """Returns what follows the metadata: a message or a batch, compressed and encrypted as the metadata says."""
    end = _metadata_span(payload, offset)[1]
    return payload[end:]


def metadata_and_body(payload: bytes) -> tuple[pb.MessageMetadata, bytes]:
    """Returns what `parse_metadata` and `body` return, and raises their errors. One call costs half of two for payloads
    that begin with a checksum, as clients send them."""
    try:
        magic, _, size = _unpack_magic_crc_size(payload)
        end = 10 + size
        if magic == MAGIC_CRC32C and end <= len(payload):
            metadata = _parse_metadata(payload[10:end])
            if metadata.IsInitialized():
                return metadata, payload[end:]
    except (DecodeError, struct_error):
        pass
    return parse_metadata(payload), body(payload)


def _metadata_span(payload: bytes, offset: int) -> tuple[int, int]:
    size_at = skip_checksum(payload, offset)
    try:
        (size,) = _SIZE.unpack_from(payload, size_at)
    except struct_error as error:
        raise MalformedFrame(f"payload of {len(payload) - offset} bytes has no metadata") from error
    start = size_at + _SIZE.size
    if start + size > len(payload):
        raise MalformedFrame(f"metadata of {size} bytes reaches beyond its payload")
    return start, start + size


def _metadata(payload: bytes, offset: int) -> pb.MessageMetadata:
    start, end = _metadata_span(payload, offset)
    try:
        return _parse_metadata(payload[start:end])
    except DecodeError as error:
        raise MalformedFrame(f"message metadata of {end - start} bytes does not decode") from error


def _metadata_at_start(payload: bytes) -> pb.MessageMetadata:
    """Parses the metadata as `_metadata` does, but faster for payloads that begin with a checksum, as clients send
    them."""
    try:
        magic, _, size = _unpack_magic_crc_size(payload)
        if magic == MAGIC_CRC32C and 10 + size <= len(payload):
            return _parse_metadata(payload[10 : 10 + size])
    except (DecodeError, struct_error):
        pass
    return _metadata(payload, 0)


def build_payload(metadata: pb.MessageMetadata, body: bytes, *, checksum: bool = True) -> bytes:
    """Builds a payload like one that a client sends, with or without a checksum."""
    head = metadata.SerializeToString()
    sized = _SIZE.pack(len(head)) + head
    return _checked_payload(sized, body) if checksum else sized + body


@lru_cache(maxsize=100)
def plain_payloads(producer_name: str, published_ms: int) -> Callable[[int, bytes], bytes]:
    """Returns a function that builds the payload of a message from its sequence id and its body. The payload is the one
    that `build_payload` makes of metadata with this producer_name, sequence_id, publish_time and uncompressed_size, for
    messages that have no other metadata. Written by hand, it takes half of the time."""
    name = producer_name.encode()
    before = b"\x0a%b%b\x10" % (varint(len(name)), name)
    between = b"\x18%b\x48" % varint(published_ms)
    fixed_size = len(before) + len(between)

    def payload_of(sequence_id: int, body: bytes) -> bytes:
        sequence, size = varint(sequence_id), varint(len(body))
        length = _pack_size(fixed_size + len(sequence) + len(size))
        return _checked_payload(b"".join((length, before, sequence, between, size)), body)

    return payload_of


def _checked_payload(sized_metadata: bytes, body: bytes) -> bytes:
    checksum = crc32c_extend(crc32c_of(sized_metadata), body)
    return b"".join((_pack_magic_word(MAGIC_CRC32C, checksum), sized_metadata, body))


def build_batch(messages: Iterable[BatchMessage]) -> bytes:
    """Builds the body of a batch, before compression. Sets the `payload_size` of each message's metadata."""
    parts: list[bytes] = []
    for single, value in messages:
        single.payload_size = len(value)
        head = single.SerializeToString()
        parts += (_SIZE.pack(len(head)), head, value)
    return b"".join(parts)


def split_batch(batch: bytes, count: int) -> Sequence[BatchMessage]:
    """Returns the `count` messages of a decompressed batch. Raises MalformedFrame when a size is wrong or bytes are
    left over."""
    return list(walk_batch(batch, count))


def walk_batch(batch: bytes, count: int) -> Iterator[BatchMessage]:
    """Yields the messages of `split_batch` one after another.

    The iterator raises MalformedFrame only when it reaches the bad message, so the caller does not know before the end
    whether the whole batch is sound.
    """
    at = 0
    for index in range(count):
        try:
            (size,) = _SIZE.unpack_from(batch, at)
            start = at + _SIZE.size + size
            if size > METADATA_BYTES_MAX:
                raise MalformedFrame(f"message {index} of a batch has metadata of {size} bytes")
            single = _parse_single(batch[at + _SIZE.size : start])
        except (DecodeError, struct_error) as error:
            raise MalformedFrame(f"message {index} of a batch of {count} does not decode") from error
        if single.payload_size < 0 or start + single.payload_size > len(batch):
            raise MalformedFrame(f"message of {single.payload_size} bytes reaches beyond its batch")
        at = start + single.payload_size
        yield single, batch[start:at]
    if at != len(batch):
        raise MalformedFrame(f"{len(batch) - at} bytes are left over after a batch of {count}")
