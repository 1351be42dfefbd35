"""Decides which replica a read asks next, and with which of several errors it ends. No I/O; `replica_reader` asks the
bookies.

Source: PendingReadOp and RackawareEnsemblePlacementPolicyImpl.reorderReadSequence of Apache's client.
"""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from functools import reduce

from magnetar.storage.ledger.ledger_errors import (
    BookieHandleNotAvailable,
    BookieOverloaded,
    DataUnknown,
    DigestMismatch,
    LedgerError,
    NoSuchEntry,
    NoSuchLedgerOnBookie,
)
from magnetar.storage.ledger.quorum_rules import write_set


class ReplicaStanding(IntEnum):
    """How likely a bookie is to answer a read with the entry. A read asks bookies with a lower value first
    (reorderReadSequenceEnabled)."""

    AVAILABLE = 0
    READ_ONLY = 1
    FAILED_LATELY = 2
    UNAVAILABLE = 3


def always_available(_: str) -> ReplicaStanding:
    return ReplicaStanding.AVAILABLE


_NOTHING_THERE = (NoSuchEntry, NoSuchLedgerOnBookie)
_LOST = (*_NOTHING_THERE, DigestMismatch, DataUnknown)


def replica_order(
    entry_id: int,
    ensemble: Sequence[str],
    write_quorum: int,
    *,
    sticky: int | None = None,
    demoted: Collection[str] = (),
    standing: Callable[[str], ReplicaStanding] = always_available,
) -> tuple[int, ...]:
    """Returns the ensemble indices to ask for an entry: its write set, ordered by the standing of the bookies. The
    `demoted` bookies failed this reader lately.

    With `sticky` the order begins at that index for every entry, so that a sequential reader stays with one bookie and
    profits from its read-ahead. `sticky` has an effect only if every bookie holds every entry.
    """
    size = len(ensemble)
    start = sticky if sticky is not None and size == write_quorum else entry_id
    order = write_set(start, size, write_quorum)
    if write_quorum == 1 or (not demoted and standing is always_available):
        return order

    def rank(index: int) -> ReplicaStanding:
        bookie = ensemble[index]
        return max(standing(bookie), ReplicaStanding.FAILED_LATELY if bookie in demoted else ReplicaStanding.AVAILABLE)

    return tuple(sorted(order, key=rank))


def worse(first: LedgerError | None, new: LedgerError) -> LedgerError:
    """Returns the error to keep of two. That is the first one, with two exceptions: any other error outranks "nothing
    there" (the bookie has no such entry or ledger), and any error but "nothing there" outranks -8 (the bookie cannot be
    reached).

    "Nothing there" is the least informative: since the entry was acknowledged, it only means that this replica is
    incomplete.
    """
    if first is None:
        return new
    if isinstance(first, _NOTHING_THERE):
        return first if isinstance(new, _NOTHING_THERE) else new
    if isinstance(first, BookieHandleNotAvailable):
        return first if isinstance(new, (*_NOTHING_THERE, BookieHandleNotAvailable)) else new
    return first


def most_telling_failure(failures: Sequence[LedgerError]) -> LedgerError:
    """Returns the error to raise when every replica failed; `failures` has one failure of each. Sets the error's
    `is_lost` if every replica answered and no replica has the entry undamaged."""
    error = reduce(worse, failures)
    error.is_lost = all(isinstance(failure, _LOST) for failure in failures)
    return error


def demotes(error: LedgerError) -> bool:
    """Whether the bookie should be asked last after this error. Returns False if the bookie was only busy or only lacks
    the entry."""
    return not isinstance(error, (*_NOTHING_THERE, BookieOverloaded))
