"""Positions and counts, checked against a plain list of all entries."""

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from pulsar_proto.ids import EARLIEST, LATEST, Position
from tests.rounds import rounds

SIZES = st.lists(st.integers(0, 4), max_size=5)
POSITIONS = st.builds(Position, st.sampled_from([-1, 0, 10, 15, 20, 30, 40, 50, 60, 99]), st.integers(-1, 6))


def build(closed: list[int], current: int | None) -> LedgerList:
    """Returns ledgers 10, 20 ... with these numbers of entries, and an open one with `current` entries behind them
    unless that is None."""
    ledgers = LedgerList(LedgerInfo(10 * n, size, 7 * size, 5) for n, size in enumerate(closed, 1))
    if current is not None:
        ledgers.add(10 * (len(closed) + 1))
        for _ in range(current):
            ledgers.grow(1, 7)
    return ledgers


def everything(closed: list[int], current: int | None) -> list[Position]:
    sizes = closed if current is None else [*closed, current]
    return [Position(10 * n, entry) for n, size in enumerate(sizes, 1) for entry in range(size)]


@given(SIZES, st.none() | st.integers(0, 4), POSITIONS, POSITIONS)
@settings(max_examples=rounds(150))
def test_agrees_with_a_list_of_all_entries(closed: list[int], current: int | None, a: Position, b: Position) -> None:
    ledgers, entries = build(closed, current), everything(closed, current)
    assert ledgers.entries == len(entries)
    assert ledgers.size == 7 * len(entries)
    assert ledgers.at_or_after(a) == next((e for e in entries if e >= a), None)
    assert ledgers.next_position(a) == next((e for e in entries if e > a), ledgers.end)
    before = [e for e in entries if e < a]
    if before:
        assert ledgers.previous_position(a) == before[-1]
    else:
        assert ledgers.rank(ledgers.previous_position(a)) == 0
    assert ledgers.rank(a) == sum(e <= a for e in entries)
    assert ledgers.entries_between(a, b) == sum(a < e <= b for e in entries)
    assert [ledgers.entry_at(rank) for rank in range(len(entries))] == entries
    assert all(ledgers.end > e for e in entries)
    assert ledgers.first_position == (entries[0] if entries else ledgers.end)
    if entries:
        assert ledgers.last_confirmed == entries[-1]


@given(SIZES, st.none() | st.integers(0, 4), POSITIONS)
def test_the_size_after_a_position_is_exact_for_entries_of_one_size(
    closed: list[int], current: int | None, position: Position
) -> None:
    entries = everything(closed, current)
    assert build(closed, current).size_after(position) == 7 * sum(e > position for e in entries)


def test_closing_and_adding_keep_the_arithmetic() -> None:
    ledgers = build([2], 3)
    ledgers.close_current(99)
    assert [(info.ledger_id, info.entries, info.size, info.closed_ms) for info in ledgers.infos] == [
        (10, 2, 14, 5),
        (20, 3, 21, 99),
    ]
    assert ledgers.end == (20, 3)
    ledgers.add(30)
    assert ledgers.end == (30, 0)
    assert ledgers.last_confirmed == (20, 2)
    ledgers.grow(1, 7)
    assert ledgers.entries_between(EARLIEST, LATEST) == 6
    ledgers.remove({10, 20})
    assert ledgers.entries_between(EARLIEST, LATEST) == 1
    assert ledgers.rank(Position(20, 1)) == 0


def test_an_empty_current_ledger_leaves_the_list_when_it_is_closed() -> None:
    ledgers = build([2], 0)
    ledgers.close_current(99)
    assert [info.ledger_id for info in ledgers.infos] == [10]
    assert ledgers.last_confirmed == (10, 1)


def test_the_last_confirmed_position_outlives_its_ledger() -> None:
    ledgers = build([2, 3], None)
    ledgers.remove({10, 20})
    assert ledgers.last_confirmed == (20, 2)
    assert ledgers.at_or_after(EARLIEST) is None
    ledgers.add(30)
    assert ledgers.last_confirmed == (20, 2)


def test_a_first_ledger_gives_the_position_before_everything_its_id() -> None:
    ledgers = LedgerList()
    assert ledgers.last_confirmed == (-1, -1)
    ledgers.add(7)
    assert ledgers.last_confirmed == (7, -1)


def test_a_copy_does_not_share_changes() -> None:
    ledgers = build([2], 1)
    twin = ledgers.copy()
    twin.close_current(9)
    assert ledgers.current_id == 20
    assert ledgers.entries == 3
