"""The entries of a pending-ack log, in which a subscription keeps the acknowledgements that transactions have made.

An entry is one PendingAckMetadataEntry without a header or checksum or, when the broker groups records
(`transactionPendingAckBatchedWriteEnabled`), several of them behind the header of `batched_log`. Both forms may occur
in one log. An acknowledgement may name hundreds of thousands of messages, so entries are read in steps, between which
other work may run. Sources: MLPendingAckStore, MLPendingAckReplyCallBack, TransactionPendingAck.proto; entries of a
real broker are in tests/vectors/pending_ack_logs.json.
"""

from collections.abc import Generator, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.message_pieces import fields_of, pieces_of
from pulsar_proto.pb import pending_ack_pb2 as pb
from pulsar_proto.records.batched_log import RECORD_TAG, batch_entry, batch_of
from pulsar_proto.varint import LAST_BYTE, varint

T = TypeVar("T")
Steps = Generator[None, None, T]

STEP_BYTES = 4_096
"""How much of a record is decoded in one step. An acknowledged entry takes some 12 bytes."""


RECORD_POSITIONS_MAX = 400
"""How many positions this broker puts into one record, so that a record with the longest ack sets, which take 10 KB
each, is smaller than an entry may be."""


class PendingAckOp(IntEnum):
    """What a record says about its transaction."""

    ACK = pb.ACK
    COMMIT = pb.COMMIT
    ABORT = pb.ABORT


class PendingPosition(NamedTuple):
    """An entry that a transaction acknowledges, wholly or in part."""

    ledger_id: int
    entry_id: int
    ack_set: tuple[int, ...] = ()
    """The words of the ack set, where a bit that is 1 stands for a message that is not acknowledged. Empty when the
    whole entry is acknowledged."""
    batch_size: int | None = 0
    """How many messages the entry holds, 0 if the client did not say it. None in a cumulative acknowledgement, for
    which Apache's broker does not write the number."""

    @property
    def position(self) -> Position:
        return Position(self.ledger_id, self.entry_id)


class PendingAckRecord(NamedTuple):
    """One record of a pending-ack log."""

    op: PendingAckOp
    txn_id: TxnId
    is_cumulative: bool = False
    positions: tuple[PendingPosition, ...] = ()
    """The acknowledged entries of an ACK: exactly one in a cumulative acknowledgement. Empty for COMMIT and ABORT."""


def pending_ack_entry(record: PendingAckRecord) -> bytes:
    """Returns an entry with one record, byte for byte as Apache's broker writes it. Each transaction has two such
    entries or more, and protobuf takes several times as long."""
    most, least = record.txn_id
    head = (LAST_BYTE[record.op], LAST_BYTE[record.is_cumulative], varint(least), varint(most))
    parts = [b"\x08%b\x10%b\x18%b\x20%b" % head]
    ledger: int | None = None
    begin = b""
    for ledger_id, entry_id, ack_set, batch_size in record.positions:
        if ledger_id != ledger:
            ledger, begin = ledger_id, b"\x08%b\x10" % varint(ledger_id)
        position = begin + varint(entry_id)
        if ack_set:
            position += b"".join([b"\x18" + varint(word) for word in ack_set])
        if batch_size is not None:
            position += b"\x20" + varint(batch_size)
        parts += (b"\x2a", varint(len(position)), position)
    return b"".join(parts)


def batched_pending_ack_entry(records: Sequence[PendingAckRecord]) -> bytes:
    """Returns an entry with several records, byte for byte as Apache's broker writes it."""
    return batch_entry([pending_ack_entry(each) for each in records])


def parse_pending_ack_entry(entry: bytes) -> Steps[list[PendingAckRecord]]:
    """Returns the records of an entry of either form. Raises MalformedRecord."""
    records = []
    batch = batch_of(entry)
    for data in (entry,) if batch is None else _records_of(batch):
        record = yield from _record(data)
        records.append(record)
    return records


def _records_of(batch: bytes) -> Iterable[bytes]:
    """Yields the encoded records of a BatchedPendingAckMetadataEntry."""
    for tag, start, end in fields_of(batch):
        if tag == RECORD_TAG:
            yield batch[start:end]


def _record(data: bytes) -> Steps[PendingAckRecord]:
    """Decodes one record. Its messages are taken out piece by piece, so that the other fields are left in `rest`."""
    rest = pb.PendingAckMetadataEntry()
    positions: list[PendingPosition] = []
    try:
        for piece in pieces_of(data, STEP_BYTES):
            message = pb.PendingAckMetadataEntry.FromString(piece)
            positions += map(_position, message.pending_ack_metadata)
            message.ClearField("pending_ack_metadata")
            rest.MergeFrom(message)
            yield
    except DecodeError as error:
        raise MalformedRecord(f"an entry of a pending-ack log does not decode: {error}") from error
    if not rest.HasField("pending_ack_op"):
        raise MalformedRecord("a record of a pending-ack log has no operation")
    is_cumulative = rest.ack_type == pb.Cumulative
    if is_cumulative and rest.pending_ack_op == pb.ACK and len(positions) != 1:
        raise MalformedRecord(f"a cumulative acknowledgement in a pending-ack log has {len(positions)} positions")
    return PendingAckRecord(
        PendingAckOp(rest.pending_ack_op),
        TxnId(rest.txnid_most_bits, rest.txnid_least_bits),
        is_cumulative,
        tuple(positions),
    )


def _position(message: pb.PendingAckMetadata) -> PendingPosition:
    batch_size = message.batch_size if message.HasField("batch_size") else None
    return PendingPosition(message.ledgerId, message.entryId, tuple(message.ack_set), batch_size)
