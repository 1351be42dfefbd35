"""Runs: what the index says of the entries of one ledger, one record for a whole block of an entry log. No I/O here.

A run is an interval of entry ids and the block that holds them. Two invariants make one look-up enough: the intervals
of a ledger never overlap, and every stored id in an interval is in that run's block (ids of the interval that the
block lacks do not exist). So a new block that brings ids between or among those of older runs, such as a copy by
re-replication or an entry added again, splits them: `overlay`.
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
    """The block holds every id of the interval."""

    def is_of(self, block: "IndexRun") -> bool:
        return self.offset == block.offset and self.log_id == block.log_id

    def part(self, first: int, last: int, count: int) -> "IndexRun":
        """The run of the same block over a narrower interval that holds `count` of its ids."""
        return IndexRun(first, last, self.log_id, self.offset, self.length, last - first + 1 == count)


IdsOf = Callable[[IndexRun], Sequence[int]]
"""The ids that the block of a run with gaps holds, ascending."""


def overlay(existing: Sequence[IndexRun], new: IndexRun, new_ids: Sequence[int], ids_of: IdsOf) -> list[IndexRun]:
    """The runs that replace `existing` when a block with `new_ids` comes on top; for an id in both the new one counts.

    `existing` are all runs of the ledger that share ids of the interval `new.first` to `new.last`, ascending. Ascending
    result.
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
    """What is left of a run: one piece for each stretch of its ids between two new ones."""
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
    """Ascending ids as ranges of consecutive ones."""
    found: list[range] = []
    for entry_id in ids:
        if found and found[-1].stop == entry_id:
            found[-1] = range(found[-1].start, entry_id + 1)
        else:
            found.append(range(entry_id, entry_id + 1))
    return found


def union_of(ranges: Iterable[range]) -> list[range]:
    """Ranges in any order, which may overlap, as ascending ones that neither overlap nor touch."""
    found: list[range] = []
    for each in sorted(ranges, key=lambda one: one.start):
        if found and each.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, each.stop))
        else:
            found.append(each)
    return found
