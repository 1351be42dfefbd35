"""How ranges are capped and split, compared with a model that lists every entry."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from magnetar.spark.source.ranges.planning_rules import (
    PART_BYTES_MIN,
    LedgerRun,
    clip,
    parts_for,
    runs_of,
    split,
    take,
)

Sizes = st.lists(st.integers(1, 20), min_size=1, max_size=5)


def ledgers(sizes: list[int]) -> list[LedgerRun]:
    return [LedgerRun(10 + 3 * number, 0, size - 1, 100.0) for number, size in enumerate(sizes)]


def entries(runs: list[LedgerRun]) -> list[Bound]:
    return [Bound(run.ledger, entry) for run in runs for entry in range(run.first, run.last + 1)]


@st.composite
def topics(draw: st.DrawFn) -> tuple[list[LedgerRun], Range]:
    runs = ledgers(draw(Sizes))
    ids = [BEFORE_ALL, *entries(runs)]
    first, last = sorted(draw(st.tuples(*[st.integers(0, len(ids) - 1)] * 2)))
    return runs, Range(ids[first], ids[last])


def inside(runs: list[LedgerRun], wanted: Range) -> list[Bound]:
    return [each for each in entries(runs) if wanted.after < each <= wanted.upto]


@given(topics())
def test_clipping_keeps_exactly_the_entries_of_the_range(case: tuple[list[LedgerRun], Range]) -> None:
    runs, wanted = case
    assert entries(clip(runs, wanted)) == inside(runs, wanted)


@given(topics(), st.integers(1, 5000))
def test_a_byte_limit_is_kept_but_always_lets_one_entry_through(
    case: tuple[list[LedgerRun], Range], limit: int
) -> None:
    runs, wanted = case
    taken = inside(runs, Range(wanted.after, take(runs, wanted, limit)))
    assert taken == inside(runs, wanted)[: max(1, limit // 100)]


@given(topics(), st.integers(1, 30), st.none() | st.integers(50, 3000))
def test_tasks_cover_the_range_once_and_in_order(
    case: tuple[list[LedgerRun], Range], pieces: int, bytes_max: int | None
) -> None:
    runs, wanted = case
    parts = split(runs, wanted, pieces, bytes_max)
    assert parts[0].after == wanted.after
    assert parts[-1].upto == wanted.upto
    assert all(left.upto == right.after for left, right in pairwise(parts))
    members = [inside(runs, part) for part in parts]
    assert [each for part in members for each in part] == inside(runs, wanted)
    count = len(inside(runs, wanted))
    if count >= 2:
        assert all(members)
        assert len(parts) >= min(pieces, count)
        assert max(map(len, members)) - min(map(len, members)) <= 1


def test_the_open_ledgers_numbers_are_the_current_ones() -> None:
    stats = {
        "ledgers": [
            {"ledgerId": 9, "entries": 0, "size": 0},
            {"ledgerId": 4, "entries": 10, "size": 1000},
            {"ledgerId": 5, "entries": 0, "size": 0},
        ],
        "currentLedgerEntries": 3,
        "currentLedgerSize": 90,
    }
    assert runs_of(stats) == [LedgerRun(4, 0, 9, 100.0), LedgerRun(9, 0, 2, 30.0)]


def test_a_cut_inside_a_batch_belongs_to_the_entry_that_it_cuts() -> None:
    runs = [LedgerRun(1, 0, 9, 1.0)]
    assert entries(clip(runs, Range(Bound(1, 2, 5), Bound(1, 4, 0)))) == [Bound(1, 2), Bound(1, 3), Bound(1, 4)]


@given(topics(), st.integers(0, 30))
def test_entries_are_divided_among_the_cores_when_there_are_enough_of_them(
    case: tuple[list[LedgerRun], Range], cores: int
) -> None:
    runs, wanted = case
    large = [replace(run, entry_bytes=PART_BYTES_MIN / 2) for run in clip(runs, wanted)]
    count = len(inside(runs, wanted))
    parts = parts_for(cores, large)
    assert parts == max(1, min(cores, count // 2))
    assert len(split(large, wanted, parts, None)) == parts
    assert parts_for(cores, clip(runs, wanted)) == 1
    assert parts_for(cores, [replace(run, entry_bytes=0.0) for run in large]) == 1
