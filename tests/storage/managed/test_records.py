"""Stored forms, compared with the bytes of Apache's broker."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.storage.managed import cursor_parts, cursor_record
from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.cursor_record import encode_node, encode_position, parse_node, parse_position
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.list_record import parse_list, serialize_list
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from tests.pulsar_proto.vectors import Item, load
from tests.rounds import rounds

CONFIG = ManagedLedgerConfig()
BITMAPS = replace(CONFIG, managed_ledger_persist_individual_ack_as_long_array=True)
LEDGERS = LedgerList(LedgerInfo(ledger_id, 1_000, 1, 1) for ledger_id in range(300))
RECORDS = load("pulsar_records.json")


def of_kind(kind: str) -> list[Item]:
    return [item for item in RECORDS if item["kind"] == kind]


def cursor_entries() -> list[Item]:
    return [item for item in load("pulsar_entries.json") if item["kind"] == "cursor"]


@pytest.mark.parametrize("item", of_kind("ManagedLedgerInfo"), ids=lambda item: item["path"].rpartition("/")[2])
def test_apaches_ledger_lists_are_written_again_byte_for_byte(item: Item) -> None:
    value = bytes.fromhex(item["hex"])
    record = parse_list(value)
    assert serialize_list(record.ledgers, record.terminated, record.properties, record.extra) == value
    assert record.extra == b""
    assert all(ledger.extra == b"" for ledger in record.ledgers)


@pytest.mark.parametrize("item", of_kind("ManagedCursorInfo"), ids=lambda item: item["path"].rpartition("/")[2])
def test_apaches_cursor_nodes_are_written_again_byte_for_byte(item: Item) -> None:
    value = bytes.fromhex(item["hex"])
    node = parse_node(value, LEDGERS)
    acks = AckState(LEDGERS, node.acks.mark_delete)
    acks.restore(node.acks.acked, node.acks.partial)
    again = encode_node(
        node.ledger_id,
        acks.mark_delete,
        node.acks.properties,
        node.cursor_properties,
        last_active_ms=item["decoded"]["lastActive"],
        extra=node.extra,
        acks=acks if node.ledger_id == -1 else None,
    )
    assert again == value


@pytest.mark.parametrize("item", cursor_entries(), ids=lambda item: item["hex"][:40])
def test_apaches_cursor_entries_are_understood_and_written_again(item: Item) -> None:
    value = bytes.fromhex(item["hex"])
    stored = parse_position(value, LEDGERS)
    acks = AckState(LEDGERS, stored.mark_delete)
    acks.restore(stored.acked, stored.partial)
    if "individualDeletedMessageRanges" in item["decoded"]:
        words = {each["key"]: each["values"] for each in item["decoded"]["individualDeletedMessageRanges"]}
        for ledger_id, values in words.items():
            acked = [bit for bit in range(64) if values[0] >> bit & 1]
            assert all(acks.is_acked(ledger_id, entry_id) for entry_id in acked)
        as_bitmaps = encode_position(acks, stored.mark_delete, stored.properties, BITMAPS)
        assert parse_position(as_bitmaps, LEDGERS).acked.keys() <= words.keys()
    elif item["decoded"]["entryId"] == acks.mark_delete.entry_id:
        assert encode_position(acks, stored.mark_delete, stored.properties, CONFIG) == value


holes = st.dictionaries(st.integers(1, 5), st.sets(st.integers(0, 999), max_size=30), max_size=4)
batches = st.dictionaries(st.tuples(st.integers(1, 5), st.integers(0, 999)), st.integers(1, 2**100), max_size=5)


def state_of(holes: dict[int, set[int]], batches: dict[tuple[int, int], int]) -> AckState:
    acks = AckState(LEDGERS, Position(1, -1))
    partial = [(Position(*key), [mask & (2**64 - 1), mask >> 64]) for key, mask in batches.items()]
    acks.restore({ledger_id: BitMap(entries) for ledger_id, entries in holes.items()}, partial)
    return acks


@given(
    holes, batches, st.sampled_from([CONFIG, BITMAPS, replace(CONFIG, managed_ledger_max_unacked_ranges_to_persist=3)])
)
@settings(max_examples=rounds(80), deadline=None)
def test_any_state_survives_a_cursor_entry(
    holes: dict[int, set[int]], batches: dict[tuple[int, int], int], config: ManagedLedgerConfig
) -> None:
    acks = state_of(holes, batches)
    encoded = encode_position(acks, acks.mark_delete, {"p": -5}, config)
    stored = parse_position(encoded, LEDGERS)
    again = AckState(LEDGERS, stored.mark_delete)
    again.restore(stored.acked, stored.partial)
    assert stored.properties == {"p": -5}
    assert again.mark_delete == acks.mark_delete
    assert list(again.ranges()) == list(acks.ranges())
    assert again.partial == acks.partial
    message = pb.PositionInfo.FromString(encoded)
    assert message.SerializeToString() == encoded, "fields in protobuf's order"
    few = acks.number_of_ranges <= config.managed_ledger_max_unacked_ranges_to_persist
    ranges_wanted = few and not config.managed_ledger_persist_individual_ack_as_long_array
    assert len(message.individualDeletedMessages) == (acks.number_of_ranges if ranges_wanted else 0)


@given(holes, batches)
@settings(max_examples=rounds(50), deadline=None)
def test_any_state_survives_a_node(holes: dict[int, set[int]], batches: dict[tuple[int, int], int]) -> None:
    acks = state_of(holes, batches)
    value = encode_node(-1, acks.mark_delete, {"n": 2**62}, {"k": "v"}, last_active_ms=7, acks=acks)
    node = parse_node(value, LEDGERS)
    again = AckState(LEDGERS, node.acks.mark_delete)
    again.restore(node.acks.acked, node.acks.partial)
    assert list(again.ranges()) == list(acks.ranges())
    assert again.partial == acks.partial
    assert (node.ledger_id, node.acks.properties, node.cursor_properties) == (-1, {"n": 2**62}, {"k": "v"})
    assert pb.ManagedCursorInfo.FromString(value).SerializeToString() == value


def test_ranges_at_the_bounds_of_numbers_in_bytes_are_written_as_protobuf_writes_them() -> None:
    ledgers = LedgerList([LedgerInfo(1, 3_000_000, 1, 1)])
    acks = AckState(ledgers, Position(1, -1))
    ends = [127, 129, 16_383, 16_385, 16_387, 2_097_151, 2_097_153]
    acks.restore({1: BitMap(ends)}, [])
    encoded = encode_position(acks, acks.mark_delete, {}, CONFIG)
    message = pb.PositionInfo.FromString(encoded)
    assert [each.upperEndpoint.entryId for each in message.individualDeletedMessages] == ends
    assert [each.lowerEndpoint.entryId for each in message.individualDeletedMessages] == [end - 1 for end in ends]
    assert message.SerializeToString() == encoded


def test_a_node_that_does_not_say_when_the_cursor_was_used_says_never() -> None:
    acks = state_of({}, {})
    value = encode_node(-1, acks.mark_delete, {}, {}, last_active_ms=0, acks=acks)
    record = pb.ManagedCursorInfo.FromString(value)
    record.ClearField("lastActive")
    assert parse_node(record.SerializeToString(), LEDGERS).last_active_ms == 0


def test_a_range_over_several_ledgers_covers_what_exists_between() -> None:
    info = pb.PositionInfo(ledgerId=1, entryId=-1)
    item = info.individualDeletedMessages.add()
    item.lowerEndpoint.ledgerId, item.lowerEndpoint.entryId = 10, 997
    item.upperEndpoint.ledgerId, item.upperEndpoint.entryId = 12, 1
    stored = parse_position(info.SerializeToString(), LEDGERS)
    assert stored.acked == {10: BitMap([998, 999]), 11: BitMap(range(1000)), 12: BitMap([0, 1])}


def test_batches_beyond_the_limit_are_left_out_from_the_far_end() -> None:
    acks = state_of({}, {(1, entry): 0b10 for entry in range(10, 20)})
    config = replace(CONFIG, managed_ledger_max_batch_deleted_index_to_persist=3)
    stored = parse_position(encode_position(acks, acks.mark_delete, {}, config), LEDGERS)
    assert [position for position, _ in stored.partial] == [(1, 10), (1, 11), (1, 12)]


def test_batches_with_many_indexes_never_outgrow_an_entry() -> None:
    acks = state_of({}, {})
    acks.ack([(1, entry, [-2] + [-1] * 1023) for entry in range(10, 500)])
    value = encode_position(acks, acks.mark_delete, {}, CONFIG)
    assert len(value) <= cursor_parts.RECORD_BYTES_MAX
    kept = [position for position, _ in parse_position(value, LEDGERS).partial]
    assert kept == [(1, entry) for entry in range(10, 10 + len(kept))]
    assert len(kept) == cursor_record.PARTIAL_WORDS_MAX // 1024


def test_fields_of_later_versions_survive_in_a_node() -> None:
    unknown = b"\x92\x03\x03abc"
    value = encode_node(-1, Position(1, 1), {}, {}, last_active_ms=3) + unknown
    assert parse_node(value, LEDGERS).extra == unknown


@pytest.mark.parametrize("parse", [parse_position, parse_node])
def test_damaged_records_are_refused(parse: object) -> None:
    with pytest.raises(MalformedRecord):
        parse(b"\x08", LEDGERS)  # type: ignore[operator]
