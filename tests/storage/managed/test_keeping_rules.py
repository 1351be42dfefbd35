"""What keeps ledgers from being deleted: each keeper by name, and that the explanation is what trimming goes by."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.managed.keeping_rules import (
    CURSORS_TOLD_MAX,
    KeptBy,
    KeptLedger,
    Need,
    Trim,
    choose_trim,
    explained,
)
from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.managed_ledger_config import MEBIBYTE, ManagedLedgerConfig
from pulsar_proto.ids import Position
from tests.rounds import rounds

CONFIG = ManagedLedgerConfig()
MINUTE_MS = 60_000
NOW_MS = 1_000 * MINUTE_MS


def three_and_current(entries: int = 4) -> LedgerList:
    """Returns ledgers 1, 2, 3 of 4 entries and 1 MiB, closed 30, 20 and 10 minutes ago; ledger 4 is open."""
    ledgers = LedgerList(LedgerInfo(n, 4, MEBIBYTE, NOW_MS - (40 - 10 * n) * MINUTE_MS) for n in (1, 2, 3))
    ledgers.add(4)
    if entries:
        ledgers.grow(entries, MEBIBYTE)
    return ledgers


def needs_of(slowest: Position | None) -> list[Need]:
    return [] if slowest is None else [Need("s", slowest), Need("fast", Position(99, 0))]


def trim(slowest: Position | None, minutes: int = 0, megabytes: int = 0) -> Trim:
    config = replace(CONFIG, retention_time_minutes=minutes, retention_size_mb=megabytes)
    return choose_trim(config, three_and_current(), needs_of(slowest), NOW_MS)


def held_by(trim: Trim) -> str | None:
    return None if trim.keeper is None else str(trim.keeper)


@pytest.mark.parametrize(
    ("slowest", "expected"),
    [
        (Position(1, -1), ()),
        (Position(1, 2), ()),
        (Position(1, 3), (1,)),
        (Position(2, 0), (1,)),
        (Position(2, 3), (1, 2)),
        (Position(4, 3), (1, 2, 3)),
        (Position(0, 7), ()),
        (None, (1, 2, 3)),
    ],
)
def test_without_retention_everything_that_the_slowest_cursor_passed_goes(
    slowest: Position | None, expected: tuple[int, ...]
) -> None:
    assert trim(slowest).ledger_ids == expected


@pytest.mark.parametrize(("minutes", "expected"), [(-1, ()), (5, (1, 2, 3)), (15, (1, 2)), (30, ()), (29, (1,))])
def test_retention_by_time_counts_from_the_close_of_the_ledger(minutes: int, expected: tuple[int, ...]) -> None:
    assert trim(None, minutes, -1).ledger_ids == expected


@pytest.mark.parametrize(("megabytes", "expected"), [(-1, ()), (4, ()), (3, (1,)), (2, (1, 2)), (1, (1, 2, 3))])
def test_retention_by_size_keeps_at_least_so_much(megabytes: int, expected: tuple[int, ...]) -> None:
    assert trim(None, -1, megabytes).ledger_ids == expected


def test_either_limit_of_retention_is_enough() -> None:
    assert trim(None, 1000, 3).ledger_ids == (1,)
    assert trim(None, 15, 1000).ledger_ids == (1, 2)
    assert trim(Position(2, 0), 15, 1000).ledger_ids == (1,), "but never what a cursor needs"


def test_what_holds_the_rest_is_said() -> None:
    assert held_by(trim(Position(1, 0))) == "cursor s"
    assert held_by(trim(None, -1, -1)) == "retention"
    assert held_by(trim(None)) == "current"
    nothing_open = LedgerList([LedgerInfo(1, 4, 10, NOW_MS)])
    assert held_by(choose_trim(CONFIG, nothing_open, [], NOW_MS)) == "last"
    assert choose_trim(CONFIG, nothing_open, needs_of(Position(1, 3)), NOW_MS) == Trim((1,), None)


def test_the_last_ledger_of_a_terminated_topic_stays_as_long_as_an_idle_open_one() -> None:
    end = Position(2, 3)

    def trim_after(minutes: int, slowest: Position | None = end) -> tuple[tuple[int, ...], str | None]:
        ledgers = LedgerList(LedgerInfo(n, 4, 10, NOW_MS) for n in (1, 2))
        found = choose_trim(CONFIG, ledgers, needs_of(slowest), NOW_MS + minutes * MINUTE_MS, terminated=end)
        return found.ledger_ids, held_by(found)

    assert trim_after(0) == trim_after(9) == ((1,), "end")
    assert trim_after(10) == ((1, 2), None)
    assert trim_after(1_000, None) == ((1,), "last"), "nobody has read it"


def test_every_ledger_is_told_with_all_that_keeps_it() -> None:
    config = replace(CONFIG, retention_time_minutes=15, retention_size_mb=100)
    needs = [Need("fast", Position(4, 0)), Need("slow", Position(2, 1)), Need("pulsar.dedup", Position(3, 0))]
    first, second, third, current = explained(config, three_and_current(), needs, NOW_MS)
    assert first.keepers == [], "old enough, and everybody has passed it"
    assert [str(each) for each in second.keepers] == ["cursor slow"]
    assert [str(each) for each in third.keepers] == ["cursor slow", "cursor pulsar.dedup", "retention"]
    assert third.keepers[-1].until_ms == NOW_MS + 5 * MINUTE_MS
    assert third.keepers[-1].bytes_missing == 99 * MEBIBYTE
    assert [str(each) for each in current.keepers][:2] == ["current", "cursor slow"]


def test_of_many_cursors_those_that_are_furthest_behind_are_told_and_the_others_counted() -> None:
    needs = [Need(f"s{number:02}", Position(1, 0) if number % 2 else Position(0, number)) for number in range(40)]
    first = explained(CONFIG, three_and_current(), needs, NOW_MS)[0]
    assert first.cursors == 40
    told = [keeper.need.name for keeper in first.keepers if keeper.need is not None]
    assert told == [f"s{number:02}" for number in range(0, 20, 2)]
    assert len(told) == CURSORS_TOLD_MAX


def test_a_ledger_that_only_an_earlier_one_keeps_names_it() -> None:
    ledgers = LedgerList(LedgerInfo(n, 4, 10, closed) for n, closed in ((5, NOW_MS), (6, 0)))
    config = replace(CONFIG, retention_time_minutes=10, retention_size_mb=-1)
    kept = explained(config, ledgers, needs_of(Position(9, 0)), NOW_MS)
    assert [str(each.keepers[0]) for each in kept] == ["retention", "earlier"]
    assert kept[1].keepers[0].earlier_id == 5


# --- the explanation and the deletion, on random lists ----------------------------------------------------------------

SIZES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 30)), min_size=1, max_size=6)
"""For each ledger: its entries, its MiB, and how many minutes ago it was closed."""
NEEDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-1, 8), st.integers(-1, 6)), max_size=4)


@st.composite
def situations(draw: st.DrawFn) -> "tuple[ManagedLedgerConfig, LedgerList, list[Need], Position | None]":
    infos = [
        LedgerInfo(number, entries, mebibytes * MEBIBYTE, NOW_MS - minutes * MINUTE_MS)
        for number, (entries, mebibytes, minutes) in enumerate(draw(SIZES), 1)
    ]
    ledgers = LedgerList(infos)
    terminated = None
    if draw(st.booleans()):
        ledgers.add(len(infos) + 1)
        ledgers.grow(draw(st.integers(0, 4)), 10)
    elif draw(st.booleans()):
        terminated = ledgers.last_confirmed
    config = replace(
        CONFIG,
        retention_time_minutes=draw(st.sampled_from([-1, 0, 5, 15])),
        retention_size_mb=draw(st.sampled_from([-1, 0, 1, 4])),
    )
    return config, ledgers, [Need(name, Position(*place)) for name, *place in draw(NEEDS)], terminated


@settings(max_examples=rounds(400), deadline=None)
@given(situations())
def test_what_nothing_keeps_is_what_trimming_takes_and_a_keeper_that_ends_keeps_nothing(
    situation: "tuple[ManagedLedgerConfig, LedgerList, list[Need], Position | None]",
) -> None:
    config, ledgers, needs, terminated = situation

    def explain(now_ms: int = NOW_MS, needs: Iterable[Need] = tuple(needs)) -> list[KeptLedger]:
        return explained(config, ledgers, needs, now_ms, terminated=terminated)

    def keepers(kept: Iterable[KeptLedger], ledger_id: int) -> list[str]:
        return next([str(each) for each in kept_.keepers] for kept_ in kept if kept_.info.ledger_id == ledger_id)

    def cursors(kept: Iterable[KeptLedger], ledger_id: int) -> int:
        return sum(name.startswith("cursor ") for name in keepers(kept, ledger_id))

    kept = explain()
    assert [each.info for each in kept] == list(ledgers.infos)
    free = [each.info.ledger_id for each in kept if not each.keepers]
    assert tuple(free) == choose_trim(config, ledgers, needs, NOW_MS, terminated=terminated).ledger_ids
    for each in kept:
        for keeper in each.keepers:
            ledger_id = each.info.ledger_id
            if keeper.until_ms is not None:
                assert keeper.by in keepers(explain(keeper.until_ms), ledger_id), "the last moment"
                assert keeper.by not in keepers(explain(keeper.until_ms + 1), ledger_id)
            if keeper.need is not None:
                after = Need(keeper.need.name, Position(ledger_id + 1, 0))
                moved = [after if need is keeper.need else need for need in needs]
                assert cursors(explain(needs=moved), ledger_id) == cursors(kept, ledger_id) - 1, "it has passed"
            if keeper.bytes_missing is not None:
                assert keeper.bytes_missing > 0
            if keeper.by is KeptBy.EARLIER:
                assert keepers(kept, keeper.earlier_id)
                assert keeper.earlier_id < ledger_id
