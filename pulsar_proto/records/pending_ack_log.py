"""The entries of a pending-ack log, in which a subscription keeps the acknowledgements that transactions have made.

An entry is one PendingAckMetadataEntry without a header or checksum or, when the broker groups records
(`transactionPendingAckBatchedWriteEnabled`), several of them behind the header of `batched_log`. Both forms may occur
in one log. Sources: MLPendingAckStore, MLPendingAckReplyCallBack, TransactionPendingAck.proto; entries of a real broker
are in tests/vectors/pending_ack_logs.json.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.pb import pending_ack_pb2 as pb
from pulsar_proto.records.batched_log import batch_entry, batch_of


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
    """Returns an entry with one record, byte for byte as Apache's broker writes it."""
    return _message(record).SerializeToString()


def batched_pending_ack_entry(records: Sequence[PendingAckRecord]) -> bytes:
    """Returns an entry with several records, byte for byte as Apache's broker writes it."""
    return batch_entry([pending_ack_entry(each) for each in records])


def parse_pending_ack_entry(entry: bytes) -> list[PendingAckRecord]:
    """Returns the records of an entry of either form. Raises MalformedRecord."""
    try:
        batch = batch_of(entry)
        if batch is None:
            return [_record(pb.PendingAckMetadataEntry.FromString(entry))]
        return [_record(each) for each in pb.BatchedPendingAckMetadataEntry.FromString(bytes(batch)).pending_ack_logs]
    except DecodeError as error:
        raise MalformedRecord(f"an entry of a pending-ack log does not decode: {error}") from error


def _message(record: PendingAckRecord) -> pb.PendingAckMetadataEntry:
    message = pb.PendingAckMetadataEntry(
        pending_ack_op=pb.PendingAckOp.ValueType(record.op),
        ack_type=pb.Cumulative if record.is_cumulative else pb.Individual,
        txnid_least_bits=record.txn_id.least,
        txnid_most_bits=record.txn_id.most,
    )
    for each in record.positions:
        message.pending_ack_metadata.add(
            ledgerId=each.ledger_id, entryId=each.entry_id, ack_set=each.ack_set, batch_size=each.batch_size
        )
    return message


def _record(message: pb.PendingAckMetadataEntry) -> PendingAckRecord:
    if not message.HasField("pending_ack_op"):
        raise MalformedRecord("a record of a pending-ack log has no operation")
    is_cumulative = message.ack_type == pb.Cumulative
    positions = tuple(
        PendingPosition(
            each.ledgerId,
            each.entryId,
            tuple(each.ack_set),
            each.batch_size if each.HasField("batch_size") else None,
        )
        for each in message.pending_ack_metadata
    )
    if is_cumulative and message.pending_ack_op == pb.ACK and len(positions) != 1:
        raise MalformedRecord(f"a cumulative acknowledgement in a pending-ack log has {len(positions)} positions")
    return PendingAckRecord(
        PendingAckOp(message.pending_ack_op),
        TxnId(message.txnid_most_bits, message.txnid_least_bits),
        is_cumulative,
        positions,
    )
