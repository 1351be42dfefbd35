"""The entries of a compacted ledger: each entry holds a message or a batch, and the position that the message or batch
has in the log.

    u32 size | MessageIdData | u32 size | the stored entry's body, with its 0x0e02 block if it has one

Sources: RawMessageImpl.serialize; `tests/vectors/pulsar_entries.json` holds entries that a Pulsar 4.0.7 broker wrote.
"""

from struct import Struct

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb

_SIZE = Struct(">I")


def encode_entry(position: Position, payload: bytes) -> bytes:
    """Returns the entry for the message or batch that the log stored at `position`. `payload` is the stored entry's
    body, unchanged or with messages taken out of the batch."""
    head = pb.MessageIdData(ledgerId=position.ledger_id, entryId=position.entry_id, partition=-1).SerializeToString()
    return b"".join((_SIZE.pack(len(head)), head, _SIZE.pack(len(payload)), payload))


def decode_entry(entry: bytes, offset: int = 0) -> tuple[Position, bytes]:
    """Returns the position that the message has in the log, and its payload. The entry begins at `offset` of the bytes
    given. Raises MalformedRecord."""
    position, at = _head(entry, offset)
    if at + _SIZE.size > len(entry):
        raise MalformedRecord("a compacted entry ends before its payload")
    (size,) = _SIZE.unpack_from(entry, at)
    start = at + _SIZE.size
    if start + size > len(entry):
        raise MalformedRecord(f"a payload of {size} bytes reaches beyond its compacted entry")
    return position, entry[start : start + size]


def position_of(entry: bytes, offset: int = 0) -> Position:
    """Returns the position that the message has in the log. Raises MalformedRecord."""
    return _head(entry, offset)[0]


def _head(entry: bytes, offset: int) -> tuple[Position, int]:
    """Returns the message's position, and the offset in `entry` of the bytes after the position."""
    if offset + _SIZE.size > len(entry):
        raise MalformedRecord("a compacted entry without a message id")
    (size,) = _SIZE.unpack_from(entry, offset)
    start = offset + _SIZE.size
    try:
        message_id = pb.MessageIdData.FromString(entry[start : start + size])
    except DecodeError as error:
        raise MalformedRecord("the message id of a compacted entry does not decode") from error
    return Position(message_id.ledgerId, message_id.entryId), start + size


def compacted_to(position: Position) -> bytes:
    """Encodes the position of the last message that compaction looked at, for the item `pulsar/compactedTo` of the
    ledger's metadata."""
    return pb.MessageIdData(
        ledgerId=position.ledger_id, entryId=position.entry_id, partition=-1, batch_index=-1, batch_size=0
    ).SerializeToString()
