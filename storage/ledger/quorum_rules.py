"""Quorum arithmetic: which bookies hold an entry, and when enough of them answered. No I/O, no state but `Coverage`.

Words: an ensemble is a list of E bookies; entry e is written to its write set, the Wq indices (e + i) mod E; it is
acknowledged when any Aq of these answered. Source: bookkeeper.md 5, RoundRobinDistributionSchedule.
"""

from collections.abc import Sequence


def check_sizes(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Raises ValueError unless 1 <= Aq <= Wq <= E."""
    if not 1 <= ack_quorum <= write_quorum <= ensemble_size:
        raise ValueError(
            f"need 1 <= ack quorum <= write quorum <= ensemble size, got {ack_quorum}, {write_quorum}, {ensemble_size}"
        )


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """Ensemble indices that hold the entry, in the order in which replicas are asked."""
    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))


def holds(index: int, entry_id: int, ensemble_size: int, write_quorum: int) -> bool:
    """Whether the bookie at `index` is in the entry's write set."""
    return (index - entry_id) % ensemble_size < write_quorum


def held_ids(index: int, first: int, count: int, ensemble_size: int, write_quorum: int) -> Sequence[int]:
    """Those of the `count` entries from `first` on that the bookie at `index` holds, ascending."""
    if ensemble_size == write_quorum:
        return range(first, first + count)
    return [e for e in range(first, first + count) if (index - e) % ensemble_size < write_quorum]


def missing_proves_end(missing: int, write_quorum: int, ack_quorum: int) -> bool:
    """Whether so many replicas without the entry prove that it was never acknowledged.

    Any Aq bookies of the write set share a member with any Wq - Aq + 1 others: had the entry been acknowledged, one of
    those asked would have it.
    """
    return missing >= write_quorum - ack_quorum + 1


class Coverage:
    """Whether the answers so far meet every possible ack quorum of the ensemble.

    An answer is known when the bookie told the truth about what it has (also "nothing"). Covered: in each window of Wq
    neighbouring indices fewer than Aq are not known, so no entry can have been (or, once fenced, be) acknowledged by
    bookies that did not answer.
    """

    __slots__ = ("_ack_quorum", "_known", "_left", "_write_quorum")

    def __init__(self, ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
        check_sizes(ensemble_size, write_quorum, ack_quorum)
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._known = [False] * ensemble_size
        self._left = set(range(ensemble_size))

    def answer(self, index: int, *, known: bool) -> None:
        """Records the one answer (or the failure to answer) of the bookie at `index`."""
        self._left.remove(index)
        self._known[index] = known

    @property
    def covered(self) -> bool:
        return self._covers(self._known)

    @property
    def hopeless(self) -> bool:
        """Not even good answers from all that are still to come would cover."""
        return not self._covers([known or index in self._left for index, known in enumerate(self._known)])

    def _covers(self, known: Sequence[bool]) -> bool:
        size = len(known)
        return all(
            sum(not known[(start + i) % size] for i in range(self._write_quorum)) < self._ack_quorum
            for start in range(size)
        )
