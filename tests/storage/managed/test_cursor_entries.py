"""States of cursors that take several entries: written in slices while they change, and read back."""

import random
import zlib
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.storage.ledger.ledger_errors import NoSuchEntry
from magnetar.storage.managed import cursor_entries, cursor_parts
from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.cursor_entries import StoredBefore, append_state, read_state
from magnetar.storage.managed.cursor_parts import parse_part
from magnetar.storage.managed.cursor_record import StoredAcks
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position
from pulsar_proto.pb import managed_ledger_pb2 as pb
from tests.rounds import rounds

CONFIG = ManagedLedgerConfig()
ENTRIES = 3_000
LEDGERS = LedgerList(LedgerInfo(ledger_id, ENTRIES, 1, 1) for ledger_id in range(1, 9))
OLD = Position(1, 0)


class Ledger:
    """Keeps what is appended. `on_append` is called before an append is confirmed."""

    payload_offset = 0
    ledger_id = 77

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.on_append: Callable[[], None] = lambda: None
        self.unreadable: set[int] = set()

    @property
    def last_add_confirmed(self) -> int:
        return len(self.entries) - 1

    def append(self, payloads: list[bytes], done: Callable[[Any], None]) -> None:
        self.entries += payloads
        self.on_append()
        done(type("Confirmed", (), {"error": None})())

    async def read(self, first: int, last: int) -> list[bytes]:
        if first in self.unreadable:
            raise NoSuchEntry(f"entry {first}")
        return self.entries[first : last + 1]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes states count as large early, and has them encoded on the spot."""

    async def at_once(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(cursor_entries, "offload", at_once)
    monkeypatch.setattr(cursor_entries, "INLINE_BYTES", 100)
    monkeypatch.setattr(cursor_entries, "RECORD_BYTES_MAX", 900)
    monkeypatch.setattr(cursor_parts, "SLICE_BYTES", 256)


def scattered(seed: int = 1, share: int = 2) -> AckState:
    """Acknowledges a part of the entries of every ledger, never the first one."""
    chance = random.Random(seed)
    acks = AckState(LEDGERS, Position(1, -1))
    for ledger_id in range(1, 9):
        acks.ack((ledger_id, each, None) for each in chance.sample(range(1, ENTRIES), ENTRIES // share))
    return acks


async def written(acks: AckState, ledger: Ledger, *, repeat: bool = False) -> cursor_entries.WrittenState:
    return await append_state(cast(Any, ledger), acks, {"p": 7}, StoredBefore(OLD, {}, repeat), CONFIG)


async def read(ledger: Ledger) -> StoredAcks:
    stored = await read_state("test", cast(Any, ledger), LEDGERS)
    assert stored is not None
    return stored


def restored(stored: StoredAcks) -> AckState:
    acks = AckState(LEDGERS, stored.mark_delete)
    acks.restore(stored.acked, stored.partial)
    return acks


async def test_what_outgrows_an_entry_is_split_and_comes_back_whole() -> None:
    acks, ledger = scattered(), Ledger()
    acks.ack([(3, 0, [5])])
    result = await written(acks, ledger)
    assert len(ledger.entries) > 3
    assert result.size == sum(map(len, ledger.entries))
    again = restored(await read(ledger))
    assert list(again.ranges()) == list(acks.ranges())
    assert again.partial == acks.partial
    assert (await read(ledger)).properties == {"p": 7}


async def test_every_entry_is_one_that_apaches_broker_reads_without_losing_messages() -> None:
    """After a crash any of the entries may be the last one."""
    acks, ledger = scattered(), Ledger()
    await written(acks, ledger, repeat=True)
    for entry in ledger.entries:
        info = pb.PositionInfo.FromString(entry)
        for unknown in ("partsBefore", "part"):
            info.ClearField(unknown)
        assert (info.ledgerId, info.entryId) in (OLD, acks.mark_delete)
        for item in info.individualDeletedMessageRanges:
            for index, word in enumerate(item.values):
                entries = [64 * index + bit for bit in range(64) if (word >> bit) & 1]
                assert all(acks.is_acked(item.key, each) for each in entries)


async def test_a_crash_between_parts_leaves_what_was_stored_before() -> None:
    ledger = Ledger()
    before, after = scattered(1, 3), scattered(1, 3)
    await written(before, ledger)
    whole = len(ledger.entries)
    after.ack((8, each, None) for each in range(1, ENTRIES))
    await written(after, ledger)
    for end in range(whole, len(ledger.entries) - 1):
        torn = Ledger()
        torn.entries = ledger.entries[:end]
        assert list(restored(await read(torn)).ranges()) == list(before.ranges())


async def test_a_part_that_cannot_be_read_only_makes_messages_come_again() -> None:
    acks, ledger = scattered(), Ledger()
    await written(acks, ledger)
    ledger.unreadable = {1}
    stored = await read(ledger)
    assert sum(map(len, stored.acked.values())) < acks.acked_beyond
    assert all(acks.is_acked(ledger_id, each) for ledger_id in stored.acked for each in stored.acked[ledger_id])


async def test_nothing_but_damage_is_told_as_nothing() -> None:
    ledger = Ledger()
    ledger.entries = [b"\xff", b""]
    assert await read_state("test", cast(Any, ledger), LEDGERS) is None


async def test_acknowledgements_that_come_while_it_is_written_do_no_harm() -> None:
    acks, ledger = scattered(), Ledger()
    asked = iter(range(1, 100))

    def more() -> None:
        number = next(asked)
        acks.ack((1, each, None) for each in range(number * 40))
        acks.ack([(8, number, None), (7, number, None)])

    before = scattered()
    ledger.on_append = more
    await written(acks, ledger)
    ledger.on_append = lambda: None
    stored = restored(await read(ledger))
    assert stored.mark_delete >= before.mark_delete
    for ledger_id in range(1, 9):
        for entry_id in range(ENTRIES):
            if before.is_acked(ledger_id, entry_id):
                assert stored.is_acked(ledger_id, entry_id)
            if stored.is_acked(ledger_id, entry_id):
                assert acks.is_acked(ledger_id, entry_id)


async def test_a_seek_while_it_is_written_wins() -> None:
    acks, ledger = scattered(), Ledger()

    def seek() -> None:
        ledger.on_append = lambda: None
        acks.reset(Position(1, 0))
        acks.ack((8, each, None) for each in range(1, ENTRIES, 2))
        acks.ack((7, each, None) for each in range(1, ENTRIES, 2))

    ledger.on_append = seek
    await written(acks, ledger)
    assert list(restored(await read(ledger)).ranges()) == list(acks.ranges())


@given(
    st.dictionaries(st.integers(1, 8), st.sets(st.integers(0, ENTRIES - 1), max_size=40), max_size=8),
    st.sampled_from([8, 24, 300]),
)
@settings(deadline=None, max_examples=rounds(60))
def test_parts_say_what_they_were_given(holes: dict[int, set[int]], slice_bytes: int) -> None:
    slice_before, cursor_parts.SLICE_BYTES = cursor_parts.SLICE_BYTES, slice_bytes
    try:
        given_holes = {ledger_id: BitMap(entries) for ledger_id, entries in holes.items() if entries}
        entries = cursor_parts.encode_part(list(given_holes.items()), OLD)
        states = [parse_part(pb.PositionInfo.FromString(entry).part) for entry in entries]
        assert cursor_parts.merged(states) == given_holes
    finally:
        cursor_parts.SLICE_BYTES = slice_before


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"cut", b"lies", b"ends"])
def test_damaged_parts_are_told(damage: bytes) -> None:
    (entry,) = cursor_parts.encode_part([(1, BitMap([5]))], OLD)
    part = pb.PositionInfo.FromString(entry).part
    raw = zlib.decompress(part)
    cases = {b"cut": part[:-3], b"lies": zlib.compress(raw[:-1]), b"ends": zlib.compress(raw + b"x")}
    with pytest.raises(MalformedRecord):
        parse_part(cases.get(damage, damage))
