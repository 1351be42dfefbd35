"""The entries of a compacted ledger: messages with the ids that they had.

    u32 size | MessageIdData | u32 size | the stored entry's body, with its 0x0e02 block if it has one

Source: RawMessageImpl.serialize; facts 6.4, 14; `tests/vectors/pulsar_entries.json`.
"""

from struct import Struct

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb

_SIZE = Struct(">I")


def encode_entry(position: Position, payload: bytes) -> bytes:
    """`payload` is what the log stored at `position`, or a batch of which messages were removed."""
    head = pb.MessageIdData(ledgerId=position.ledger_id, entryId=position.entry_id, partition=-1).SerializeToString()
    return b"".join((_SIZE.pack(len(head)), head, _SIZE.pack(len(payload)), payload))


def decode_entry(entry: bytes, offset: int = 0) -> tuple[Position, bytes]:
    """(where the message stood in the log, its payload); `offset` is where the entry begins in the bytes given. Raises
    MalformedRecord."""
    position, at = _head(entry, offset)
    if at + _SIZE.size > len(entry):
        raise MalformedRecord("a compacted entry ends before its payload")
    (size,) = _SIZE.unpack_from(entry, at)
    start = at + _SIZE.size
    if start + size > len(entry):
        raise MalformedRecord(f"a payload of {size} bytes reaches beyond its compacted entry")
    return position, entry[start : start + size]


def position_of(entry: bytes, offset: int = 0) -> Position:
    """Raises MalformedRecord."""
    return _head(entry, offset)[0]


def _head(entry: bytes, offset: int) -> tuple[Position, int]:
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
    """What the ledger's metadata says under `pulsar/compactedTo`: the last message that was looked at."""
    return pb.MessageIdData(
        ledgerId=position.ledger_id, entryId=position.entry_id, partition=-1, batch_index=-1, batch_size=0
    ).SerializeToString()


def begins_in_the_past(asked: Position, mark_delete: Position, first: Position, durable: bool) -> bool:
    """Whether a consumer that asked for messages from `asked` on begins before the log's `first` message, in what is
    left of it compacted: its cursor has not moved from where it was made. A durable one that stands behind an entry
    may have acknowledged it (PersistentDispatcherSingleActiveConsumer.hasValidMarkDeletePosition)."""
    return asked < first and mark_delete < first and (not durable or mark_delete.entry_id < 0)
