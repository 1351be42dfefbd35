"""Records of managed ledgers, cursors and schemas: real ones and compressed ones."""

import zlib

import pytest
from google.protobuf.message import Message

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.pb import managed_ledger_pb2 as pb
from pulsar_proto.pb import pulsar_api_pb2 as api
from pulsar_proto.records import compression as codecs
from pulsar_proto.records.managed_record import (
    parse_managed_cursor_info,
    parse_managed_ledger_info,
    parse_position_info,
    serialize,
    uncompressed,
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


@pytest.mark.parametrize("kind", ["LZ4", "ZLIB", "ZSTD", "SNAPPY"])
def test_every_compression_of_pulsar_is_read(kind: str) -> None:
    plain = b"a managed ledger's record " * 40
    codec = pb.CompressionType.Value(kind)
    body = codecs.compress(api.CompressionType.Value(kind), plain)
    assert len(body) < len(plain)
    assert uncompressed(compress(plain, codec, body)) == plain
    with pytest.raises(MalformedRecord, match=kind):
        uncompressed(compress(plain, codec, b"another body"))


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
