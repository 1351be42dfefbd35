"""The acknowledgement state, checked against a slow, obvious twin, and its rules by name."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.managed.ack_sets import words_of_mask
from magnetar.storage.managed.ack_state import AckRange, AckState
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from pulsar_proto.ids import Position
from tests.rounds import rounds

BATCH = 70
"""How many indexes an entry has in these tests: more than fit one word."""


def ledgers_of(*sizes: int) -> LedgerList:
    """Returns ledgers 10, 20, 30 ... with these numbers of entries; the last one is current."""
    ledgers = LedgerList(
        LedgerInfo(10 * number, entries, entries * 10, 1) for number, entries in enumerate(sizes[:-1], 1)
    )
    ledgers.add(10 * len(sizes))
    if sizes[-1]:
        ledgers.grow(sizes[-1], sizes[-1] * 10)
    return ledgers


class Twin:
    """A twin that keeps one set of (entry, batch index) pairs still to be consumed, and walks over everything."""

    def __init__(self, ledgers: LedgerList) -> None:
        self.entries = [
            Position(info.ledger_id, entry)
            for info in ledgers.infos
            for entry in range((ledgers.last_entry(info.ledger_id) or 0) + 1)
            if ledgers.last_entry(info.ledger_id) != -1
        ]
        self.ledgers = {info.ledger_id for info in ledgers.infos}
        self.left = {position: set(range(BATCH)) for position in self.entries}

    def ack(self, position: Position, indexes: set[int]) -> None:
        if position in self.left:
            self.left[position] &= indexes

    def ack_before(self, position: Position) -> None:
        for entry in self.entries:
            if entry < position:
                self.left[entry] = set()

    def reset(self, position: Position) -> None:
        for entry in self.entries:
            self.left[entry] = set() if entry < position else set(range(BATCH))

    def is_acked(self, position: Position) -> bool:
        return not self.left[position]

    def partial(self) -> dict[tuple[int, int], int]:
        return {
            (entry.ledger_id, entry.entry_id): sum(1 << index for index in left)
            for entry, left in self.left.items()
            if 0 < len(left) < BATCH
        }

    def consumed_prefix(self) -> int:
        count = 0
        for entry in self.entries:
            if self.left[entry]:
                break
            count += 1
        return count


sizes = st.lists(st.integers(0, 9), min_size=1, max_size=4)
positions = st.builds(Position, st.sampled_from([0, 10, 20, 25, 30, 40, 50]), st.integers(-1, 10))
indexes = st.sets(st.integers(0, BATCH - 1), max_size=4) | st.just(set(range(0, BATCH, 2)))
steps = st.one_of(
    st.tuples(st.just("ack"), st.lists(st.tuples(positions, st.none() | indexes), min_size=1, max_size=6)),
    st.tuples(st.just("cumulative"), st.tuples(positions, st.none() | indexes)),
    st.tuples(st.just("reset"), st.tuples(positions, st.none() | indexes)),
)


def words(left: set[int] | None) -> list[int] | None:
    """Returns an ack set as clients send it: a set without indexes is all zeros, never an empty list."""
    return None if left is None else words_of_mask(sum(1 << index for index in left)) or [0]


def apply(state: AckState, twin: Twin, step: tuple[str, object]) -> None:
    kind, argument = step
    if kind == "ack":
        state.ack((p.ledger_id, p.entry_id, words(left)) for p, left in argument)  # type: ignore[attr-defined]
        for position, left in argument:  # type: ignore[attr-defined]
            twin.ack(position, left or set())
        return
    position, left = argument  # type: ignore[misc]
    if kind == "reset":
        state.reset(position, words(left))
        twin.reset(position)
        if left is not None and position.entry_id >= 0:
            twin.ack(position, left)
        return
    exists = position in twin.left
    state.ack_cumulative(position.ledger_id, position.entry_id, words(left))
    if exists:
        twin.ack_before(position)
        twin.ack(position, left or set())
    elif position.ledger_id in twin.ledgers:
        later = any(entry.ledger_id > position.ledger_id for entry in twin.entries)
        if position.entry_id < 0 or later:
            twin.ack_before(position)


def check(state: AckState, twin: Twin, ledgers: LedgerList) -> None:
    for entry in twin.entries:
        assert state.is_acked(*entry) == twin.is_acked(entry), entry
    assert state.partial == twin.partial()
    prefix = twin.consumed_prefix()
    assert ledgers.rank(state.mark_delete) == prefix, "the mark-delete stands as far forward as possible"
    assert state.acked_beyond == sum(map(twin.is_acked, twin.entries)) - prefix
    for entry in [Position(0, 0), *twin.entries]:
        expected = next((e for e in twin.entries if e >= entry and not twin.is_acked(e)), None)
        found = state.next_unacked(entry)
        if expected is None:
            assert ledgers.at_or_after(found) is None
        else:
            assert found == expected
        if entry >= state.first_beyond:
            assert state.acked_from(*entry) == sum(e >= entry and twin.is_acked(e) for e in twin.entries), entry
    acked = {Position(r.ledger_id, e) for r in state.ranges() for e in range(r.first, r.last + 1)}
    assert acked == {e for e in twin.entries[prefix:] if twin.is_acked(e)}
    assert state.number_of_ranges == len(list(state.ranges()))


@given(sizes, st.lists(steps, max_size=12))
@settings(max_examples=rounds(150), deadline=None)
def test_agrees_with_a_set_of_everything_unconsumed(sizes: list[int], steps: list[tuple[str, object]]) -> None:
    ledgers = ledgers_of(*sizes)
    state, twin = AckState(ledgers, Position(-1, -1)), Twin(ledgers)
    for step in steps:
        apply(state, twin, step)
        check(state, twin, ledgers)


@given(sizes, st.lists(steps, max_size=8))
@settings(max_examples=rounds(60), deadline=None)
def test_a_restored_state_says_the_same(sizes: list[int], steps: list[tuple[str, object]]) -> None:
    ledgers = ledgers_of(*sizes)
    state, twin = AckState(ledgers, Position(-1, -1)), Twin(ledgers)
    for step in steps:
        apply(state, twin, step)
    again = AckState(ledgers, state.mark_delete)
    again.restore(dict(state.bitmaps()), [(Position(*key), words_of_mask(mask)) for key, mask in state.partial.items()])
    check(again, twin, ledgers)


@given(sizes, st.lists(steps, max_size=8), st.integers(0, 9), st.integers(1, 10))
@settings(max_examples=rounds(60), deadline=None)
def test_unacked_runs_name_exactly_the_unacked(
    sizes: list[int], steps: list[tuple[str, object]], first: int, count: int
) -> None:
    ledgers = ledgers_of(*sizes)
    state, twin = AckState(ledgers, Position(-1, -1)), Twin(ledgers)
    for step in steps:
        apply(state, twin, step)
    for ledger_id in (10, 20):
        runs = state.unacked_runs(ledger_id, first, count)
        named = [start + offset for start, length in runs for offset in range(length)]
        assert named == [e for e in range(first, first + count) if not state.is_acked(ledger_id, e)]
        assert all(a + n < b for (a, n), (b, _) in pairwise(runs)), "runs are as long as possible"


@given(sizes, st.lists(steps, max_size=8))
@settings(max_examples=rounds(60), deadline=None)
def test_the_mark_delete_never_goes_back_but_by_reset(sizes: list[int], steps: list[tuple[str, object]]) -> None:
    ledgers = ledgers_of(*sizes)
    state, twin = AckState(ledgers, Position(-1, -1)), Twin(ledgers)
    for step in steps:
        before = state.mark_delete
        apply(state, twin, step)
        assert step[0] == "reset" or state.mark_delete >= before


def test_acking_the_hole_moves_the_mark_delete_over_the_end_of_a_ledger() -> None:
    state = AckState(ledgers_of(3, 0, 2, 5), Position(10, -1))
    assert state.ack([(10, 1, None), (10, 2, None), (30, 0, None), (30, 1, None), (40, 0, None)]) == 5
    assert state.mark_delete == (10, -1)
    assert state.ack([(10, 0, None)]) == 1
    assert state.mark_delete == (40, 0)
    assert state.is_plain


def test_the_mark_delete_stays_at_the_end_of_a_ledger_until_the_next_one_is_acked() -> None:
    state = AckState(ledgers_of(2, 2), Position(10, -1))
    state.ack_cumulative(10, 1)
    assert state.mark_delete == (10, 1)
    state.ack([(20, 1, None)])
    assert state.mark_delete == (10, 1)
    assert list(state.ranges()) == [AckRange(20, 1, 1)]


def test_ack_sets_are_anded_and_cut_zero_words_mean_acked() -> None:
    state = AckState(ledgers_of(1), Position(10, -1))
    assert state.ack([(10, 0, [-1, 0b111])]) == 0
    assert state.ack_set_of(10, 0) == [-1, 0b111]
    assert state.ack([(10, 0, [0b101])]) == 0
    assert state.ack_set_of(10, 0) == [0b101]
    revision = state.revision
    assert state.ack([(10, 0, [-1])]) == 0
    assert state.revision == revision, "nothing new: nothing to store"
    assert state.ack([(10, 0, [0b010])]) == 1
    assert state.mark_delete == (10, 0)
    assert state.ack_set_of(10, 0) is None


def test_a_cumulative_ack_within_a_batch_stops_before_the_entry() -> None:
    state = AckState(ledgers_of(2, 3), Position(10, -1))
    assert state.ack_cumulative(20, 0, [0b1100])
    assert state.mark_delete == (10, 1), "the entry before, in the ledger before"
    assert state.ack_set_of(20, 0) == [0b1100]
    assert not state.ack_cumulative(20, 0, [0b1110])
    assert state.ack_cumulative(20, 0)
    assert state.mark_delete == (20, 0)


def test_positions_that_do_not_exist_are_ignored() -> None:
    state = AckState(ledgers_of(2, 2), Position(10, -1))
    assert state.ack([(10, 2, None), (20, 2, None), (15, 0, None), (99, 0, None), (20, -1, None)]) == 0
    assert not state.ack_cumulative(20, 7)
    assert not state.ack_cumulative(99, 0)
    assert state.revision == 0


def test_deleted_ledgers_are_forgotten_and_what_follows_is_joined() -> None:
    ledgers = ledgers_of(2, 2, 2)
    state = AckState(ledgers, Position(10, -1))
    state.ack([(10, 1, None), (20, 0, None), (20, 1, [1])])
    ledgers.remove({10})
    state.forget_before(20)
    assert state.mark_delete == (20, 0)
    assert state.acked_beyond == 0
    assert state.ack_set_of(20, 1) == [1]


@pytest.mark.parametrize(("target", "expected"), [((20, 1), (20, 0)), ((20, 0), (10, 1)), ((5, 0), (5, -1))])
def test_reset_puts_the_mark_delete_before_the_target(target: tuple[int, int], expected: tuple[int, int]) -> None:
    state = AckState(ledgers_of(2, 2), Position(20, 1))
    state.reset(Position(*target))
    assert state.mark_delete == expected
