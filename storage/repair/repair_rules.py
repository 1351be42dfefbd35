"""The decisions of auto-recovery about ledgers and time. No I/O, no clock.

Source: LedgerChecker, LedgerFragment, ReplicationWorker and Auditor of BookKeeper 4.17.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from magnetar.metadata.errors import MetadataError
from magnetar.storage.ledger.ledger_errors import LedgerError, MetadataVersion
from magnetar.storage.ledger.quorum_rules import holds, write_set
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records.ledger_record import LedgerMetadata

PASSING_FAILURES = (LedgerError, MetadataError, MalformedRecord, OSError)
"""The errors of audits and healings that come from bookies, ZooKeeper or a damaged record. Auto-recovery logs such
errors and tries the work again."""


class LedgerFragment(NamedTuple):
    """The entries of a ledger that one ensemble holds. `last` is less than `first` in a fragment in which no entry is
    known."""

    first: int
    last: int
    members: tuple[str, ...]
    is_closed: bool
    """Whether no writer adds to the fragment any more and all its entries are confirmed. Only such a fragment may be
    copied."""


class DamagedFragment(NamedTuple):
    """A fragment that lacks copies."""

    fragment: LedgerFragment
    missing: Mapping[int, str]
    """The bookies that lack their copies, as a mapping from the index in the ensemble to the bookie."""


def fragments_of(metadata: LedgerMetadata, last_add_confirmed: int) -> list[LedgerFragment]:
    """Returns a ledger's fragments in order.

    A fragment of a closed ledger is closed. In an open ledger a fragment is closed when another fragment follows and
    the LAC has reached the fragment's last entry: before that, the writer that changed the ensemble may still be
    sending entries to the fragment.
    """
    starts = [first for first, _ in metadata.ensembles]
    fragments: list[LedgerFragment] = []
    for number, (first, members) in enumerate(metadata.ensembles):
        is_last = number == len(starts) - 1
        if metadata.is_closed:
            last = metadata.last_entry_id if is_last else min(starts[number + 1] - 1, metadata.last_entry_id)
            fragments.append(LedgerFragment(first, last, members, True))
        elif is_last:
            fragments.append(LedgerFragment(first, last_add_confirmed, members, False))
        else:
            last = starts[number + 1] - 1
            fragments.append(LedgerFragment(first, min(last, last_add_confirmed), members, last_add_confirmed >= last))
    return fragments


def stored_range(fragment: LedgerFragment, index: int, write_quorum: int) -> tuple[int, int] | None:
    """Returns the first and the last entry of the fragment that the member at `index` must have, or None when the
    striping gives it no entry of the fragment."""
    size = len(fragment.members)
    window = range(fragment.first, min(fragment.last, fragment.first + size - 1) + 1)
    first = next((entry for entry in window if holds(index, entry, size, write_quorum)), None)
    if first is None:
        return None
    back = range(fragment.last, max(fragment.first, fragment.last - size + 1) - 1, -1)
    return first, next(entry for entry in back if holds(index, entry, size, write_quorum))


def entries_to_verify(fragment: LedgerFragment, index: int, write_quorum: int, percentage: int) -> list[int]:
    """Returns the entries to read from a member of the ensemble in order to believe that the member has its copies: its
    first and last entry, and `percentage` of its entries, evenly spread."""
    stored = stored_range(fragment, index, write_quorum)
    if stored is None:
        return []
    first, last = stored
    entries = {first, last}
    if percentage:
        step = 100 / percentage
        held = [entry for entry in range(first, last + 1) if holds(index, entry, len(fragment.members), write_quorum)]
        entries.update(held[int(number * step)] for number in range(len(held) * percentage // 100))
    return sorted(entries)


def holders_of(fragment: LedgerFragment, entry_id: int, indices: Collection[int], write_quorum: int) -> list[int]:
    """Returns each of `indices` at which the ensemble has a bookie that must hold the entry."""
    return [index for index in write_set(entry_id, len(fragment.members), write_quorum) if index in indices]


def targets_of(
    damaged: DamagedFragment, placed: Sequence[str], writable: Collection[str], *, without: Collection[str] = ()
) -> dict[int, str]:
    """Chooses for each missing member a bookie that gets the member's copies. Returns a mapping from the index in the
    ensemble to the bookie. Members for which there is no bookie are left out.

    `placed` is the ensemble as the placement policy would have it: at the index of a missing member it has the bookie
    that replaces it, or the member itself when no other bookie is left. In that case the member gets its copies again
    if it is `writable`, since it may have lost only some entries. Bookies in `without` are never chosen.
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
    """Returns the ledger's record after the fragment that begins at `first` was copied, or None when the record names
    the new members already. `changes` maps an index in the ensemble to (old member, new member).

    Raises MetadataVersion when somebody else changed the fragment meanwhile: the fragment does not exist any more,
    another bookie replaced the old member, or the new member has another index in the ensemble. The copies are useless
    in that case.
    """
    position = next((n for n, (start, _) in enumerate(metadata.ensembles) if start == first), None)
    if position is None:
        raise MetadataVersion(f"ledger {metadata.ledger_id}: its fragment at entry {first} is gone")
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


class NextStep(Enum):
    """The next step for a ledger that a worker has locked and healed as far as it could."""

    DONE = "done"
    AWAIT_WRITER = "await writer"
    """The ledger is open, and its writer gets some time to replace the lost bookie by itself."""
    RETRY = "retry"
    """Copies are still missing: the ledger is left alone for a while, before a worker tries again."""


def fragments_naming(fragments: Sequence[LedgerFragment], bookies: Collection[str]) -> list[DamagedFragment]:
    """Returns the fragments that name any of the bookies. The bookies' copies are reported as missing even if they
    exist, because an operator wants the bookies replaced."""
    named = [
        DamagedFragment(fragment, {i: one for i, one in enumerate(fragment.members) if one in bookies})
        for fragment in fragments
    ]
    return [one for one in named if one.missing]


def next_step(metadata: LedgerMetadata, damaged: Sequence[DamagedFragment], registered: Collection[str]) -> NextStep:
    """Decides the next step for a ledger that was checked. `damaged` holds the fragments that still lack copies, and
    `registered` holds the bookies that are up, writable or not."""
    open_end = not metadata.is_closed and not registered_all(metadata.last_ensemble[1], registered)
    if open_end or any(not one.fragment.is_closed for one in damaged):
        return NextStep.AWAIT_WRITER
    return NextStep.RETRY if damaged else NextStep.DONE


def registered_all(members: Collection[str], registered: Collection[str]) -> bool:
    return all(bookie in registered for bookie in members)


def delay_to_check(interval: int, last_ms: int | None, now_ms: int) -> float:
    """Returns the seconds until a periodic check is due. `last_ms` is the time when the check last ended, in this
    auditor or an earlier auditor; None when the check never ran. If that time is in the future, because a clock was
    wrong, the check is due at once."""
    if last_ms is None or last_ms > now_ms:
        return 0.0
    return max(0.0, interval - (now_ms - last_ms) / 1000)


class CopyPacer:
    """Limits the copying to an average number of bytes per second."""

    __slots__ = ("_free_at", "_rate")

    def __init__(self, bytes_per_second: int) -> None:
        """Limits the rate to `bytes_per_second`; -1 means that there is no limit."""
        self._rate = bytes_per_second
        self._free_at = 0.0

    def spend(self, size: int, now: float) -> float:
        """Returns how many seconds to wait after `size` bytes were copied. `now` is a time in seconds of any steady
        clock."""
        if self._rate <= 0:
            return 0.0
        self._free_at = max(self._free_at, now) + size / self._rate
        return self._free_at - now
