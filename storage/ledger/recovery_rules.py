"""The decisions of recovery: where a ledger that nobody closed ends. No I/O, clock or randomness.

`recoverer.Recoverer`, the shell, asks the bookies and passes their answers to the classes of this module.
`LastEntryRound` decides when the fence holds, and `RecoveryRead` decides what the replicas of one entry prove. The
changes of the metadata are `mark_in_recovery` and `recovered` in `fragment_rules`.

Invariants (docs/LEDGERS.md, "Fencing and recovery"; github.com/Vanlightly/bookkeeper-tlaplus):

- An unusable answer (error, timeout, bad digest, EUNKNOWNLEDGERSTATE) is never taken for "no such entry".
- The end of the ledger is proved by Qw - Qa + 1 replicas without the entry, asked with fencing, from the ensemble as it
  was when recovery began.
- One valid copy is enough to recover an entry.
- The LAC is at least the first entry of the last fragment - 1, because the writer made that fragment only when
  everything before it was confirmed.

Source: LedgerRecoveryOp, ReadLastConfirmedOp of Apache's client.
"""

from enum import Enum
from typing import NamedTuple

from magnetar.storage.ledger.ledger_errors import (
    BookieTimeout,
    DataUnknown,
    DigestMismatch,
    LedgerError,
    LedgerRecoveryFailed,
    NoSuchEntry,
    NoSuchLedgerOnBookie,
    UnauthorizedAccess,
)
from magnetar.storage.ledger.quorum_rules import Coverage, missing_proves_end
from magnetar.storage.ledger.read_rules import replica_order, worse


class LastConfirmed(NamedTuple):
    """A LAC, and the `length` in the header that named this LAC. The length counts the payload bytes up to the entry
    with that header. That entry may stand after the LAC, so the length is only a hint."""

    entry_id: int
    length: int


class RecoveryVerdict(Enum):
    """What the answers so far prove, about a round or about one entry."""

    OPEN = "open"
    """More answers are needed."""
    DECIDED = "decided"
    FAILED = "failed"
    GIVEN_UP = "given up"
    """For one entry: every replica says that it may have lost the entry, so its content cannot be found."""
    DAMAGED = "damaged"
    """For one entry: no replica can return it, and at least one has it but cannot read it."""


class LastEntryRound:
    """One question to all bookies of the last ensemble: what is your last entry? Each bookie may answer once.

    Recovery asks this question with fencing. A reader that only wants the LAC of a ledger that is being written asks
    without fencing.
    """

    __slots__ = ("_coverage", "_error", "_found", "_verdict")

    def __init__(self, ensemble_size: int, write_quorum: int, ack_quorum: int) -> None:
        self._coverage = Coverage(ensemble_size, write_quorum, ack_quorum)
        self._found = LastConfirmed(-1, 0)
        self._error: LedgerError | None = None
        self._verdict = RecoveryVerdict.OPEN

    @property
    def verdict(self) -> RecoveryVerdict:
        return self._verdict

    def answered(self, index: int, lac: int, length: int) -> None:
        """Called when a bookie returned a valid last entry with this LAC and length in its header."""
        if lac > self._found.entry_id:
            self._found = LastConfirmed(lac, length)
        self._know(index)

    def failed(self, index: int, error: LedgerError) -> None:
        """Called when a bookie returned no entry. "No such entry" and "no such ledger" are usable answers, all other
        errors are not. Apache's client accepts a bad digest as a usable answer; this client does not."""
        if isinstance(error, (NoSuchEntry, NoSuchLedgerOnBookie)):
            self._know(index)
            return
        self._error = worse(self._error, error)
        self._coverage.answer(index, known=False)
        if isinstance(error, UnauthorizedAccess):
            self._error = error
            self._verdict = RecoveryVerdict.FAILED
        elif self._verdict is RecoveryVerdict.OPEN and self._coverage.hopeless:
            self._verdict = RecoveryVerdict.FAILED

    def result(self, first_of_last_ensemble: int) -> LastConfirmed:
        """Returns the highest LAC found, but at least the entry before the last fragment. May be called only when the
        round is decided."""
        assert self._verdict is RecoveryVerdict.DECIDED, self._verdict
        floor = first_of_last_ensemble - 1
        return self._found if self._found.entry_id >= floor else LastConfirmed(floor, 0)

    def error(self) -> LedgerError:
        """Returns the error to raise when the round failed."""
        assert self._error is not None, self._verdict
        return self._error

    def _know(self, index: int) -> None:
        self._coverage.answer(index, known=True)
        if self._verdict is RecoveryVerdict.OPEN and self._coverage.covered:
            self._verdict = RecoveryVerdict.DECIDED


class RecoveryRead:
    """Collects the answers of an entry's replicas. The shell asks the bookie at `next_replica()` and reports its
    answer, until the verdict is not OPEN."""

    __slots__ = (
        "_ack_quorum",
        "_damaged",
        "_error",
        "_missing",
        "_order",
        "_unknown",
        "_verdict",
        "_write_quorum",
        "entry",
        "entry_id",
    )

    def __init__(
        self, entry_id: int, ensemble: tuple[str, ...], write_quorum: int, ack_quorum: int, demoted: frozenset[str]
    ) -> None:
        self.entry_id = entry_id
        self.entry: bytes | None = None
        """The valid copy. None with the verdict DECIDED means that the ledger ends before this entry."""
        self._order = list(replica_order(entry_id, ensemble, write_quorum, demoted=demoted))
        self._write_quorum = write_quorum
        self._ack_quorum = ack_quorum
        self._missing = 0
        self._unknown = 0
        self._damaged = 0
        self._error: LedgerError | None = None
        self._verdict = RecoveryVerdict.OPEN

    @property
    def verdict(self) -> RecoveryVerdict:
        return self._verdict

    def next_replica(self) -> int:
        """Returns the ensemble index to ask now."""
        assert self._verdict is RecoveryVerdict.OPEN, self._verdict
        return self._order.pop(0)

    def found(self, entry: bytes) -> None:
        """Called when a replica returned the entry with the right digest and ids."""
        self.entry = entry
        self._verdict = RecoveryVerdict.DECIDED

    def failed(self, error: LedgerError) -> None:
        """Called when a replica returned no valid entry."""
        self._error = worse(self._error, error)
        if isinstance(error, UnauthorizedAccess):
            self._error = error
            self._verdict = RecoveryVerdict.FAILED
            return
        if isinstance(error, (NoSuchEntry, NoSuchLedgerOnBookie)):
            self._missing += 1
            if missing_proves_end(self._missing, self._write_quorum, self._ack_quorum):
                self._verdict = RecoveryVerdict.DECIDED
                return
        self._damaged += isinstance(error, DigestMismatch)
        self._unknown += isinstance(error, DataUnknown | DigestMismatch)
        if self._order:
            return
        if self._unknown < self._write_quorum:
            self._verdict = RecoveryVerdict.FAILED
        else:
            self._verdict = RecoveryVerdict.DAMAGED if self._damaged else RecoveryVerdict.GIVEN_UP

    def error(self) -> LedgerError:
        """Returns the error to raise when neither a copy nor the end was found."""
        assert self._error is not None, self._verdict
        return self._error


def recovery_error(ledger_id: int, step: str, cause: LedgerError) -> LedgerError:
    """Returns the error that a failed recovery raises: a wrong password and a timeout keep their class, all other
    errors become LedgerRecoveryFailed (-10), as in Apache's LedgerRecoveryOp."""
    kind = type(cause) if cause.code in _PASS_THROUGH else LedgerRecoveryFailed
    return kind(f"recovery of ledger {ledger_id}, {step}: {type(cause).__name__}: {cause}")


_PASS_THROUGH = frozenset({UnauthorizedAccess.code, BookieTimeout.code})
