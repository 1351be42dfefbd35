"""Records of managed ledgers, cursors and schemas: real ones, compressed ones, and java.util.BitSet's words."""

import zlib

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.records.managed_record import (
    AckedRange,
    acked_ranges,
    add_acked_ranges,
    bitset_from_words,
    parse_managed_cursor_info,
    parse_managed_ledger_info,
    parse_position_info,
    runs_of_bits,
    serialize,
    uncompressed,
    words_from_bits,
)
from tests.pulsar_proto.vectors import Item, as_described, described, load, unhex

PARSERS = {
    "ManagedLedgerInfo": parse_managed_ledger_info,
    "ManagedCursorInfo": parse_managed_cursor_info,
    "SchemaLocator": pb.SchemaLocator.FromString,
}
RECORDS = load("pulsar_records.json")
CURSOR_ENTRIES = [item for item in load("pulsar_entries.json") if item["kind"] == "cursor"]
SCHEMA_ENTRIES = [item for item in load("pulsar_entries.json") if item["kind"] == "schema"]


@pytest.mark.parametrize("item", RECORDS, ids=[item["path"].removeprefix("/") for item in RECORDS])
def test_captured_record_reads_as_described_and_keeps_its_bytes(item: Item) -> None:
    record: Message = PARSERS[item["kind"]](unhex(item["hex"]))
    if item["kind"] != "SchemaLocator":
        assert as_described(record) == described(item["decoded"])
    assert record.SerializeToString() == unhex(item["hex"])


def test_captured_cursor_entries_read_as_described_and_keep_their_bytes() -> None:
    for item in CURSOR_ENTRIES:
        info = parse_position_info(unhex(item["hex"]))
        assert as_described(info) == described(item["decoded"])
        assert serialize(info) == unhex(item["hex"])


def test_captured_schema_entries_keep_their_bytes() -> None:
    for item in SCHEMA_ENTRIES:
        entry = pb.SchemaEntry.FromString(unhex(item["hex"]))
        assert entry.SerializeToString() == unhex(item["hex"])
        info = pb.SchemaInfo.FromString(entry.schema_data)
        assert info.SerializeToString() == entry.schema_data
        assert info.IsInitialized()
        assert info.schema_id == item["of"]


def test_ranges_and_bit_sets_say_the_same() -> None:
    """Two runs of one broker stored the same acknowledgements, as long arrays and as message ranges: they read
    alike."""
    arrays = [parse_position_info(unhex(item["hex"])) for item in CURSOR_ENTRIES if item["of"].endswith("/curs2")]
    ranges = [parse_position_info(unhex(item["hex"])) for item in CURSOR_ENTRIES if item["of"].endswith("/curs6")]
    of_arrays = max((sorted(acked_ranges(info)) for info in arrays), key=len)
    of_ranges = max((sorted(acked_ranges(info)) for info in ranges), key=len)
    assert [(first, last) for _, first, last in of_arrays] == [(first, last) for _, first, last in of_ranges]
    assert of_arrays == [AckedRange(92, 2, 3), AckedRange(97, 0, 0), AckedRange(97, 4, 4), AckedRange(98, 1, 1)]


@given(st.lists(st.builds(AckedRange, st.integers(0, 99), st.integers(0, 50), st.integers(50, 99))))
def test_acked_ranges_round_trip(ranges: list[AckedRange]) -> None:
    info = pb.PositionInfo(ledgerId=1, entryId=2)
    add_acked_ranges(info, ranges)
    assert acked_ranges(parse_position_info(serialize(info))) == ranges


def test_range_across_ledgers_counts_in_its_last_ledger_only() -> None:
    info = pb.ManagedCursorInfo(cursorsLedgerId=-1)
    stored = info.individualDeletedMessages.add()
    stored.lowerEndpoint.ledgerId, stored.lowerEndpoint.entryId = 3, 9
    stored.upperEndpoint.ledgerId, stored.upperEndpoint.entryId = 4, 2
    empty = info.individualDeletedMessages.add()
    empty.lowerEndpoint.ledgerId, empty.lowerEndpoint.entryId = 3, 9
    empty.upperEndpoint.ledgerId, empty.upperEndpoint.entryId = 5, -1
    assert acked_ranges(info) == [AckedRange(4, 0, 2)]


def compress(record: bytes, kind: pb.CompressionType.ValueType, body: bytes, size: int | None = None) -> bytes:
    head = pb.CompressedInfoMetadata(compressionType=kind, uncompressedSize=len(record) if size is None else size)
    data = head.SerializeToString()
    return b"\x47\x78" + len(data).to_bytes(4, "big") + data + body


def test_compressed_records_are_read() -> None:
    for item in RECORDS:
        if item["kind"] == "SchemaLocator":
            continue
        plain = unhex(item["hex"])
        assert uncompressed(plain) == plain
        assert PARSERS[item["kind"]](compress(plain, pb.ZLIB, zlib.compress(plain))).SerializeToString() == plain
        assert uncompressed(compress(plain, pb.NONE, plain)) == plain


def test_compressions_that_are_not_built_in_are_named() -> None:
    for kind in (pb.LZ4, pb.ZSTD, pb.SNAPPY):
        with pytest.raises(MalformedRecord, match=pb.CompressionType.Name(kind)):
            uncompressed(compress(b"x", kind, b"body"))


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(b"\x47\x78", id="magic alone"),
        pytest.param(b"\x47\x78\x00\x00\x00\xff\x08\x00", id="head beyond the end"),
        pytest.param(b"\x47\x78\x00\x00\x00\x00", id="empty head"),
        pytest.param(b"\x47\x78\x00\x00\x00\x01\x08", id="broken head"),
        pytest.param(compress(b"four", pb.ZLIB, zlib.compress(b"four"), 3), id="longer than claimed"),
        pytest.param(compress(b"four", pb.ZLIB, zlib.compress(b"four"), 5), id="shorter than claimed"),
        pytest.param(compress(b"four", pb.ZLIB, zlib.compress(b"four")[:-6]), id="cut"),
        pytest.param(compress(b"four", pb.ZLIB, b"not zlib"), id="other bytes"),
        pytest.param(compress(b"four", pb.ZLIB, b"", 2**31 - 1), id="absurd size"),
        pytest.param(compress(b"four", pb.ZLIB, b"", -1), id="negative size"),
        pytest.param(compress(b"four", pb.ZLIB, zlib.compress(b"\x00" * 10_000_000), 100), id="bomb"),
    ],
)
def test_broken_compression_is_refused(record: bytes) -> None:
    with pytest.raises(MalformedRecord):
        uncompressed(record)


def test_new_managed_ledger_has_an_empty_value() -> None:
    assert serialize(parse_managed_ledger_info(b"")) == b""


@pytest.mark.parametrize("record", [b"", b"\x08", b"\x10\x05", b"\x08\xff"])
def test_records_without_their_required_fields_are_refused(record: bytes) -> None:
    for parse in (parse_managed_cursor_info, parse_position_info):
        with pytest.raises(MalformedRecord):
            parse(record)


def test_fields_of_a_later_version_survive() -> None:
    record = serialize(pb.ManagedCursorInfo(cursorsLedgerId=5)) + b"\xa2\x06\x03abc"
    info = parse_managed_cursor_info(record)
    info.markDeleteLedgerId = 9
    assert serialize(info).endswith(b"\xa2\x06\x03abc")


@pytest.mark.parametrize(
    ("words", "bits"),
    [
        ([], set()),
        ([0], set()),
        ([12, 0], {2, 3}),
        ([1 << 62, 1], {62, 64}),
        ([-(2**63)], {63}),
        ([-1, -1], set(range(128))),
    ],
)
def test_words_are_those_of_a_java_bit_set(words: list[int], bits: set[int]) -> None:
    value = bitset_from_words(words)
    assert {bit for bit in range(200) if value >> bit & 1} == bits
    while words and words[-1] == 0:
        words.pop()
    assert words_from_bits(value) == words


@given(st.sets(st.integers(0, 700)))
def test_bit_sets_round_trip(bits: set[int]) -> None:
    value = sum(1 << bit for bit in bits)
    words = words_from_bits(value)
    assert bitset_from_words(words) == value
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert {bit for first, last in runs_of_bits(value) for bit in range(first, last + 1)} == bits
    assert all(
        after[0] > before[1] + 1 for before, after in zip(runs_of_bits(value), runs_of_bits(value)[1:], strict=False)
    )


def test_bits_of_a_full_ledger_become_runs_at_once() -> None:
    every_other = int("01" * 25_000, 2)
    runs = runs_of_bits(every_other)
    assert len(runs) == 25_000
    assert runs[-1] == (49_998, 49_998)
