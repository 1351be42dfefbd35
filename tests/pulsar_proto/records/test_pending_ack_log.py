"""Entries of pending-ack logs, against those that Apache's broker wrote."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pending_ack_pb2 as pb
from pulsar_proto.records import pending_ack_log
from pulsar_proto.records.batched_log import PREFIX
from pulsar_proto.records.pending_ack_log import (
    PendingAckOp,
    PendingAckRecord,
    PendingPosition,
    batched_pending_ack_entry,
    parse_pending_ack_entry,
    pending_ack_entry,
)
from pulsar_proto.varint import varint
from tests.pulsar_proto.vectors import Item, as_described, load, unhex
from tests.server.steps import finish

LOGS = load("pending_ack_logs.json")
ENTRIES = [(log["of"], entry) for log in LOGS for entry in log["entries"]]


def described(records: list[PendingAckRecord]) -> list[Item]:
    """Returns what protoc decodes of the records' own encoding."""
    return [as_described(pb.PendingAckMetadataEntry.FromString(pending_ack_entry(each))) for each in records]


@pytest.mark.parametrize(
    ("of", "entry"), ENTRIES, ids=lambda each: each.rpartition("/")[2] if isinstance(each, str) else ""
)
def test_an_entry_reads_and_is_written_as_apache_wrote_it(of: str, entry: Item) -> None:
    stored = unhex(entry["hex"])
    records = finish(parse_pending_ack_entry(stored))
    logs = entry["record"].get("pending_ack_logs")
    if logs is None:
        assert described(records) == [entry["record"]]
        assert pending_ack_entry(records[0]) == stored
    else:
        assert described(records) == logs
        assert batched_pending_ack_entry(records) == stored


POSITIONS = st.builds(
    PendingPosition,
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**63 - 1),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40).map(tuple),
    st.none() | st.integers(0, 2**31 - 1),
)


@given(
    st.sampled_from(PendingAckOp),
    st.builds(TxnId, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1)),
    st.booleans(),
    st.lists(POSITIONS, max_size=3).map(tuple),
)
def test_a_record_is_written_as_protobuf_would(
    op: PendingAckOp, txn_id: TxnId, is_cumulative: bool, positions: tuple[PendingPosition, ...]
) -> None:
    message = pb.PendingAckMetadataEntry(
        pending_ack_op=pb.PendingAckOp.ValueType(op),
        ack_type=pb.Cumulative if is_cumulative else pb.Individual,
        txnid_least_bits=txn_id.least,
        txnid_most_bits=txn_id.most,
    )
    for each in positions:
        message.pending_ack_metadata.add(
            ledgerId=each.ledger_id, entryId=each.entry_id, ack_set=each.ack_set, batch_size=each.batch_size
        )
    assert pending_ack_entry(PendingAckRecord(op, txn_id, is_cumulative, positions)) == message.SerializeToString()


def test_an_acknowledgement_of_part_of_a_batch_keeps_its_ack_set_and_size() -> None:
    log = next(each for each in LOGS if "bidx" in each["of"])
    (record,) = finish(parse_pending_ack_entry(unhex(log["entries"][0]["hex"])))
    assert record == PendingAckRecord(PendingAckOp.ACK, TxnId(0, 16), False, (PendingPosition(37, 0, (6,), 3),))


@pytest.mark.parametrize(
    "entry",
    [
        b"",
        b"\x08",
        b"\x08\x09",
        bytes.fromhex("10001807"),
        bytes.fromhex("080110011807"),
        bytes.fromhex("0801100118072a04080c10022a04080c1003"),
        PREFIX + b"\x0a\x02\x08",
        PREFIX[:3],
    ],
    ids=[
        "empty",
        "cut",
        "unknown operation",
        "no operation",
        "cumulative: none",
        "cumulative: two",
        "cut batch",
        "prefix",
    ],
)
def test_a_damaged_entry_is_refused(entry: bytes) -> None:
    with pytest.raises(MalformedRecord):
        finish(parse_pending_ack_entry(entry))


@pytest.mark.parametrize("of", [bytes, lambda record: PREFIX + b"\x0a" + varint(len(record)) + record])
def test_a_long_record_is_read_in_steps_as_if_at_once(
    of: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    positions = [PendingPosition(12, entry_id, (entry_id,) if entry_id % 3 else ()) for entry_id in range(1_000)]
    record = PendingAckRecord(PendingAckOp.ACK, TxnId(2, 3), False, tuple(positions))
    encoded = pending_ack_entry(record)
    monkeypatch.setattr(pending_ack_log, "STEP_BYTES", len(encoded) // 20)
    assert finish(parse_pending_ack_entry(of(encoded))) == [record]
    assert 19 <= sum(1 for _ in parse_pending_ack_entry(of(encoded))) <= 21
