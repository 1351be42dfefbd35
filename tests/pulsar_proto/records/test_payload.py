"""Payloads: checksums, metadata, batches; from real entries, built ones and broken ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records import payload
from pulsar_proto.records.usual_metadata import is_single_and_plain
from tests.pulsar_proto.broker_entry import build_broker_entry_metadata
from tests.pulsar_proto.vectors import Item, as_described, described, load, unhex

DATA_ENTRIES = [
    item for item in load("pulsar_entries.json") if item["kind"] == "data" and "metadata" in item["decoded"]
]
COMPACTED_ENTRIES = [item for item in load("pulsar_entries.json") if item["kind"] == "compacted"]


def metadata(**fields: object) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=7, publish_time=1700000000000, **fields)  # type: ignore[arg-type]


def check_stored(stored: bytes, decoded: Item, offset: int) -> None:
    parsed = payload.parse_metadata(stored, offset)
    assert as_described(parsed) == described(decoded["metadata"])
    assert payload.message_count(stored, offset) == decoded["metadata"].get("num_messages_in_batch", 1)
    assert payload.publish_time_of(stored, offset) == decoded["metadata"]["publish_time"]
    entry_metadata = payload.broker_entry_metadata(stored, offset)
    assert (entry_metadata and as_described(entry_metadata)) == decoded.get("broker_entry_metadata")
    start = payload.skip_broker_entry_metadata(stored, offset)
    has_checksum = decoded["crc32c_ok"] is not None
    rebuilt = payload.build_payload(parsed, payload.body(stored, offset), checksum=has_checksum)
    if entry_metadata is not None:
        rebuilt = build_broker_entry_metadata(entry_metadata) + rebuilt
    assert rebuilt == stored[offset:]
    assert payload.verify_checksum(stored[start:])
    assert (payload.skip_checksum(stored, offset) != start) is has_checksum


@pytest.mark.parametrize("offset", [0, 36])
def test_real_entries_read_as_described_and_build_to_the_same_bytes(offset: int) -> None:
    for item in DATA_ENTRIES:
        check_stored(b"\x00" * offset + unhex(item["hex"]), item["decoded"], offset)


def test_payloads_inside_compacted_entries_read_as_described() -> None:
    """Splits a compacted entry: u32 size | MessageIdData | u32 size | payload (RawMessageImpl.serialize)."""
    for item in COMPACTED_ENTRIES:
        entry = unhex(item["hex"])
        id_end = 4 + int.from_bytes(entry[:4], "big")
        assert as_described(pb.MessageIdData.FromString(entry[4:id_end])) == item["decoded"]["id"]
        stored = entry[id_end + 4 :]
        assert len(stored) == item["decoded"]["headersAndPayload_len"]
        check_stored(stored, item["decoded"], 0)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.booleans())
def test_a_payload_gets_the_id_of_a_transaction(most: int, least: int, checksum: bool) -> None:
    made = payload.build_payload(metadata(num_messages_in_batch=3), b"body", checksum=checksum)
    stored = payload.with_txn_id(made, TxnId(most, least))
    expected = metadata(num_messages_in_batch=3, txnid_most_bits=most, txnid_least_bits=least)
    assert payload.parse_metadata(stored) == expected
    assert payload.body(stored) == b"body"
    assert payload.verify_checksum(stored)
    assert (stored[:2] == b"\x0e\x01") == checksum


@given(st.text(), st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1), st.binary(max_size=300))
def test_a_plain_payload_has_the_bytes_that_protobuf_makes_of_its_metadata(
    name: str, sequence_id: int, published_ms: int, body: bytes
) -> None:
    plain = pb.MessageMetadata(
        producer_name=name, sequence_id=sequence_id, publish_time=published_ms, uncompressed_size=len(body)
    )
    assert payload.plain_payloads(name, published_ms)(sequence_id, body) == payload.build_payload(plain, body)


def test_checksum_guards_each_byte_after_it() -> None:
    whole = payload.build_payload(metadata(), b"value")
    assert payload.verify_checksum(whole)
    for at in range(2, len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1
        assert not payload.verify_checksum(bytes(damaged)), at


@pytest.mark.parametrize("cut", [b"\x0e\x01", b"\x0e\x01\x00\x00\x00"])
def test_cut_checksum_block_does_not_verify(cut: bytes) -> None:
    assert not payload.verify_checksum(cut)


def test_payload_without_checksum_passes() -> None:
    assert payload.verify_checksum(payload.build_payload(metadata(), b"value", checksum=False))
    assert payload.verify_checksum(b"")


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("text", ["plain", "XXXX", "\x58"])
@pytest.mark.parametrize("count", [None, 1, 2, 88, 120, 100_000])
def test_messages_are_counted_whatever_the_metadata_holds(count: int | None, text: str, checksum: bool) -> None:
    """'X' is the byte of the tag of num_messages_in_batch."""
    built = payload.build_payload(metadata(num_messages_in_batch=count, partition_key=text), b"X", checksum=checksum)
    assert payload.message_count(built) == (count or 1)
    assert payload.message_count(b"X" * 36 + built, 36) == (count or 1)


def test_broker_entry_metadata_is_found_and_skipped() -> None:
    block = build_broker_entry_metadata(pb.BrokerEntryMetadata(broker_timestamp=5, index=9))
    own = payload.build_payload(metadata(num_messages_in_batch=3), b"body")
    stored = b"h" * 36 + block + own
    start = payload.skip_broker_entry_metadata(stored, 36)
    assert stored[start:] == own
    assert payload.message_count(stored, 36) == 3
    assert payload.body(stored, 36) == b"body"
    found = payload.broker_entry_metadata(stored, 36)
    assert found is not None
    assert found.index == 9
    assert payload.broker_entry_metadata(own) is None


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00\x00", id="cut size"),
        pytest.param(b"\x00\x00\x00\x10abc", id="metadata beyond the end"),
        pytest.param(b"\xff\xff\xff\xff", id="absurd size"),
        pytest.param(b"\x0e\x01\x00\x00\x00\x00", id="checksum and nothing"),
        pytest.param(b"\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x09abc", id="checksum, metadata beyond the end"),
        pytest.param(b"\x0e\x02\x00\x00\x00\xff", id="entry metadata beyond the end"),
        pytest.param(b"\x0e\x02\x00\x00\x00\x00", id="entry metadata and nothing"),
        pytest.param(b"\x00\x00\x00\x02\x58\xff", id="cut varint"),
    ],
)
def test_lying_sizes_are_malformed(broken: bytes) -> None:
    for read in (payload.parse_metadata, payload.message_count, payload.publish_time_of, payload.body):
        if read is payload.body and broken[-2:] == b"\x58\xff":
            continue
        with pytest.raises(MalformedFrame):
            read(broken)


def test_metadata_without_a_required_field_is_malformed() -> None:
    head = pb.MessageMetadata(producer_name="p", sequence_id=1).SerializePartialToString()
    with pytest.raises(MalformedFrame, match="required"):
        payload.parse_metadata(len(head).to_bytes(4, "big") + head)


def test_broken_entry_metadata_is_malformed() -> None:
    with pytest.raises(MalformedFrame):
        payload.broker_entry_metadata(b"\x0e\x02\x00\x00\x00\x01\x08")


@given(st.lists(st.tuples(st.text(max_size=10), st.binary(max_size=50)), min_size=1, max_size=20))
def test_batches_split_into_what_was_built(messages: list[tuple[str, bytes]]) -> None:
    singles = [(pb.SingleMessageMetadata(partition_key=key), value) for key, value in messages]
    batch = payload.build_batch(singles)
    split = payload.split_batch(batch, len(messages))
    assert [(single.partition_key, value) for single, value in split] == messages


def test_batch_with_a_lying_count_or_size_is_malformed() -> None:
    batch = payload.build_batch([(pb.SingleMessageMetadata(), b"one"), (pb.SingleMessageMetadata(), b"two")])
    negative = pb.SingleMessageMetadata(payload_size=-1).SerializeToString()
    for broken, count in (
        (batch, 1),
        (batch, 3),
        (batch[:-1], 2),
        (b"\xff\xff\xff\xff" + batch[4:], 2),
        (len(negative).to_bytes(4, "big") + negative, 1),
        (b"\x00\x00\x00\x01\x18", 1),
    ):
        with pytest.raises(MalformedFrame):
            payload.split_batch(broken, count)


@given(st.binary(max_size=60))
def test_garbage_is_malformed_or_metadata_and_nothing_else(data: bytes) -> None:
    payload.verify_checksum(data)
    for read in (payload.parse_metadata, payload.message_count, payload.body, payload.broker_entry_metadata):
        try:
            read(data)
        except MalformedFrame:
            continue


FIELDS_WITH_TAG_LIKE_VALUES = st.sampled_from(
    [0, 1, 88, 128, 255, 152, 160, 216, 11288, 16384, 25239, 1 << 21, 1 << 40]
)


@given(
    sequence_id=FIELDS_WITH_TAG_LIKE_VALUES,
    publish_time=FIELDS_WITH_TAG_LIKE_VALUES,
    event_time=FIELDS_WITH_TAG_LIKE_VALUES,
    key=st.sampled_from(["", "X", "\x01", "k"]),
    count=st.sampled_from([None, 1, 2, 5]),
    deliver_at=st.sampled_from([None, 0, 1, 1_700_000_000_000]),
    marker=st.sampled_from([None, 0, 20]),
    chunks=st.sampled_from([None, 1, 3]),
)
def test_what_is_taken_for_plain_without_parsing_is_plain(
    sequence_id: int,
    publish_time: int,
    event_time: int,
    key: str,
    count: int | None,
    deliver_at: int | None,
    marker: int | None,
    chunks: int | None,
) -> None:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=sequence_id, publish_time=publish_time, event_time=event_time, partition_key=key
    )
    optional = {
        "num_messages_in_batch": count,
        "deliver_at_time": deliver_at,
        "marker_type": marker,
        "num_chunks_from_msg": chunks,
    }
    for name, value in optional.items():
        if value is not None:
            setattr(metadata, name, value)
    data = payload.build_payload(metadata, b"body")
    if is_single_and_plain(data):
        assert payload.count_and_special(data) == (1, None)


@pytest.mark.parametrize("sequence_id", [0, 1, 200, 16_384, 20_000, 32_767, 3_000_000])
def test_an_ordinary_message_needs_no_parsing_whatever_its_number(sequence_id: int) -> None:
    metadata = pb.MessageMetadata(
        producer_name="standalone-0-1", sequence_id=sequence_id, publish_time=1_790_000_000_000
    )
    assert is_single_and_plain(payload.build_payload(metadata, b"\x98\x01"))


STICKY_KEYS = [
    ({"ordering_key": b"o", "partition_key": "p"}, b"o"),
    ({"ordering_key": b"", "partition_key": "p"}, b""),
    ({"partition_key": "p\u00e9"}, "p\u00e9".encode()),
    ({"partition_key": "AAEC", "partition_key_b64_encoded": True}, b"\x00\x01\x02"),
    ({"partition_key": "no base 64", "partition_key_b64_encoded": True}, b"no base 64"),
    ({"partition_key": "p", "num_messages_in_batch": 7}, b"p"),
    ({}, b"producer-5"),
]


@pytest.mark.parametrize(("fields", "expected"), STICKY_KEYS)
@pytest.mark.parametrize("checksum", [True, False])
def test_the_key_that_key_shared_goes_by(fields: dict[str, Any], expected: bytes, checksum: bool) -> None:
    metadata = pb.MessageMetadata(producer_name="producer", sequence_id=5, publish_time=1, **fields)
    assert payload.sticky_key_of(payload.build_payload(metadata, b"body", checksum=checksum)) == expected


def test_without_a_key_and_a_producer_there_is_none() -> None:
    empty = b"\x0e\x01" + bytes(8) + b"body"
    assert payload.sticky_key_of(empty) is None
    with pytest.raises(MalformedFrame):
        payload.sticky_key_of(b"\x0e\x01\x00\x00\x00\x00\x00\x00\x00\x09cut")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"deliver_at_time": 9},
        {"marker_type": 21},
        {"num_messages_in_batch": 3},
        {"txnid_least_bits": 7},
        {"txnid_most_bits": 1},
        {"txnid_least_bits": 0, "txnid_most_bits": 0},
    ],
)
def test_what_is_special_is_never_taken_for_plain(fields: dict[str, Any]) -> None:
    metadata = pb.MessageMetadata(producer_name="producer", sequence_id=5, publish_time=300, **fields)
    built = payload.build_payload(metadata, b"body")
    count, special = payload.count_and_special(built)
    assert is_single_and_plain(built) is (not fields)
    assert count == fields.get("num_messages_in_batch", 1)
    in_transaction = any(field.startswith("txnid") for field in fields)
    txn_id = TxnId(fields.get("txnid_most_bits", 0), fields.get("txnid_least_bits", 0)) if in_transaction else None
    wanted = payload.Special(fields.get("deliver_at_time", 0), "marker_type" in fields, None, txn_id)
    assert special == (wanted if in_transaction or fields.keys() & {"deliver_at_time", "marker_type"} else None)


def test_a_chunk_is_told_with_its_message() -> None:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=5, publish_time=300, uuid="u", num_chunks_from_msg=3, chunk_id=2
    )
    built = payload.build_payload(metadata, b"body")
    assert not is_single_and_plain(built)
    assert payload.count_and_special(built)[1] == payload.Special(0, False, payload.MessageChunk(b"u", True))
