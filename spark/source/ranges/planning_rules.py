"""The planner's arithmetic: which entries of a topic partition a trigger takes, and how they are divided among tasks.

A partition's ledgers come from the admin interface's `internalStats`. Without `internalStats`, only a range inside one
ledger can be split, because entry ids have no gaps inside a ledger and nothing is known across ledgers.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from magnetar.spark.source.ranges.bounds import WHOLE_ENTRY, Bound, Range

PART_BYTES_MIN = 4 * 1024 * 1024
"""A range is not divided among cores into parts smaller than this, which is Spark's measure for files, too
(`spark.sql.files.openCostInBytes`): to begin a task costs as much as to read so many bytes."""


@dataclass(frozen=True, slots=True)
class LedgerRun:
    """The entries `first` to `last` of one ledger, both included. The entries have `entry_bytes` bytes on average; 0
    means that their size is unknown."""

    ledger: int
    first: int
    last: int
    entry_bytes: float

    @property
    def entries(self) -> int:
        return self.last - self.first + 1


def runs_of(stats: Mapping[str, Any]) -> list[LedgerRun]:
    """Returns all ledgers of `internalStats` that hold entries, in order. The numbers of the open ledger, which is the
    last one, are in the fields `currentLedger…`."""
    infos = sorted(stats["ledgers"], key=lambda info: int(info["ledgerId"]))
    runs = []
    for number, info in enumerate(infos, start=1):
        is_open = number == len(infos)
        entries = int(stats["currentLedgerEntries"] if is_open else info["entries"])
        size = int(stats["currentLedgerSize"] if is_open else info["size"])
        if is_open and entries <= 0:  # the last ledger is closed already, and the next one is not open yet
            entries, size = int(info["entries"]), int(info["size"])
        if entries > 0:
            runs.append(LedgerRun(int(info["ledgerId"]), 0, entries - 1, size / entries))
    return runs


def clip(runs: Iterable[LedgerRun], wanted: Range) -> list[LedgerRun]:
    """Returns the parts of the runs that hold messages of `wanted`. An entry of which only some messages are wanted is
    included."""
    clipped = []
    first_ledger, first_entry = wanted.after.ledger, wanted.after.entry + (wanted.after.batch_index == WHOLE_ENTRY)
    for run in runs:
        first = max(run.first, first_entry) if run.ledger == first_ledger else run.first
        last = min(run.last, wanted.upto.entry) if run.ledger == wanted.upto.ledger else run.last
        if first_ledger <= run.ledger <= wanted.upto.ledger and first <= last:
            clipped.append(LedgerRun(run.ledger, first, last, run.entry_bytes))
    return clipped


def take(runs: Sequence[LedgerRun], wanted: Range, bytes_max: int) -> Bound:
    """Returns the end of as many whole entries of `wanted` as fit into `bytes_max` by the mean sizes of the runs. At
    least one entry is taken, and the end is never beyond `wanted`. When no run holds an entry of `wanted`, all of
    `wanted` is taken."""
    bytes_left = float(bytes_max)
    end = wanted.after
    for run in clip(runs, wanted):
        fitting = bytes_left / run.entry_bytes if run.entry_bytes > 0 else run.entries
        if fitting >= run.entries:
            end = Bound(run.ledger, run.last)
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
    """Splits `wanted` into parts of at most about `bytes_max` bytes each, and into at least `pieces` parts if the runs
    hold that many entries of `wanted`.

    The parts follow each other without a gap, whatever the runs say: an entry that is in none of the runs belongs to
    the part around the entry.
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


def parts_for(cores: int, runs: Iterable[LedgerRun]) -> int:
    """Returns into how many parts the entries of the runs are divided to keep so many cores busy: at most one for each
    core, of at least PART_BYTES_MIN bytes. Entries of unknown size stay together."""
    size = sum(run.entries * run.entry_bytes for run in runs)
    return max(1, min(cores, int(size // PART_BYTES_MIN)))


def first_mean(sizes: Sequence[int], count_max: int, bytes_max: int) -> float:
    """Returns the mean of the first `count_max` sizes, or the mean of as many sizes as reach `bytes_max` bytes, if
    these are fewer. So the mean does not depend on how many sizes there are beyond that. Returns 0 when there are no
    sizes."""
    total = count = 0
    for size in sizes[:count_max]:
        total, count = total + size, count + 1
        if total >= bytes_max:
            break
    return total / count if count else 0.0


def one_ledger(wanted: Range) -> list[LedgerRun]:
    """Returns the runs that are known without the admin interface: the entries of a range that lies inside one ledger,
    otherwise none."""
    after, upto = wanted.after, wanted.upto
    if after.ledger != upto.ledger or after.is_before_all:
        return []
    first = after.entry + (after.batch_index == WHOLE_ENTRY)
    return [LedgerRun(after.ledger, first, upto.entry, 0)] if first <= upto.entry else []
