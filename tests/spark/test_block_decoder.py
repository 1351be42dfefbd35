"""Decoding blocks of entries at once gives the same rows as decoding the entries one by one, whatever is in the
frames."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from magnetar.spark.source.decoding.batch_walk import BatchPlaces, Unusual
from magnetar.spark.source.decoding.block_decoder import BlockDecoder
from magnetar.spark.source.decoding.compression import compress
from magnetar.spark.source.decoding.entry_block import CorruptEntry, EntryBlock
from magnetar.spark.source.decoding.inbox import Inbox
from magnetar.spark.source.decoding.row_columns import columns_of
from magnetar.spark.source.decoding.row_decoder import DecodedRows, RowDecoder
from magnetar.spark.source.decoding.wire_scan import PADDING, Buffer, scan, varint_bytes, varints
from magnetar.spark.source.range_reader import RangeReader, ReadTask
from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from magnetar.spark.source.ranges.continuity_rules import Continuity
from pulsar_proto.ids import unsigned64
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import build_batch, build_payload
from tests.pulsar_proto.broker_entry import build_broker_entry_metadata
from tests.rounds import rounds
from tests.spark.sent_blocks import LEDGER, TOPIC, Played, builder, message_frame, ordinary_payload, put, sent_block
from tests.spark.single_messages import single, singles

EVERYTHING = Range(BEFORE_ALL, Bound(2**62, 0))

headers = st.fixed_dictionaries(
    {},
    optional={
        "event_time": st.integers(1, 2**63),
        "partition_key": st.text(max_size=8),
        "partition_key_b64_encoded": st.booleans(),
        "null_value": st.booleans(),
        "null_partition_key": st.booleans(),
        "schema_version": st.binary(max_size=9),
        "ordering_key": st.binary(max_size=3) | st.just(b"o" * 300),
        "highest_sequence_id": st.integers(0, 2**64 - 1),
        "deliver_at_time": st.integers(-1, 2**40),
        "marker_type": st.just(1),
        "encryption_param": st.just(b"iv"),
        "num_chunks_from_msg": st.integers(0, 1),
    },
)
"""Optional fields of an entry's metadata."""
rare = st.sampled_from(["", "", "", "", "", "no checksum", "damaged", "broker metadata", "cut off"])
compressions = st.sampled_from([pb.NONE, pb.NONE, pb.LZ4, pb.ZSTD, pb.SNAPPY, pb.ZLIB])
bodies = st.binary(max_size=40) | st.just(b"x" * 300) | st.just(b"y" * 20_000)
properties = st.lists(st.tuples(st.text(max_size=3), st.text(max_size=4)), max_size=3)
batches = st.none() | st.lists(st.tuples(singles, bodies), min_size=1, max_size=12) | st.integers(1, 40)


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """Draws what a MESSAGE may carry."""
    usual = draw(st.booleans())
    meta = pb.MessageMetadata(
        producer_name="p", sequence_id=draw(st.integers(0, 2**64 - 1)), publish_time=draw(st.integers(0, 2**63))
    )
    for name, value in {} if usual else draw(headers).items():
        setattr(meta, name, value)
    for key, text in [] if usual else draw(properties):
        meta.properties.add(key=key, value=text)
    batch = draw(batches)
    if batch is None:
        body = draw(bodies)
    elif isinstance(batch, int):  # a batch of equal messages, as machines often write them
        body = build_batch((pb.SingleMessageMetadata(payload_size=0), b"z" * 30) for _ in range(batch))
        meta.num_messages_in_batch = batch
    else:
        body = build_batch((single(fields), value) for fields, value in batch)
        meta.num_messages_in_batch = len(batch) + draw(st.sampled_from([0, 0, 0, 0, 1, -1, 2**20, -20]))
    kind = draw(compressions)
    if kind != pb.NONE and body:
        meta.compression = kind
        meta.uncompressed_size = len(body) + draw(st.sampled_from([0, 0, 0, 1]))
        body = compress(body, kind)
    oddity = draw(rare)
    payload = build_payload(meta, body, checksum=oddity != "no checksum")
    if oddity == "damaged":
        at = draw(st.integers(0, len(payload) - 1))
        payload = payload[:at] + bytes([payload[at] ^ 1 << draw(st.integers(0, 7))]) + payload[at + 1 :]
    elif oddity == "broker metadata":
        payload = build_broker_entry_metadata(pb.BrokerEntryMetadata(index=7)) + payload
    elif oddity == "cut off":
        payload = payload[: draw(st.integers(1, len(payload)))]
    return payload


def read(blocks: list[EntryBlock], wanted: Range) -> list[dict[str, Any]]:
    task = ReadTask(TOPIC, str(wanted.after), str(wanted.upto))
    continuity = Continuity(TOPIC, wanted, protected=False, sparse=True)
    reader = RangeReader(Played(blocks), task, builder(), continuity, poll_timeout_seconds=0, fail_on_data_loss=False)
    return listed(list(reader.batches()))


def listed(made: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Returns rows with their times as microseconds, because some are beyond Python's."""
    table = pa.Table.from_batches(made, schema=SCHEMA)
    kinds = [pa.int64() if pa.types.is_timestamp(field.type) else field.type for field in SCHEMA]
    rows: list[dict[str, Any]] = table.cast(pa.schema(zip(SCHEMA.names, kinds, strict=True))).to_pylist()
    return rows


SCHEMA = builder().batch(columns_of(DecodedRows())).schema


def read_plainly(sent: Sequence[bytes], wanted: Range) -> list[dict[str, Any]]:
    decoder, rows = RowDecoder(TOPIC, 3, wanted), DecodedRows()
    block = sent_block(sent)
    for index in range(len(block)):
        try:
            decoder.decode(block.entry(index, TOPIC), rows)
        except CorruptEntry:
            continue
    return listed([builder().batch(columns_of(rows))])


bounds = st.builds(Bound, st.just(LEDGER), st.integers(0, 6), st.integers(0, 4) | st.just(2**31 - 1))


KEY_THAT_IS_NO_BASE64 = build_payload(
    pb.MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=0, partition_key="\x80", partition_key_b64_encoded=True
    ),
    b"",
)


@settings(max_examples=rounds(150), deadline=None)
@given(st.lists(payloads(), min_size=1, max_size=8), st.none() | st.tuples(bounds, bounds))
@example([KEY_THAT_IS_NO_BASE64], None)
def test_blocks_give_the_rows_that_the_plain_way_gives(sent: list[bytes], cuts: tuple[Bound, Bound] | None) -> None:
    wanted = EVERYTHING if cuts is None else Range(min(cuts), max(cuts))
    assert read([sent_block(sent)], wanted) == read_plainly(sent, wanted)


@settings(max_examples=rounds(100), deadline=None)
@given(st.lists(payloads(), min_size=1, max_size=8))
def test_what_a_block_does_not_call_odd_or_unusual_is_what_protobuf_reads(sent: list[bytes]) -> None:
    """Compares with protobuf alone, without the decoder for single entries: that one would hide it if nothing were ever
    decoded at once."""
    block = sent_block(sent)
    ordinary = block.pick(np.flatnonzero(~block.odd))
    if not len(ordinary):
        return
    try:
        pieces = BlockDecoder(3, EVERYTHING).decode(ordinary)
    except Unusual:
        return
    rows = listed([builder().batch(piece) for piece in pieces])
    entries = ordinary.entries.tolist()
    kept = [sent[entry] for entry in entries]
    assert [row["value"] for row in rows] == [row["value"] for row in read_plainly(kept, EVERYTHING)]


def test_the_ordinary_is_never_left_to_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys, properties, times, nulls, versions, batches of any lengths and compression are ordinary."""
    monkeypatch.setattr(RowDecoder, "decode", None)
    sent = [ordinary_payload(n, partition_key=f"k{n}", event_time=n, schema_version=b"\1") for n in range(300)]
    assert [row["value"] for row in read([sent_block(sent)], EVERYTHING)] == [b"%d" % n for n in range(300)]
    one = pb.SingleMessageMetadata(payload_size=0, partition_key="k" * 200, event_time=9)
    one.properties.add(key="a", value="b" * 200)
    plain = build_batch([(one, b"first"), *((pb.SingleMessageMetadata(payload_size=0), b"v" * n) for n in range(200))])
    meta = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=201)
    meta.compression, meta.uncompressed_size = pb.LZ4, len(plain)
    rows = read([sent_block([build_payload(meta, compress(plain, pb.LZ4))])], EVERYTHING)
    assert [row["value"] for row in rows] == [b"first", *(b"v" * n for n in range(200))]
    assert (rows[0]["__key"], rows[0]["__messageProperties"]) == (b"k" * 200, [("a", "b" * 200)])


def test_a_damaged_entry_among_good_ones_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [ordinary_payload(number) for number in range(20)]
    sent[7] = sent[7][:-1] + b"?"
    task = ReadTask(TOPIC, str(BEFORE_ALL), f"{LEDGER}:19")
    for strict in (True, False):
        continuity = Continuity(TOPIC, task.wanted, protected=False, sparse=False)
        reader = RangeReader(
            Played([sent_block(sent)]), task, builder(), continuity, poll_timeout_seconds=0, fail_on_data_loss=strict
        )
        if strict:
            with pytest.raises(CorruptEntry, match=f"{LEDGER}:7 is damaged: its checksum is wrong"):
                list(reader.batches())
        else:
            assert sum(batch.num_rows for batch in reader.batches()) == 19


def test_messages_that_came_already_are_dropped_and_still_cost_permits() -> None:
    block = sent_block([ordinary_payload(number) for number in range(5)])
    assert block.is_behind((LEDGER, -1))
    assert not block.is_behind((LEDGER, 1))
    assert block.without_known((LEDGER, 1)).entries.tolist() == [2, 3, 4]
    assert int(block.permits().sum()) == 5
    twice = block.pick(np.array([0, 1, 1, 2]))
    assert not twice.is_behind((LEDGER, -1))
    assert twice.without_known((LEDGER, -1)).entries.tolist() == [0, 1, 2]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=30))
def test_varints_of_every_length_are_read(numbers: list[int]) -> None:
    encoded = [
        pb.CommandFlow(consumer_id=unsigned64(number), messagePermits=0).SerializeToString() for number in numbers
    ]
    buffer = Buffer(b"".join(encoded) + bytes(PADDING))
    ends = np.cumsum([len(each) for each in encoded])
    values, after, bad = varints(buffer, ends - [len(each) for each in encoded] + 1)
    assert bad is None or not bad.any()
    assert values.tolist() == numbers
    assert (after + 2 == ends).all()
    if min(numbers) >= 0:
        octets, used = varint_bytes(values)
        assert octets[used].tobytes() == b"".join(each[1:-2] for each in encoded)


@settings(max_examples=rounds(150), deadline=None)
@given(st.lists(st.binary(max_size=30), min_size=1, max_size=6))
def test_junk_is_read_as_protobuf_reads_it_or_called_odd(junk: list[bytes]) -> None:
    buffer = Buffer(b"".join(junk) + bytes(PADDING))
    stops = np.cumsum([len(each) for each in junk])
    found = scan(buffer, stops - [len(each) for each in junk], stops, (1, 2))
    for index, each in enumerate(junk):
        if found.odd[index]:
            continue
        flow = pb.CommandFlow.FromString(each)
        for field, value in ((1, flow.consumer_id), (2, flow.messagePermits)):
            has = field in found.has and bool(found.has[field][index])
            assert has == flow.HasField("consumer_id" if field == 1 else "messagePermits")
            mask = 2**64 - 1 if field == 1 else 2**32 - 1
            assert (int(found.numbers[field][index]) & mask if has else 0) == value


@given(st.lists(st.integers(0, 400), min_size=1, max_size=60), st.integers(1, 5000))
def test_frames_are_found_however_they_arrive(lengths: list[int], step: int) -> None:
    sent = [message_frame(entry, b"p" * length) for entry, length in enumerate(lengths)]
    stream, found = b"".join(sent), []
    inbox = Inbox(1 << 20, stream[:3])
    for at in range(3, len(stream), step):
        put(inbox, stream[at : at + step])
        if inbox.has_frame():
            buffer, places = inbox.take()
            ends = places + 4 + buffer.sizes_at(places)
            found += [buffer.data[start:end] for start, end in zip(places.tolist(), ends.tolist(), strict=True)]
    assert found == sent


def test_a_tag_of_three_bytes_is_odd_and_one_of_two_is_passed_over() -> None:
    """Clients of later protocols may add fields. Numbers from 16 on take two bytes, and those from 2048 on take
    three."""
    flow = pb.CommandFlow(consumer_id=3, messagePermits=4).SerializeToString()
    two_bytes, three_bytes = b"\xf8\x7f\x05" + flow, b"\x82\x80\x01\x00" + flow
    buffer = Buffer(two_bytes + three_bytes + flow + bytes(PADDING))
    stops = np.cumsum([len(two_bytes), len(three_bytes), len(flow)])
    found = scan(buffer, stops - [len(two_bytes), len(three_bytes), len(flow)], stops, (1, 2))
    assert found.odd.tolist() == [False, True, False]
    assert found.numbers[1][[0, 2]].tolist() == [3, 3]


def test_metadata_in_another_order_than_clients_write_is_left_to_the_plain_way() -> None:
    usual, other = b"\x18\x01", b"\x28\x00\x18\x01"
    places = BatchPlaces(b"\0\0\0\x02" + usual + b"v")
    places.walk(0, 7, 1)
    assert [each.tolist() for each in places.columns()] == [[4], [6], [7]]
    with pytest.raises(Unusual, match="another order"):
        BatchPlaces(b"\0\0\0\x04" + other + b"v").walk(0, 9, 1)


def batch_of_three(first: int, *, sequence: int) -> bytes:
    """Returns a batch whose values are 100 bytes long together, the first of them `first` bytes."""
    sizes = (first, 60 - first, 40)
    body = build_batch(
        (pb.SingleMessageMetadata(payload_size=0), b"%d" % sequence + b"v" * (size - 2)) for size in sizes
    )
    meta = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=1, num_messages_in_batch=3)
    return build_payload(meta, body)


@pytest.mark.parametrize("firsts", [[20] * 12, [20] * 6 + [30] + [20] * 5], ids=["alike", "one has another layout"])
def test_batches_of_equal_length_give_their_own_messages(firsts: list[int]) -> None:
    sent = [batch_of_three(first, sequence=10 + at) for at, first in enumerate(firsts)]
    assert len({len(payload) for payload in sent}) == 1
    block = sent_block(sent)
    rows = [row for piece in BlockDecoder(3, EVERYTHING).decode(block) for row in piece.values.to_pylist()]
    assert [len(value) for value in rows] == [size for first in firsts for size in (first, 60 - first, 40)]
    assert [value[:2] for value in rows] == [b"%d" % (10 + at) for at in range(len(firsts)) for _ in range(3)]
