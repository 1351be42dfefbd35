"""Runs of entries as index records: gaps, repeated ids and bounds, compared with a simple twin."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.bookie.index_runs import IndexRun, overlay

BLOCKS = st.lists(st.sets(st.integers(0, 40), min_size=1, max_size=12), min_size=1, max_size=12)


class Twin:
    """Holds two indexes: a simple one with a place for each entry id, and the real one, a sorted list of runs."""

    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.blocks: dict[int, list[int]] = {}
        self.runs: list[IndexRun] = []

    def write(self, ids: Sequence[int]) -> None:
        block = len(self.blocks)
        self.blocks[block] = list(ids)
        self.places.update(dict.fromkeys(ids, block))
        new = IndexRun(ids[0], ids[-1], 1, block, 10, ids[-1] - ids[0] == len(ids) - 1)
        existing = [run for run in self.runs if run.first <= new.last and new.first <= run.last]
        kept = [run for run in self.runs if run not in existing]
        merged = overlay(existing, new, ids, lambda run: self.blocks[run.offset])
        assert merged == sorted(merged)
        self.runs = sorted(kept + merged)

    def find(self, entry_id: int) -> int | None:
        for run in self.runs:
            if run.first <= entry_id <= run.last:
                return run.offset if entry_id in self.blocks[run.offset] else None
        return None


@given(BLOCKS)
def test_every_id_is_found_in_the_block_that_wrote_it_last(blocks: list[set[int]]) -> None:
    twin = Twin()
    for ids in blocks:
        twin.write(sorted(ids))
        assert [twin.find(entry_id) for entry_id in range(42)] == [twin.places.get(entry_id) for entry_id in range(42)]


@given(BLOCKS)
def test_runs_never_overlap_and_know_whether_they_have_gaps(blocks: list[set[int]]) -> None:
    twin = Twin()
    for ids in blocks:
        twin.write(sorted(ids))
    for before, after in zip(twin.runs, twin.runs[1:], strict=False):
        assert before.last < after.first
    for run in twin.runs:
        inside = [i for i in twin.blocks[run.offset] if run.first <= i <= run.last]
        assert run.dense == (len(inside) == run.last - run.first + 1)
        assert inside[0] == run.first
        assert inside[-1] == run.last


def test_a_repeated_id_splits_the_older_run() -> None:
    old = IndexRun(0, 99, 1, 0, 5000, True)
    new = IndexRun(50, 50, 2, 32, 100, True)
    expected = [IndexRun(0, 49, 1, 0, 5000, True), new, IndexRun(51, 99, 1, 0, 5000, True)]
    assert overlay([old], new, [50], lambda run: []) == expected


def test_a_run_behind_the_last_one_needs_nothing() -> None:
    new = IndexRun(100, 120, 1, 5000, 800, True)
    assert overlay([], new, range(100, 121), lambda run: []) == [new]
