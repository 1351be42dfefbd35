"""Which entries of a topic partition a trigger takes, and how they are shared out over tasks: pure arithmetic.

A partition's ledgers come from the admin interface's `internalStats`; without it only a range inside one ledger can be
cut, because entry ids are gap-free inside a ledger and nothing is known across ledgers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound, Range


@dataclass(frozen=True, slots=True)
class LedgerRun:
    """Entries `first` to `last` (both in) of one ledger, of `entry_bytes` on average (0: unknown)."""

    ledger: int
    first: int
    last: int
    entry_bytes: float

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


def runs_of(stats: Mapping[str, Any]) -> list[LedgerRun]:
    """All ledgers of `internalStats`, in order. The open one's numbers are the `currentLedger…` fields."""
    infos = sorted(stats["ledgers"], key=lambda info: int(info["ledgerId"]))
    runs = []
    for number, info in enumerate(infos, start=1):
        is_open = number == len(infos)
        entries = int(stats["currentLedgerEntries"] if is_open else info["entries"])
        size = int(stats["currentLedgerSize"] if is_open else info["size"])
        if is_open and entries <= 0:  # a ledger that was closed and not yet followed by an open one
            entries, size = int(info["entries"]), int(info["size"])
        if entries > 0:
            runs.append(LedgerRun(int(info["ledgerId"]), 0, entries - 1, size / entries))
    return runs


def clip(runs: Iterable[LedgerRun], wanted: Range) -> list[LedgerRun]:
    """The parts of the runs that hold messages of `wanted`; an entry that is cut through belongs to it."""
    clipped = []
    first_ledger, first_entry = wanted.after.ledger, wanted.after.entry + (wanted.after.batch_index == WHOLE_ENTRY)
    for run in runs:
        first = max(run.first, first_entry) if run.ledger == first_ledger else run.first
        last = min(run.last, wanted.upto.entry) if run.ledger == wanted.upto.ledger else run.last
        if first_ledger <= run.ledger <= wanted.upto.ledger and first <= last:
            clipped.append(LedgerRun(run.ledger, first, last, run.entry_bytes))
    return clipped


def take(runs: Sequence[LedgerRun], wanted: Range, entries_max: int | None, bytes_max: int | None) -> Bound:
    """The end of what fits: whole entries, at least one, never beyond `wanted`."""
    entries_left = float("inf") if entries_max is None else max(1, entries_max)
    bytes_left = float("inf") if bytes_max is None else float(bytes_max)
    end = wanted.after
    for run in clip(runs, wanted):
        fitting = min(entries_left, bytes_left / run.entry_bytes if run.entry_bytes > 0 else entries_left)
        if fitting >= run.entries:
            end = Bound(run.ledger, run.last)
            entries_left -= run.entries
            bytes_left -= run.entries * run.entry_bytes
            continue
        whole = int(fitting)
        if whole == 0 and end == wanted.after:
            whole = 1
        if whole:
            end = Bound(run.ledger, run.first + whole - 1)
        break
    return min(end, wanted.upto) if end > wanted.after else wanted.upto


def split(runs: Sequence[LedgerRun], wanted: Range, pieces: int, bytes_max: int | None) -> list[Range]:
    """`wanted` in at least `pieces` parts where there are entries enough, none above about `bytes_max` bytes.

    The parts follow each other without gap, whatever the runs say: what they do not know falls into a neighbour.
    """
    inside = clip(runs, wanted)
    entries = sum(run.entries for run in inside)
    if entries < 2:
        return [wanted]
    size = sum(run.entries * run.entry_bytes for run in inside)
    if bytes_max:
        pieces = max(pieces, -(-int(size) // bytes_max))
    pieces = min(pieces, entries)
    cuts: list[Bound] = []
    done = 0
    for run in inside:
        while len(cuts) < pieces - 1:
            target = entries * (len(cuts) + 1) // pieces
            if target > done + run.entries:
                break
            cuts.append(Bound(run.ledger, run.first + target - done - 1))
        done += run.entries
    borders = [wanted.after, *cuts, wanted.upto]
    return [Range(after, upto) for after, upto in pairwise(borders) if after < upto]


def first_mean(sizes: Sequence[int], count_max: int, bytes_max: int) -> float:
    """Of the first `count_max` sizes or `bytes_max` bytes, whichever is less, however many more came; 0 of none."""
    total = count = 0
    for size in sizes[:count_max]:
        total, count = total + size, count + 1
        if total >= bytes_max:
            break
    return total / count if count else 0.0


def one_ledger(wanted: Range) -> list[LedgerRun]:
    """What is known without the admin interface: the entries of a range that lies in one ledger."""
    after, upto = wanted.after, wanted.upto
    if after.ledger != upto.ledger or after.is_before_all:
        return []
    first = after.entry + (after.batch_index == WHOLE_ENTRY)
    return [LedgerRun(after.ledger, first, upto.entry, 0)] if first <= upto.entry else []
