"""What auto-recovery decides about ledgers: fragments, copies, targets, records, pauses."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.ledger.fragment_rules import fragment_of
from magnetar.storage.ledger.ledger_errors import MetadataVersion, NotEnoughBookies
from magnetar.storage.ledger.placement_rules import AnyBookies
from magnetar.storage.ledger.quorum_rules import holds
from magnetar.storage.repair.placement_check_rules import badly_placed, is_spread
from magnetar.storage.repair.repair_rules import (
    CopyPacer,
    DamagedFragment,
    LedgerFragment,
    NextStep,
    delay_to_check,
    entries_to_verify,
    fragments_of,
    holders_of,
    next_step,
    stored_range,
    targets_of,
    with_replaced,
)
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState


def ledger(
    *ensembles: tuple[int, tuple[str, ...]], last: int | None = None, write_quorum: int = 2, ack_quorum: int = 2
) -> LedgerMetadata:
    """Makes the metadata of a ledger that is closed at `last`, or open when there is no `last`."""
    return LedgerMetadata(
        ledger_id=7,
        ensemble_size=len(ensembles[0][1]),
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        ensembles=ensembles,
        state=LedgerState.OPEN if last is None else LedgerState.CLOSED,
        last_entry_id=-1 if last is None else last,
        ctoken=99,
    )


ABC, ABD = ("a", "b", "c"), ("a", "b", "d")


def test_a_closed_ledger_has_closed_fragments() -> None:
    assert fragments_of(ledger((0, ABC), (5, ABD), last=9), 9) == [
        LedgerFragment(0, 4, ABC, True),
        LedgerFragment(5, 9, ABD, True),
    ]


def test_a_last_fragment_without_entries_is_closed_too() -> None:
    assert fragments_of(ledger((0, ABC), (5, ABD), last=4), 4) == [
        LedgerFragment(0, 4, ABC, True),
        LedgerFragment(5, 4, ABD, True),
    ]
    assert fragments_of(ledger((0, ABC), last=-1), -1) == [LedgerFragment(0, -1, ABC, True)]


def test_of_an_open_ledger_only_confirmed_parts_are_closed() -> None:
    metadata = ledger((0, ABC), (5, ABD))
    assert fragments_of(metadata, 4) == [LedgerFragment(0, 4, ABC, True), LedgerFragment(5, 4, ABD, False)]
    assert fragments_of(metadata, 3) == [LedgerFragment(0, 3, ABC, False), LedgerFragment(5, 3, ABD, False)]
    assert fragments_of(metadata, 8) == [LedgerFragment(0, 4, ABC, True), LedgerFragment(5, 8, ABD, False)]


SHAPES = st.integers(1, 5).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size)))


@given(SHAPES, st.integers(0, 50), st.integers(-1, 20), st.integers(0, 100))
def test_what_a_member_must_have_is_what_its_write_sets_say(
    shape: tuple[int, int], first: int, count: int, percentage: int
) -> None:
    size, write_quorum = shape
    fragment = LedgerFragment(first, first + count - 1, tuple(f"b{n}" for n in range(size)), True)
    for index in range(size):
        held = [e for e in range(first, first + count) if holds(index, e, size, write_quorum)]
        stored = stored_range(fragment, index, write_quorum)
        assert stored == ((held[0], held[-1]) if held else None)
        verified = entries_to_verify(fragment, index, write_quorum, percentage)
        assert set(verified) <= set(held)
        assert {held[0], held[-1]} <= set(verified) if held else not verified
        assert len(verified) >= len(held) * percentage // 100
        for entry in held:
            assert index in holders_of(fragment, entry, range(size), write_quorum)


MEMBERS = ("b0", "b1", "b2")


@given(
    st.sets(st.integers(0, 2), min_size=1),
    st.sets(st.sampled_from([f"b{n}" for n in range(7)])),
    st.sets(st.sampled_from([f"b{n}" for n in range(7)])),
    st.integers(0, 9),
)
def test_targets_are_bookies_that_take_writes_and_keep_the_members_different(
    indices: set[int], writable: set[str], without: set[str], seed: int
) -> None:
    damaged = DamagedFragment(LedgerFragment(0, 9, MEMBERS, True), {index: MEMBERS[index] for index in indices})
    try:
        placed = AnyBookies(lambda: sorted(writable), Random(seed)).replace(MEMBERS, damaged.missing, 2, without)
    except NotEnoughBookies:
        placed = MEMBERS
    targets = targets_of(damaged, placed, writable, without=without)
    after = [targets.get(index, bookie) for index, bookie in enumerate(MEMBERS)]
    assert len(set(after)) == 3
    assert set(targets) <= indices
    assert set(targets.values()) <= writable - without
    spare = writable - without - set(MEMBERS)
    assert len(set(targets.values()) & spare) == min(len(spare), len(indices)), "another bookie where there is one"
    for index in indices - set(targets):
        assert MEMBERS[index] not in writable - without


def test_the_record_names_the_new_members_of_that_part_only() -> None:
    metadata = ledger((0, ABC), (5, ABC), last=9)
    changed = with_replaced(metadata, 0, {1: ("b", "x")})
    assert changed is not None
    assert changed.ensembles == ((0, ("a", "x", "c")), (5, ABC))
    assert changed.ctoken == 0
    assert fragment_of(changed, 5).members == ABC
    assert (changed.last_entry_id, changed.state) == (9, LedgerState.CLOSED)


def test_what_was_written_already_or_healed_in_place_is_not_written() -> None:
    metadata = ledger((0, ("a", "x", "c")), last=9)
    assert with_replaced(metadata, 0, {1: ("b", "x")}) is None
    assert with_replaced(metadata, 0, {1: ("x", "x")}) is None


@pytest.mark.parametrize(
    ("ensembles", "what"),
    [(((0, ("a", "y", "c")),), "changed"), (((0, ("x", "b", "c")),), "changed"), (((3, ABC),), "gone")],
)
def test_another_change_of_the_part_makes_the_copies_vain(
    ensembles: tuple[tuple[int, tuple[str, ...]], ...], what: str
) -> None:
    with pytest.raises(MetadataVersion, match=what):
        with_replaced(ledger(*ensembles, last=9), 0, {1: ("b", "x")})


def test_a_healed_ledger_is_done_and_a_failed_one_is_tried_again() -> None:
    closed = ledger((0, ABC), last=9)
    fragment = LedgerFragment(0, 9, ABC, True)
    assert next_step(closed, [], {"a", "b", "c"}) is NextStep.DONE
    assert next_step(closed, [DamagedFragment(fragment, {0: "a"})], {"b", "c"}) is NextStep.RETRY


def test_an_open_end_without_one_of_its_bookies_waits_for_its_writer() -> None:
    metadata = ledger((0, ABC), (5, ABD))
    assert next_step(metadata, [], {"a", "b", "d"}) is NextStep.DONE, "its writer goes on"
    assert next_step(metadata, [], {"a", "b", "c"}) is NextStep.AWAIT_WRITER
    unconfirmed = DamagedFragment(LedgerFragment(0, 3, ABC, False), {2: "c"})
    assert next_step(metadata, [unconfirmed], {"a", "b", "d"}) is NextStep.AWAIT_WRITER


def test_a_periodic_check_is_due_an_interval_after_the_last() -> None:
    assert delay_to_check(60, None, 1000) == 0
    assert delay_to_check(60, 1000, 31_000) == 30
    assert delay_to_check(60, 1000, 99_000) == 0
    assert delay_to_check(60, 5000, 1000) == 0, "a clock that went back must not put it off for ever"


@given(st.lists(st.tuples(st.integers(0, 10_000), st.floats(0, 5)), min_size=1), st.integers(1, 100_000))
def test_the_pacer_never_goes_above_its_rate(steps: list[tuple[int, float]], rate: int) -> None:
    pacer = CopyPacer(rate)
    now, sent = 0.0, 0
    for size, idle in steps:
        now += idle + pacer.spend(size, now + idle)
        sent += size
        assert sent <= rate * now * 1.000001 + 1e-6
    assert CopyPacer(-1).spend(1 << 30, 0.0) == 0


RACKS = {"a": "/r1", "b": "/r1", "c": "/r2", "d": "/r2"}


def test_a_write_set_in_one_rack_is_badly_placed() -> None:
    assert is_spread(("a", "c", "b", "d"), 2, RACKS, 2)
    assert not is_spread(("a", "b", "c", "d"), 2, RACKS, 2)
    assert is_spread(("a", "b", "c", "d"), 2, RACKS, 1)
    assert is_spread(("a",), 1, {}, 2), "one copy cannot be in two racks"
    metadata = ledger((0, ("a", "c")), (5, ("a", "b")), last=9)
    assert badly_placed(metadata, RACKS, 2) == [5]
