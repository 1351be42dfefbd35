"""What compaction keeps, compared with a slow twin and with what Apache's broker kept of the same messages."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.compaction.compacted_entries import decode_entry, encode_entry, position_of
from magnetar.server.compaction.compaction_rules import (
    LatestMessages,
    begins_in_the_past,
    last_batch_index,
    remaining_indexes,
)
from pulsar_proto.errors import MalformedFrame, MalformedRecord
from pulsar_proto.ids import Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.compression import BODY_BYTES_MAX, compress, decompress
from pulsar_proto.records.payload import build_payload, parse_metadata, verify_checksum
from tests.pulsar_proto.broker_entry import build_broker_entry_metadata
from tests.pulsar_proto.vectors import load, unhex
from tests.server.compaction.messages import Sent, batch, compact, contents, last_of_each_key, metadata, opened, single

ENTRIES = load("pulsar_entries.json")
COMPRESSIONS = [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]


def compacted(entries: list[bytes], retain_null_key: bool = False) -> list[tuple[Position, bytes]]:
    """Compacts a log whose entries are in one ledger, number 1."""
    placed = [(Position(1, at), entry) for at, entry in enumerate(entries)]
    return compact(placed, LatestMessages(retain_null_key=retain_null_key))


def shown(entries: list[tuple[Position, bytes]]) -> list[tuple[object, Sent]]:
    return [((position, index), sent) for position, payload in entries for index, sent in contents(payload)]


@pytest.mark.parametrize(("log", "kept"), [("jcomp", (85,)), ("kcomp", (211,))])
def test_of_the_same_messages_apache_kept_the_same_bytes(log: str, kept: tuple[int, ...]) -> None:
    """The logs hold a batch of three of which one message goes, single messages of which the last is a deletion, and
    broker entry metadata."""
    latest = LatestMessages(retain_null_key=False)
    stored: list[tuple[Position, bytes]] = []
    for item in ENTRIES:
        if item["kind"] == "data" and item["of"] == f"public/default/persistent/{log}":
            ledger = int(item["ledger"])
            stored.append((Position(ledger, sum(each.ledger_id == ledger for each, _ in stored)), unhex(item["hex"])))
    written = [encode_entry(position, payload) for position, payload in compact(stored, latest)]
    assert written == [unhex(item["hex"]) for item in ENTRIES if item["kind"] == "compacted" and item["ledger"] in kept]


def test_captured_entries_keep_their_bytes() -> None:
    captured = [unhex(item["hex"]) for item in ENTRIES if item["kind"] == "compacted"]
    assert len(captured) > 5
    for entry in captured:
        position, payload = decode_entry(entry)
        assert encode_entry(position, payload) == entry
        assert position_of(b"xx" + entry, 2) == position
        assert parse_metadata(payload).producer_name


@pytest.mark.parametrize(
    "entry", [b"", b"\0\0", b"\0\0\0\x09abc", b"\0\0\0\x00", b"\0\0\0\x04\x08\x01\x10\x01\0\0\0\x09x"]
)
def test_a_damaged_entry_is_told(entry: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode_entry(entry)


KEYS = st.sampled_from([None, "a", "b", "c"])
MESSAGES = st.builds(Sent, KEYS, st.sampled_from([b"", b"1", b"22"]))
LOG = st.lists(
    st.one_of(
        MESSAGES.map(single),
        st.builds(batch, st.lists(MESSAGES, min_size=1, max_size=5), st.sampled_from(COMPRESSIONS)),
    ),
    max_size=12,
)


@given(LOG, st.booleans())
def test_of_each_key_the_last_message_stays_where_it_was(entries: list[bytes], retain_null_key: bool) -> None:
    kept = compacted(entries, retain_null_key)
    everything = shown([(Position(1, at), entry) for at, entry in enumerate(entries)])
    assert shown(kept) == last_of_each_key(everything, retain_null_key)
    for position, payload in kept:
        assert verify_checksum(payload)
        before = parse_metadata(entries[position.entry_id])
        assert parse_metadata(payload).num_messages_in_batch == before.num_messages_in_batch
        assert contents(payload), "an entry without messages is not kept"


@given(LOG, LOG, st.booleans())
def test_compacting_again_with_what_came_later_is_compacting_all(
    first: list[bytes], later: list[bytes], retain_null_key: bool
) -> None:
    def run(placed: list[tuple[Position, bytes]]) -> list[tuple[Position, bytes]]:
        return compact(placed, LatestMessages(retain_null_key=retain_null_key))

    log = [(Position(1, at), entry) for at, entry in enumerate([*first, *later])]
    assert run(run(log[: len(first)]) + log[len(first) :]) == run(log)
    assert run(run(log)) == run(log)


def test_an_entry_that_loses_nothing_keeps_its_bytes() -> None:
    entry = batch([Sent("a", b"1"), Sent("b", b"2")], pb.LZ4)
    assert compacted([entry]) == [(Position(1, 0), entry)]


def test_broker_entry_metadata_stays() -> None:
    block = build_broker_entry_metadata(pb.BrokerEntryMetadata(broker_timestamp=7, index=3))
    entry = block + batch([Sent("a", b"1"), Sent("b", b"2")])
    ((_, kept),) = compacted([entry, single(Sent("a", b""))])
    assert kept.startswith(block)
    assert [sent for _, sent in contents(kept[len(block) :])] == [Sent("b", b"2")]
    assert remaining_indexes(opened(kept)) == 0b10
    assert last_batch_index(opened(kept)) == 1


def test_markers_go() -> None:
    assert compacted([build_payload(metadata(marker_type=10, partition_key="a"), b"x")]) == []


def test_what_does_not_decode_stays_and_decides_nothing() -> None:
    broken = build_payload(
        metadata(num_messages_in_batch=2, uncompressed_size=5, compression=pb.LZ4, partition_key="a"), b"\xff"
    )
    entries = [single(Sent("a", b"1")), broken, b"\x0e\x01nothing"]
    assert [position.entry_id for position, _ in compacted(entries)] == [0, 1, 2]
    assert remaining_indexes(opened(broken)) is None
    assert last_batch_index(opened(broken)) == -1


def test_an_encrypted_batch_stays_whole() -> None:
    """Apache takes the key of the first message for the key of the whole batch, and so loses the other messages."""
    head = metadata(num_messages_in_batch=3, uncompressed_size=5, partition_key="a")
    head.encryption_keys.add(key="k", value=b"v")
    encrypted = build_payload(head, b"secret")
    entries = [encrypted, single(Sent("a", b"1")), encrypted, single(Sent("a", b"2"))]
    assert [position.entry_id for position, _ in compacted(entries)] == [0, 2, 3]


def test_chunks_of_the_last_message_stay_together() -> None:
    def chunk(uuid: str, number: int, count: int = 3) -> bytes:
        head = metadata(partition_key="a", uuid=uuid, chunk_id=number, num_chunks_from_msg=count, uncompressed_size=30)
        return build_payload(head, b"part")

    old, new = [chunk("old", number) for number in range(3)], [chunk("new", number) for number in range(3)]
    begun = chunk("begun", 0)
    entries = [single(Sent("a", b"0")), old[0], old[1], new[0], old[2], new[1], new[2], begun]
    assert [position.entry_id for position, _ in compacted(entries)] == [3, 5, 6, 7]
    assert [position.entry_id for position, _ in compacted([*entries[:-1], single(Sent("a", b""))])] == []


def test_a_null_value_deletes_although_it_has_bytes() -> None:
    entries = [single(Sent("a", b"1")), build_payload(metadata(partition_key="a", null_value=True), b"?")]
    assert compacted(entries) == []


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(st.binary(max_size=200))
def test_compressions_are_undone(compression: pb.CompressionType.ValueType, plain: bytes) -> None:
    assert decompress(compression, compress(compression, plain), len(plain)) == plain


@pytest.mark.parametrize("compression", COMPRESSIONS[1:])
def test_a_body_that_grows_beyond_what_it_says_is_refused(compression: pb.CompressionType.ValueType) -> None:
    bomb = compress(compression, bytes(1_000_000))
    for size in (0, 10, 999_999, BODY_BYTES_MAX + 1):
        with pytest.raises(MalformedFrame):
            decompress(compression, bomb, size)
    with pytest.raises(MalformedFrame):
        decompress(compression, b"\x01\xff\xff", 100)


def test_who_begins_in_what_was_trimmed() -> None:
    first, untouched = Position(9, 0), Position(9, -1)
    assert begins_in_the_past(Position(-1, -1), untouched, first, durable=True)
    assert begins_in_the_past(Position(3, 4), untouched, first, durable=True)
    assert not begins_in_the_past(Position(9, 0), untouched, first, durable=True)
    assert not begins_in_the_past(Position(-1, -1), Position(9, 0), first, durable=True)
    assert not begins_in_the_past(Position(-1, -1), Position(8, 4), first, durable=True)
    assert begins_in_the_past(Position(-1, -1), Position(8, 4), first, durable=False)
