"""What auto-recovery decides about ledgers and time. No I/O, no clock.

Source: LedgerChecker, LedgerFragment, ReplicationWorker and Auditor of BookKeeper 4.17 (facts 7).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from magnetar.storage.ledger.ledger_errors import MetadataVersion
from magnetar.storage.ledger.quorum_rules import holds, write_set
from pulsar_proto.records.ledger_record import LedgerMetadata


class Part(NamedTuple):
    """A run of entries with one ensemble. `last` < `first`: it has none, as far as one can tell."""

    first: int
    last: int
    members: tuple[str, ...]
    is_closed: bool
    """No writer adds to it any more, and all its entries are confirmed."""


class Damaged(NamedTuple):
    """A part, and the members (by index) whose copies are missing."""

    part: Part
    missing: Mapping[int, str]


def parts_of(metadata: LedgerMetadata, last_add_confirmed: int) -> list[Part]:
    """A ledger's parts. One is closed when the ledger is, or when a later one follows and the LAC has reached its end
    (a writer whose change of the ensemble was not the last word may still be resending)."""
    starts = [first for first, _ in metadata.ensembles]
    parts: list[Part] = []
    for number, (first, members) in enumerate(metadata.ensembles):
        is_last = number == len(starts) - 1
        if metadata.is_closed:
            last = metadata.last_entry_id if is_last else min(starts[number + 1] - 1, metadata.last_entry_id)
            parts.append(Part(first, last, members, True))
        elif is_last:
            parts.append(Part(first, last_add_confirmed, members, False))
        else:
            last = starts[number + 1] - 1
            parts.append(Part(first, min(last, last_add_confirmed), members, last_add_confirmed >= last))
    return parts


def stored_range(part: Part, index: int, write_quorum: int) -> tuple[int, int] | None:
    """(first, last) entry of the part that the member at `index` must have; None when it has none of it."""
    size = len(part.members)
    window = range(part.first, min(part.last, part.first + size - 1) + 1)
    first = next((entry for entry in window if holds(index, entry, size, write_quorum)), None)
    if first is None:
        return None
    back = range(part.last, max(part.first, part.last - size + 1) - 1, -1)
    return first, next(entry for entry in back if holds(index, entry, size, write_quorum))


def entries_to_verify(part: Part, index: int, write_quorum: int, percentage: int) -> list[int]:
    """Entries to read from a member to believe that it has its copies: the first, the last, and a share of the others,
    evenly spread."""
    stored = stored_range(part, index, write_quorum)
    if stored is None:
        return []
    first, last = stored
    entries = {first, last}
    if percentage:
        step = 100 / percentage
        held = [entry for entry in range(first, last + 1) if holds(index, entry, len(part.members), write_quorum)]
        entries.update(held[int(number * step)] for number in range(len(held) * percentage // 100))
    return sorted(entries)


def holders_of(part: Part, entry_id: int, indices: Collection[int], write_quorum: int) -> list[int]:
    """Those of the indices that must have the entry."""
    return [index for index in write_set(entry_id, len(part.members), write_quorum) if index in indices]


def targets_of(
    damaged: Damaged, placed: Sequence[str], writable: Collection[str], *, without: Collection[str] = ()
) -> dict[int, str]:
    """Who gets the copies of each missing member, as far as there are bookies.

    `placed`: the ensemble as the placement policy would have it, with spare bookies for the missing members where there
    are any. A missing member without a spare one gets its copies again itself if it takes writes: it may have lost only
    some entries. Nobody of `without` gets any.
    """
    targets = {}
    for index, bookie in damaged.missing.items():
        if placed[index] != bookie and placed[index] not in without:
            targets[index] = placed[index]
        elif bookie in writable and bookie not in without:
            targets[index] = bookie
    return targets


def with_replaced(
    metadata: LedgerMetadata, first: int, changes: Mapping[int, tuple[str, str]]
) -> LedgerMetadata | None:
    """The record after the part that begins at `first` was copied; `changes` are index -> (old member, new member).

    None when nothing needs to be written (any more). Raises MetadataVersion when the part is gone or somebody else put
    another bookie there, or the new one elsewhere: the copies are in vain then.
    """
    position = next((n for n, (start, _) in enumerate(metadata.ensembles) if start == first), None)
    if position is None:
        raise MetadataVersion(f"ledger {metadata.ledger_id}: its part at entry {first} is gone")
    members = list(metadata.ensembles[position][1])
    for index, (old, new) in changes.items():
        if members[index] == new:
            continue
        if members[index] != old or new in members:
            raise MetadataVersion(
                f"ledger {metadata.ledger_id}: the ensemble at entry {first} was changed to {members} meanwhile"
            )
        members[index] = new
    ensembles = list(metadata.ensembles)
    if tuple(members) == ensembles[position][1]:
        return None
    ensembles[position] = (first, tuple(members))
    return replace(metadata, ensembles=tuple(ensembles), ctoken=0)


class Next(Enum):
    """What becomes of a ledger that a worker has locked and healed as far as it could."""

    DONE = "done"
    AWAIT_WRITER = "await writer"
    """Its end is open: the writer has a while to replace the lost bookie itself."""
    RETRY = "retry"


def parts_naming(parts: Sequence[Part], bookies: Collection[str]) -> list[Damaged]:
    """The parts with members that are to be replaced, whether they have their copies or not."""
    named = [Damaged(part, {i: one for i, one in enumerate(part.members) if one in bookies}) for part in parts]
    return [one for one in named if one.missing]


def next_step(metadata: LedgerMetadata, damaged: Sequence[Damaged], registered: Collection[str]) -> Next:
    """`damaged`: what is still missing; `registered`: bookies that are there, writable or not."""
    open_end = not metadata.is_closed and not registered_all(metadata.last_ensemble[1], registered)
    if open_end or any(not one.part.is_closed for one in damaged):
        return Next.AWAIT_WRITER
    return Next.RETRY if damaged else Next.DONE


def registered_all(members: Collection[str], registered: Collection[str]) -> bool:
    return all(bookie in registered for bookie in members)


def pause_after_failures(failures: int, first_ms: int, longest_ms: int) -> float:
    """Seconds for which a ledger is left alone after so many failures in a row: doubling, up to the longest."""
    doublings = min(failures - 1, 30)
    return min(first_ms << doublings, longest_ms) / 1000


def delay_to_check(interval: int, last_ms: int | None, now_ms: int) -> float:
    """Seconds until a periodic check is due that last ended at `last_ms` (None: never), whoever was auditor then."""
    if last_ms is None or last_ms > now_ms:
        return 0.0
    return max(0.0, interval - (now_ms - last_ms) / 1000)


class Pacer:
    """Keeps an average rate: `spend` says how long to wait after so many bytes."""

    __slots__ = ("_free_at", "_rate")

    def __init__(self, bytes_per_second: int) -> None:
        """-1: no limit."""
        self._rate = bytes_per_second
        self._free_at = 0.0

    def spend(self, size: int, now: float) -> float:
        if self._rate <= 0:
            return 0.0
        self._free_at = max(self._free_at, now) + size / self._rate
        return self._free_at - now
