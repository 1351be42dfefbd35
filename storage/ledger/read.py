"""Which replica a read asks next, and which of several errors it ends with. No I/O.

Source: bookkeeper.md 5 "Reads", PendingReadOp and the distribution schedule of Apache's client.
"""

from collections.abc import Collection, Sequence

from storage.ledger.errors import BookieHandleNotAvailable, LedgerError, NoSuchEntry, NoSuchLedgerOnBookie
from storage.ledger.quorum import write_set

_NOTHING_THERE = (NoSuchEntry, NoSuchLedgerOnBookie)


def replica_order(
    entry_id: int,
    ensemble: Sequence[str],
    write_quorum: int,
    *,
    sticky: int | None = None,
    demoted: Collection[str] = (),
) -> tuple[int, ...]:
    """Ensemble indices to ask for an entry, in order: its write set, with demoted bookies (lately failed) last.

    `sticky` starts the order at that index for every entry, so that a sequential reader stays with one bookie and its
    read-ahead. It counts only where every bookie has every entry.
    """
    size = len(ensemble)
    start = sticky if sticky is not None and size == write_quorum else entry_id
    order = write_set(start, size, write_quorum)
    if not demoted:
        return order
    return tuple(sorted(order, key=lambda index: ensemble[index] in demoted))


def worse(first: LedgerError | None, new: LedgerError) -> LedgerError:
    """The error to keep: the first one, but a real error outranks "nothing there", and any other outranks -8.

    A missing entry says least: in a ledger whose entry was acknowledged it means that this replica is incomplete.
    """
    if first is None:
        return new
    if isinstance(first, _NOTHING_THERE):
        return first if isinstance(new, _NOTHING_THERE) else new
    if isinstance(first, BookieHandleNotAvailable):
        return first if isinstance(new, (*_NOTHING_THERE, BookieHandleNotAvailable)) else new
    return first


def demotes(error: LedgerError) -> bool:
    """Whether the bookie should be asked last from now on: it failed, rather than lacked one entry."""
    return not isinstance(error, _NOTHING_THERE)
