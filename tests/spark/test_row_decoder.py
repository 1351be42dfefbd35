"""Decoding entries one by one gives what protobuf reads in the same bytes."""

import base64

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.spark.source.decoding.compression import NAMES, BadCompression, compress, decompress
from magnetar.spark.source.decoding.entry_block import CorruptEntry
from magnetar.spark.source.decoding.row_decoder import DecodedRows, RowDecoder
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_batch, split_batch
from tests.spark.single_messages import single, singles

ALL = Range(BEFORE_ALL, Bound(10, 0))


def metadata(**fields: object) -> pb.MessageMetadata:
    return pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=77, **fields)  # type: ignore[arg-type]


def decode(body: bytes, meta: pb.MessageMetadata, wanted: Range = ALL) -> DecodedRows:
    rows = DecodedRows()
    RowDecoder("t-partition-2", 2, wanted).decode((5, 6, meta, body), rows)
    return rows


@given(st.lists(st.tuples(singles, st.binary(max_size=200) | st.just(b"x" * 20000)), min_size=1, max_size=12))
def test_the_short_way_through_a_batch_reads_what_protobuf_reads(batch: list[tuple[dict[str, object], bytes]]) -> None:
    body = build_batch((single(fields), value) for fields, value in batch)
    rows = decode(body, metadata(num_messages_in_batch=len(batch)))
    kept = [
        (index, message, value)
        for index, (message, value) in enumerate(split_batch(body, len(batch)))
        if not message.compacted_out
    ]
    assert rows.values == [None if message.null_value else value for _, message, value in kept]
    assert rows.event_times == [message.event_time or None for _, message, _ in kept]
    assert rows.keys == [
        message.partition_key.encode() if message.HasField("partition_key") and not message.null_partition_key else None
        for _, message, _ in kept
    ]
    assert [dict(pairs or ()) for pairs in rows.properties] == [
        {pair.key: pair.value for pair in message.properties} for _, message, _ in kept
    ]
    ids = [pb.MessageIdData.FromString(each) for each in rows.ids]
    assert [(i.ledgerId, i.entryId, i.partition, i.batch_index, i.batch_size) for i in ids] == [
        (5, 6, 2, index, len(batch)) for index, _, _ in kept
    ]
    assert len(rows.publish_times) == len(rows.schema_versions) == len(rows)


def plain_batch(count: int) -> bytes:
    return build_batch((pb.SingleMessageMetadata(payload_size=0, sequence_id=n), b"%d" % n) for n in range(count))


def test_a_range_cuts_through_batches() -> None:
    meta = metadata(num_messages_in_batch=10)
    rows = decode(plain_batch(10), meta, Range(Bound(5, 6, 2), Bound(5, 6, 5)))
    assert rows.values == [b"3", b"4", b"5"]
    assert [pb.MessageIdData.FromString(each).batch_index for each in rows.ids] == [3, 4, 5]


@given(st.integers(0, 60), st.binary(min_size=1, max_size=3))
def test_a_damaged_batch_leaves_no_half_rows(at: int, junk: bytes) -> None:
    body = bytearray(plain_batch(5))
    body[at : at + len(junk)] = junk
    rows = DecodedRows()
    try:  # random bytes may happen to be a batch, perhaps with a message that is compacted out
        RowDecoder("t", -1, ALL).decode((5, 6, metadata(num_messages_in_batch=5), bytes(body)), rows)
    except CorruptEntry:
        assert len(rows) == 0
    assert len(rows) == len(rows.keys) == len(rows.ids) == len(rows.properties)


def test_a_batch_that_is_cut_off_or_too_long_is_an_error_that_names_its_entry() -> None:
    whole = plain_batch(5)
    for body in (whole[:-1], whole[:7], whole + b"x", b""):
        with pytest.raises(CorruptEntry, match="entry 5:6 does not decode"):
            decode(body, metadata(num_messages_in_batch=5))


def test_binary_keys_are_decoded_from_base64() -> None:
    meta = metadata(partition_key=base64.b64encode(b"\xff\x00").decode(), partition_key_b64_encoded=True)
    assert decode(b"v", meta).keys == [b"\xff\x00"]


def test_encrypted_entries_are_refused_by_name() -> None:
    meta = metadata(encryption_param=b"iv")
    meta.encryption_keys.add(key="k", value=b"x")
    with pytest.raises(CorruptEntry, match="5:6 is encrypted"):
        decode(b"", meta)


def test_a_chunked_message_belongs_to_the_range_of_its_first_chunk() -> None:
    def chunk(number: int) -> pb.MessageMetadata:
        return metadata(uuid="u", num_chunks_from_msg=3, total_chunk_msg_size=6, chunk_id=number)

    def run(wanted: Range) -> tuple[DecodedRows, RowDecoder]:
        rows, decoder = DecodedRows(), RowDecoder("t", -1, wanted)
        for number in range(3):
            decoder.decode((5, number * 2, chunk(number), b"%d%d" % (number, number)), rows)
        return rows, decoder

    rows, _ = run(Range(BEFORE_ALL, Bound(5, 1)))
    assert rows.values == [b"001122"]
    last = pb.MessageIdData.FromString(rows.ids[0])
    assert (last.entryId, last.first_chunk_message_id.entryId) == (4, 0)
    rows, decoder = run(Range(Bound(5, 1), Bound(5, 9)))
    assert rows.values == []
    assert decoder.skipped_chunks == 2


@given(st.binary(min_size=2, max_size=500), st.sampled_from(sorted(NAMES)))
def test_every_codec_gives_back_what_it_took(data: bytes, name: str) -> None:
    packed = compress(data, NAMES[name])
    assert decompress(packed, NAMES[name], len(data)) == data
    if name != "none":
        for wrong in (len(data) - 1, len(data) + 1):
            with pytest.raises(BadCompression):
                decompress(packed, NAMES[name], wrong)


def test_a_body_cannot_claim_more_memory_than_a_limit() -> None:
    with pytest.raises(BadCompression, match="claims"):
        decompress(bytes(pa.compress(b"x", codec="zstd", asbytes=True)), pb.ZSTD, 2**31)


def test_the_size_of_rows_is_that_of_their_values() -> None:
    assert decode(b"x" * 70, metadata()).size >= 70
    assert decode(b"x" * 70, metadata()).size - decode(b"", metadata()).size == 70
