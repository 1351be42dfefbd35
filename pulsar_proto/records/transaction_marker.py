"""Markers: entries that end a transaction in a topic's log. A broker appends one when a transaction is committed or
aborted; every message of that transaction stands before it.

Sources: Markers.newTxnCommitMarker, newTxnAbortMarker; the bytes that a broker of 4.0.7 wrote are in `tests/vectors`.
"""

from typing import NamedTuple

from pulsar_proto.ids import NO_REQUEST_ID, TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload, txn_of

PRODUCER_NAME = "pulsar.txn.marker"
COMMIT = 21
ABORT = 22
"""Values of MessageMetadata.marker_type (MarkerType.TXN_COMMIT, TXN_ABORT)."""


class TransactionMarker(NamedTuple):
    """The end of a transaction."""

    txn_id: TxnId
    commits: bool


def encode_marker(marker: TransactionMarker, now_ms: int) -> bytes:
    """Returns the payload of the entry."""
    metadata = pb.MessageMetadata(
        producer_name=PRODUCER_NAME,
        sequence_id=NO_REQUEST_ID,
        publish_time=now_ms,
        marker_type=COMMIT if marker.commits else ABORT,
        txnid_most_bits=marker.txn_id.most,
        txnid_least_bits=marker.txn_id.least,
    )
    return build_payload(metadata, b"")


def marker_of(metadata: pb.MessageMetadata) -> TransactionMarker | None:
    """Returns which transaction an entry ends, or None for an entry that ends none."""
    if metadata.marker_type not in (COMMIT, ABORT):
        return None
    txn_id = txn_of(metadata)
    return None if txn_id is None else TransactionMarker(txn_id, metadata.marker_type == COMMIT)
