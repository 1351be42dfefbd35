"""What is read of metadata by hand is what protobuf reads."""

from collections.abc import Mapping

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_payload, count_and_special
from pulsar_proto.records.usual_metadata import is_single_and_plain, usual_sticky_key_of
from pulsar_proto.text import raw
from pulsar_proto.varint import varint

NUMBERS = st.sampled_from([0, 1, 88, 127, 128, 300, 2**31 - 1])
LARGE = NUMBERS | st.sampled_from([2**62, 2**63 - 1])
TEXTS = st.sampled_from(["", "X", "\x01", "producer-7", "é" * 3, "long" * 50])
SPECIAL = ("num_messages_in_batch", "deliver_at_time", "marker_type", "txnid_least_bits", "txnid_most_bits")
FIELDS = st.fixed_dictionaries(
    {"producer_name": TEXTS, "sequence_id": LARGE, "publish_time": LARGE},
    optional={
        "properties": st.lists(st.builds(pb.KeyValue, key=TEXTS, value=TEXTS), max_size=3),
        "partition_key": TEXTS,
        "partition_key_b64_encoded": st.booleans(),
        "ordering_key": TEXTS.map(str.encode),
        "compression": st.sampled_from([pb.NONE, pb.ZSTD]),
        "uncompressed_size": NUMBERS,
        "event_time": LARGE,
        "schema_version": TEXTS.map(str.encode),
        "null_value": st.booleans(),
        "uuid": TEXTS,
        "num_chunks_from_msg": NUMBERS,
        **dict.fromkeys(SPECIAL, NUMBERS),
    },
)


def key_of(metadata: pb.MessageMetadata) -> bytes:
    return raw(metadata.partition_key) if metadata.HasField("partition_key") else named(metadata)


def named(metadata: pb.MessageMetadata) -> bytes:
    return b"%b-%d" % (raw(metadata.producer_name), metadata.sequence_id)


@given(FIELDS)
def test_an_entry_is_plain_unless_a_field_makes_it_more(fields: Mapping[str, object]) -> None:
    payload = build_payload(pb.MessageMetadata(**fields), b"\x98\x01 body")  # type: ignore[arg-type]
    assert is_single_and_plain(payload) is (not fields.keys() & {*SPECIAL, "num_chunks_from_msg"})
    if is_single_and_plain(payload):
        assert count_and_special(payload) == (1, None)


@given(FIELDS)
def test_the_key_is_read_unless_it_needs_a_parser(fields: Mapping[str, object]) -> None:
    metadata = pb.MessageMetadata(**fields)  # type: ignore[arg-type]
    needs_parser = fields.keys() & {"partition_key_b64_encoded", "ordering_key"}
    found = usual_sticky_key_of(build_payload(metadata, b"body"))
    assert found == (None if needs_parser else key_of(metadata))


def test_a_negative_number_needs_a_parser() -> None:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, compression=pb.NONE)
    encoded = metadata.SerializeToString() + b"\x48" + varint(-1)
    payload = b"\x0e\x01" + bytes(4) + len(encoded).to_bytes(4, "big") + encoded
    assert not is_single_and_plain(payload)
    assert usual_sticky_key_of(payload) is None


TAGS = [0x00, 0x08, 0x0A, 0x0D, 0x10, 0x18, 0x32, 0x48, 0x58, 0x5A, 0x5B, 0x82, 0x88, 0x92, 0x98, 0xD8]
PARTS = st.sampled_from(TAGS).map(lambda tag: bytes([tag]) if tag < 128 else bytes([tag, 1]))
WORDS = st.binary(max_size=4).map(lambda word: bytes([len(word)]) + word)
BODIES = st.lists(PARTS | WORDS | LARGE.map(varint) | st.binary(max_size=3), max_size=10).map(b"".join)


@given(BODIES, st.integers(-2, 2), st.binary(max_size=3))
@example(b"\x0a\x01p\x10\x05\x32\x05key", 0, b"")
@example(b"\x0a\x01p\x10\x05\x32\x03key", -1, b"")
@example(b"\x0a\x01p\x10\x05\x32\x01k\x32\x01l", 0, b"")
@example(b"\x0a\x01p\x10" + b"\x85" * 9 + b"\x00", 0, b"")
@example(b"\x0a\x01p\x10\x05\x98\x81\x00\x01", 0, b"")
def test_bytes_of_any_kind_are_read_as_protobuf_reads_them(encoded: bytes, lie: int, body: bytes) -> None:
    size = max(0, len(encoded) + lie)
    payload = b"\x0e\x01" + bytes(4) + size.to_bytes(4, "big") + encoded + body
    plain, key = is_single_and_plain(payload), usual_sticky_key_of(payload)
    try:
        metadata = pb.MessageMetadata.FromString(payload[10 : 10 + size])
    except DecodeError:
        return
    if size > len(encoded + body):
        assert not plain
        assert key is None
        return
    if plain:
        assert not any(metadata.HasField(name) for name in (*SPECIAL, "num_chunks_from_msg"))  # type: ignore[arg-type]
    if key is not None:
        assert not metadata.HasField("ordering_key")
        assert not metadata.partition_key_b64_encoded
        assert key == key_of(metadata)


@pytest.mark.parametrize("payload", [b"", b"\x0e\x01", b"\x0e\x02" + bytes(20), bytes(20), b"\x0e\x01" + b"\xff" * 20])
def test_a_payload_without_a_checksum_or_metadata_is_not_read(payload: bytes) -> None:
    assert not is_single_and_plain(payload)
    assert usual_sticky_key_of(payload) is None
