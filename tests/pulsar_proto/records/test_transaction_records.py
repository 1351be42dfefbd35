"""Markers and snapshots of transactions: Apache's bytes both ways, and what is damaged."""

import io
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, TypeVar

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records import transaction_snapshot as records
from pulsar_proto.records.payload import body, count_and_special, parse_metadata
from pulsar_proto.records.transaction_marker import TransactionMarker, encode_marker, marker_of
from pulsar_proto.records.usual_metadata import is_single_and_plain

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "transaction_buffers.json").read_text())
T = TypeVar("T")
I64 = st.integers(-(2**63), 2**63 - 1)


def done(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def entries_of(local_name: str) -> list[dict[str, Any]]:
    return [
        entry
        for ledger in VECTORS["ledgers"]
        if ledger["of"].endswith(f"/{local_name}")
        for entry in ledger["entries"]
        if "avro" in entry
    ]


def test_markers_are_apaches_byte_by_byte() -> None:
    found = 0
    for ledger in VECTORS["ledgers"]:
        for entry in ledger["entries"]:
            payload = bytes.fromhex(entry["hex"])
            metadata = parse_metadata(payload)
            marker = marker_of(metadata)
            if marker is not None:
                assert encode_marker(marker, metadata.publish_time) == payload
                assert not is_single_and_plain(payload)
                assert count_and_special(payload)[1] == (0, True, None, marker.txn_id)
                found += 1
    assert found > 10


def test_a_marker_of_a_replicated_subscription_ends_no_transaction() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0, marker_type=10, txnid_least_bits=1)
    assert marker_of(metadata) is None
    metadata.marker_type = 21
    assert marker_of(metadata) == TransactionMarker(TxnId(0, 1), True)
    metadata.ClearField("txnid_least_bits")
    assert marker_of(metadata) is None


def test_snapshots_are_apaches_byte_by_byte() -> None:
    entries = entries_of("__transaction_buffer_snapshot")
    for entry in entries:
        value = body(bytes.fromhex(entry["hex"]))
        snapshot = done(records.decode_snapshot(value))
        avro = entry["avro"]
        assert snapshot.topic == avro["topicName"]
        assert snapshot.max_read_position == (avro["maxReadPositionLedgerId"], avro["maxReadPositionEntryId"])
        assert [
            {"entryId": m.entry_id, "ledgerId": m.ledger_id, "txnIdLeastBits": t.least, "txnIdMostBits": t.most}
            for t, m in snapshot.aborts
        ] == avro["aborts"]
        assert done(records.encode_snapshot(snapshot)) == value
    assert len(entries) > 20


def test_indexes_are_apaches_byte_by_byte() -> None:
    entries = entries_of("__transaction_buffer_snapshot_indexes")
    for entry in entries:
        value = body(bytes.fromhex(entry["hex"]))
        indexes = done(records.decode_indexes(value))
        assert [{"leastSigBits": each.least, "mostSigBits": each.most} for each in indexes.aborts] == (
            entry["avro"]["snapshot"]["aborts"]
        )
        assert done(records.encode_indexes(indexes)) == value
    assert len(entries) == 3


def test_the_schemas_are_those_that_apache_registers() -> None:
    for name, text in (
        ("TransactionBufferSnapshot", records.SNAPSHOT_SCHEMA),
        ("TransactionBufferSnapshotSegment", records.SEGMENT_SCHEMA),
        ("TransactionBufferSnapshotIndexes", records.INDEXES_SCHEMA),
    ):
        assert json.dumps(VECTORS["schemas"][name], separators=(",", ":")).encode() == text


def avro(schema: bytes, value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()


TXN_IDS = st.lists(st.builds(TxnId, I64, I64), max_size=1_100)


@given(st.text(), st.lists(st.tuples(st.builds(TxnId, I64, I64), st.builds(Position, I64, I64))), I64, I64)
def test_snapshots_are_what_an_avro_library_writes(topic: str, aborts: Any, ledger_id: int, entry_id: int) -> None:
    snapshot = records.Snapshot(topic, [records.AbortedTxn(*each) for each in aborts], Position(ledger_id, entry_id))
    value = {
        "aborts": [
            {"entryId": m.entry_id, "ledgerId": m.ledger_id, "txnIdLeastBits": t.least, "txnIdMostBits": t.most}
            for t, m in aborts
        ],
        "maxReadPositionEntryId": entry_id,
        "maxReadPositionLedgerId": ledger_id,
        "topicName": topic,
    }
    encoded = done(records.encode_snapshot(snapshot))
    assert encoded == avro(records.SNAPSHOT_SCHEMA, value)
    assert done(records.decode_snapshot(encoded)) == snapshot


@given(st.text(), I64, TXN_IDS, I64, I64)
def test_segments_are_what_an_avro_library_writes(
    topic: str, sequence_id: int, aborts: list[TxnId], ledger_id: int, entry_id: int
) -> None:
    segment = records.Segment(topic, sequence_id, aborts, Position(ledger_id, entry_id))
    value = {
        "aborts": [{"leastSigBits": each.least, "mostSigBits": each.most} for each in aborts],
        "persistentPositionEntryId": entry_id,
        "persistentPositionLedgerId": ledger_id,
        "sequenceId": sequence_id,
        "topicName": topic,
    }
    encoded = done(records.encode_segment(segment))
    assert encoded == avro(records.SEGMENT_SCHEMA, value)
    assert done(records.decode_segment(encoded)) == segment


@given(st.lists(st.tuples(I64, I64, I64, I64, I64)), TXN_IDS)
def test_indexes_are_what_an_avro_library_writes(places: list[tuple[int, ...]], aborts: list[TxnId]) -> None:
    segments = [records.SegmentPlace(s, Position(a, b), Position(c, d)) for s, a, b, c, d in places]
    indexes = records.Indexes("t", segments, aborts, Position(5, 6))
    names = ("sequenceID", "abortedMarkLedgerID", "abortedMarkEntryID", "segmentLedgerID", "segmentEntryID")
    value = {
        "indexList": [dict(zip(names, place, strict=True)) for place in places],
        "snapshot": {
            "aborts": [{"leastSigBits": each.least, "mostSigBits": each.most} for each in aborts],
            "maxReadPositionEntryId": 6,
            "maxReadPositionLedgerId": 5,
        },
        "topicName": "t",
    }
    encoded = done(records.encode_indexes(indexes))
    assert encoded == avro(records.INDEXES_SCHEMA, value)
    assert done(records.decode_indexes(encoded)) == indexes


def test_absent_lists_and_names_and_lists_in_several_blocks_are_read() -> None:
    assert done(records.decode_snapshot(b"\x00\x02\x04\x00")) == records.Snapshot("", [], Position(2, 1))
    assert done(records.decode_indexes(b"\x00\x00\x00")) == records.Indexes("", [], [], Position(-1, -1))
    # A block with a negative count says how many bytes it has.
    blocks = b"\x02" + b"\x02\x02\x04" + b"\x01\x04\x06\x08" + b"\x00" + b"\x00\x00\x00\x00"
    assert done(records.decode_segment(blocks)).aborts == [TxnId(2, 1), TxnId(4, 3)]


@pytest.mark.parametrize(
    "value",
    [b"", b"\x02\x02", b"\x04", b"\x00\x00\x00\x02\x08abc", b"\x00\x00\x00\x02\x01", b"\x02" + b"\xff" * 20 + b"\x01"],
)
def test_damaged_snapshots_are_refused(value: bytes) -> None:
    with pytest.raises(MalformedRecord):
        done(records.decode_snapshot(value))


def test_a_name_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(MalformedRecord, match="UTF-8"):
        done(records.decode_snapshot(b"\x00\x00\x00\x02\x02\xff"))
