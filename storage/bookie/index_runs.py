"""Runs: the index has one record for a whole block of an entry log, and not one record for each entry. No I/O here.

A run is an interval of entry ids and the block that holds them. Two invariants make one look-up enough to find an
entry: the intervals of a ledger never overlap, and every stored id in an interval is in that run's block, so an id of
the interval that the block lacks does not exist. Therefore an entry is in the block of the last run that begins at or
before the entry's id, or the entry does not exist.

A new block may bring ids between or among the ids of older runs: copies by re-replication, or entries that were added
again. `overlay` keeps the invariants by cutting the older runs:

    older run     0 ─────────────────── 9  block A      (all ids from 0 to 9)
    new block           3 ── 4                block B
    index         0 ─ 2 3 ── 4 5 ────── 9      A, B, A    (A's 3 and 4 are not found any more)
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class IndexRun(NamedTuple):
    """Entry ids `first` to `last` (inclusive) are in the block of `length` bytes at `offset` of log `log_id`."""

    first: int
    last: int
    log_id: int
    offset: int
    length: int
    dense: bool
    """Whether the block holds every id of the interval."""

    def is_of(self, block: "IndexRun") -> bool:
        """Returns whether this run points to the same block as `block`."""
        return self.offset == block.offset and self.log_id == block.log_id

    def part(self, first: int, last: int, count: int) -> "IndexRun":
        """Returns a run of the same block over a narrower interval. The block holds `count` ids of this interval."""
        return IndexRun(first, last, self.log_id, self.offset, self.length, last - first + 1 == count)


IdsOf = Callable[[IndexRun], Sequence[int]]
"""A function that returns the ids in a run's block, ascending. `overlay` calls it only for runs with gaps, since the
function has to read the block."""


def overlay(existing: Sequence[IndexRun], new: IndexRun, new_ids: Sequence[int], ids_of: IdsOf) -> list[IndexRun]:
    """Returns the runs, ascending, that replace `existing` when the new block with `new_ids` is laid over them. If an
    older run and the new block have an id in common, the new block's entry counts.

    `existing` holds all runs of the ledger that share ids with the interval from `new.first` to `new.last`, ascending.
    """
    if not existing:
        return [new]
    pieces: list[IndexRun] = []
    for run in existing:
        pieces.extend(_cut(run, new_ids, ids_of))
    result: list[IndexRun] = []
    start = 0
    for piece in pieces:
        end = bisect_left(new_ids, piece.first, start)
        if end > start:
            result.append(new.part(new_ids[start], new_ids[end - 1], end - start))
        result.append(piece)
        start = end
    if start < len(new_ids):
        result.append(new.part(new_ids[start], new_ids[-1], len(new_ids) - start))
    return result


def _cut(run: IndexRun, new_ids: Sequence[int], ids_of: IdsOf) -> list[IndexRun]:
    """Returns the parts of a run that remain beside the new ids: one for each stretch of the run's own ids between two
    new ids."""
    inside = new_ids[bisect_left(new_ids, run.first) : bisect_right(new_ids, run.last)]
    ids = range(run.first, run.last + 1) if run.dense else ids_of(run)
    low, high = bisect_left(ids, run.first), bisect_right(ids, run.last)
    pieces: list[IndexRun] = []
    for new_id in inside:
        end = bisect_left(ids, new_id, low, high)
        if end > low:
            pieces.append(run.part(ids[low], ids[end - 1], end - low))
        low = bisect_right(ids, new_id, end, high)
    if high > low:
        pieces.append(run.part(ids[low], ids[high - 1], high - low))
    return pieces


def ranges_of(ids: Iterable[int]) -> list[range]:
    """Returns ascending ids as ranges of consecutive ids."""
    found: list[range] = []
    for entry_id in ids:
        if found and found[-1].stop == entry_id:
            found[-1] = range(found[-1].start, entry_id + 1)
        else:
            found.append(range(entry_id, entry_id + 1))
    return found


def union_of(ranges: Iterable[range]) -> list[range]:
    """Returns the ids of ranges that may overlap, in any order, as ascending ranges that neither overlap nor touch."""
    found: list[range] = []
    for each in sorted(ranges, key=lambda one: one.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return found
