"""The records of a transaction coordinator's log, which is a managed ledger `pulsar/system/persistent/
__transaction_log_{coordinator}`: bytes to values and back.

A record says what happened to one transaction: it began (NEW), it touched a partition or a subscription, or its status
changed (UPDATE). Java writes the fields of a record in the order of their numbers, also those that have their default
value. Source: MLTransactionMetadataStore; entries that Apache's broker wrote are in
`tests/vectors/transaction_log.json`.
"""

from collections.abc import Iterable, Sequence
from enum import IntEnum

from google.protobuf.message import DecodeError

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import TxnId, signed64, unsigned64
from pulsar_proto.pb import transaction_log_pb2 as pb
from pulsar_proto.records.batched_log import batch_of

Record = pb.TransactionMetadataEntry
# Asking protobuf's enum for one of them takes as long as making the rest of a record.
_NEW, _UPDATE = Record.NEW, Record.UPDATE
_ADD_PARTITION, _ADD_SUBSCRIPTION = Record.ADD_PARTITION, Record.ADD_SUBSCRIPTION


class TxnStatus(IntEnum):
    """The states of a transaction. The numbers are those of the log's records."""

    OPEN = pb.OPEN
    COMMITTING = pb.COMMITTING
    COMMITTED = pb.COMMITTED
    ABORTING = pb.ABORTING
    ABORTED = pb.ABORTED


def new_record(txn_id: TxnId, *, counter: int, now_ms: int, timeout_ms: int, owner: str | None) -> Record:
    """Returns the record of a transaction that begins. In every record, `counter` is the coordinator's last count."""
    record = Record(
        metadata_op=_NEW,
        txnid_least_bits=txn_id.least,
        txnid_most_bits=txn_id.most,
        timeout_ms=timeout_ms,
        start_time=now_ms,
        last_modification_time=now_ms,
        max_local_txn_id=unsigned64(counter),
    )
    if owner is not None:
        record.owner = owner
    return record


def partitions_record(txn_id: TxnId, partitions: Iterable[str], *, counter: int, now_ms: int) -> Record:
    """Returns the record of partitions that a transaction is about to publish to."""
    return Record(
        metadata_op=_ADD_PARTITION,
        txnid_least_bits=txn_id.least,
        txnid_most_bits=txn_id.most,
        partitions=partitions,
        last_modification_time=now_ms,
        max_local_txn_id=unsigned64(counter),
    )


def subscriptions_record(
    txn_id: TxnId, subscriptions: Iterable[tuple[str, str]], *, counter: int, now_ms: int
) -> Record:
    """Returns the record of subscriptions, as (topic, subscription), in which a transaction is about to acknowledge
    messages."""
    return Record(
        metadata_op=_ADD_SUBSCRIPTION,
        txnid_least_bits=txn_id.least,
        txnid_most_bits=txn_id.most,
        subscriptions=(pb.Subscription(topic=topic, subscription=name) for topic, name in subscriptions),
        last_modification_time=now_ms,
        max_local_txn_id=unsigned64(counter),
    )


def update_record(txn_id: TxnId, expected: TxnStatus, new: TxnStatus, *, counter: int, now_ms: int) -> Record:
    """Returns the record of a change from the status `expected` to `new`."""
    return Record(
        metadata_op=_UPDATE,
        txnid_least_bits=txn_id.least,
        txnid_most_bits=txn_id.most,
        expected_status=int(expected),  # type: ignore[arg-type]
        new_status=int(new),  # type: ignore[arg-type]
        last_modification_time=now_ms,
        max_local_txn_id=unsigned64(counter),
    )


def counter_of(record: Record) -> int:
    """Returns the coordinator's count at the time of the record, or -1 when the record does not say it."""
    return signed64(record.max_local_txn_id) if record.HasField("max_local_txn_id") else -1


def parse_entry(entry: bytes) -> tuple[Sequence[Record], bool]:
    """Returns the records of an entry, and whether the entry is a batch. Raises MalformedRecord."""
    try:
        batch = batch_of(entry)
        if batch is None:
            return (Record.FromString(entry),), False
        return pb.BatchedTransactionMetadataEntry.FromString(batch).transaction_logs, True
    except DecodeError as error:
        raise MalformedRecord(f"an entry of {len(entry)} bytes is no record of a transaction log") from error
