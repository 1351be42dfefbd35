"""Quorum arithmetic: which bookies hold an entry, and when enough of them answered. No I/O; only `Coverage` has state.

An ensemble is a list of E bookies. Entry e is written to its write set, the Qw indices (e + i) mod E, and is
acknowledged when any Qa of these answered (docs/LEDGERS.md, "Words"). Source: RoundRobinDistributionSchedule.
"""

from collections.abc import Sequence


def check_sizes(ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
    """Checks the sizes of a ledger. Raises ValueError unless 1 <= Qa <= Qw <= E."""
    if not 1 <= ack_quorum <= write_quorum <= ensemble_size:
        raise ValueError(
            f"need 1 <= ack quorum <= write quorum <= ensemble size, got {ack_quorum}, {write_quorum}, {ensemble_size}"
        )


def write_set(entry_id: int, ensemble_size: int, write_quorum: int) -> tuple[int, ...]:
    """Returns the ensemble indices that hold the entry, in the order in which its replicas are asked."""
    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))


def holds(index: int, entry_id: int, ensemble_size: int, write_quorum: int) -> bool:
    """Whether the bookie at `index` is in the entry's write set."""
    return (index - entry_id) % ensemble_size < write_quorum


def held_ids(index: int, first: int, count: int, ensemble_size: int, write_quorum: int) -> Sequence[int]:
    """Returns the ids that the bookie at `index` holds, out of the `count` ids that begin at `first`; ascending."""
    if ensemble_size == write_quorum:
        return range(first, first + count)
    return [e for e in range(first, first + count) if (index - e) % ensemble_size < write_quorum]


def missing_proves_end(missing: int, write_quorum: int, ack_quorum: int) -> bool:
    """Whether `missing` replicas without the entry prove that it was never acknowledged.

    The write set has Qw bookies. Any Qa of them and any Qw - Qa + 1 of them have at least one bookie in common. So if
    the entry had been acknowledged, one of the bookies that were asked would have it.
    """
    return missing >= write_quorum - ack_quorum + 1


class Coverage:
    """Decides whether the bookies that gave no usable answer are too few to have acknowledged an entry by themselves.

    An answer is *known* when the bookie truthfully said what it has, which may be nothing. The round is *covered* when
    every write set has fewer than Qa bookies whose answer is not known. Write sets are the windows of Qw neighbouring
    indices, around the end of the list too. With E = 5, Qw = 3, Qa = 2:

        index     0  1  2  3  4
        answer    ✓  ✗  ✓  ✓  ✗     covered: no window of three has two ✗
        answer    ✓  ✗  ✗  ✓  ✓     not covered: the windows 0-2 and 1-3 have two ✗, so an entry
                                    may have been acknowledged by the bookies 1 and 2 alone

    Once the bookies that answered are fenced, a covered round also means that nothing can be acknowledged any more.
    """

    __slots__ = ("_ack_quorum", "_known", "_left", "_write_quorum")

    def __init__(self, ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
        check_sizes(ensemble_size, write_quorum, ack_quorum)
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._known = [False] * ensemble_size
        self._left = set(range(ensemble_size))

    def answer(self, index: int, *, known: bool) -> None:
        """Records that the bookie at `index` answered or failed; `known` says whether the bookie truthfully said what
        it has. Called once for each bookie."""
        self._left.remove(index)
        self._known[index] = known

    @property
    def covered(self) -> bool:
        return self._covers(self._known)

    @property
    def hopeless(self) -> bool:
        """Whether the round cannot be covered any more, even if all bookies that have not answered yet give a good
        answer."""
        return not self._covers([known or index in self._left for index, known in enumerate(self._known)])

    def _covers(self, known: Sequence[bool]) -> bool:
        size = len(known)
        return all(
            sum(not known[(start + i) % size] for i in range(self._write_quorum)) < self._ack_quorum
            for start in range(size)
        )
