"""What answers prove to a recoverer: when a fence holds, which entry is the last, and which errors prove nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.ledger.ledger_errors import (
    BookieTimeout,
    DataUnknown,
    DigestMismatch,
    LedgerError,
    LedgerRecoveryFailed,
    NoSuchEntry,
    NoSuchLedgerOnBookie,
    ReadFault,
    UnauthorizedAccess,
)
from magnetar.storage.ledger.recovery_rules import (
    LastConfirmed,
    LastEntryRound,
    RecoveryRead,
    RecoveryVerdict,
    recovery_error,
)

UNKNOWN = [BookieTimeout, DataUnknown, DigestMismatch, ReadFault]
MISSING = [NoSuchEntry, NoSuchLedgerOnBookie]


def verdict_of(asked: LastEntryRound) -> RecoveryVerdict:
    return asked.verdict


def test_the_highest_confirmed_entry_of_all_answers_counts() -> None:
    fence = LastEntryRound(3, 3, 3)
    fence.answered(0, 4, 50)
    assert verdict_of(fence) is RecoveryVerdict.DECIDED, "any entry acknowledged by three is on the one that answered"
    fence.answered(1, 6, 70)
    fence.answered(2, 5, 60)
    assert fence.result(0) == LastConfirmed(6, 70)


@pytest.mark.parametrize(("first", "expected"), [(0, (4, 50)), (5, (4, 50)), (6, (5, 0)), (2000, (1999, 0))])
def test_the_last_ensemble_s_first_entry_is_the_floor(first: int, expected: tuple[int, int]) -> None:
    fence = LastEntryRound(1, 1, 1)
    fence.answered(0, 4, 50)
    assert fence.result(first) == LastConfirmed(*expected)


@pytest.mark.parametrize("kind", MISSING)
def test_a_bookie_without_the_ledger_told_the_truth(kind: type[LedgerError]) -> None:
    fence = LastEntryRound(3, 3, 2)
    fence.failed(0, kind("x"))
    assert verdict_of(fence) is RecoveryVerdict.OPEN
    fence.failed(1, kind("x"))
    assert verdict_of(fence) is RecoveryVerdict.DECIDED
    assert fence.result(0) == LastConfirmed(-1, 0)


@pytest.mark.parametrize("kind", UNKNOWN)
def test_a_fence_with_too_many_unknown_answers_fails_as_soon_as_that_is_certain(kind: type[LedgerError]) -> None:
    fence = LastEntryRound(3, 3, 2)
    fence.answered(0, 9, 90)
    fence.failed(1, kind("first"))
    assert verdict_of(fence) is RecoveryVerdict.OPEN
    fence.failed(2, kind("second"))
    assert verdict_of(fence) is RecoveryVerdict.FAILED
    assert fence.error().args == ("first",)


def test_a_wrong_password_ends_the_fence_at_once() -> None:
    fence = LastEntryRound(3, 3, 2)
    fence.failed(0, ReadFault("x"))
    fence.failed(1, UnauthorizedAccess("x"))
    assert verdict_of(fence) is RecoveryVerdict.FAILED
    assert isinstance(fence.error(), UnauthorizedAccess)


def question(write_quorum: int = 3, ack_quorum: int = 2) -> RecoveryRead:
    return RecoveryRead(4, ("a", "b", "c"), write_quorum, ack_quorum, frozenset())


def test_one_valid_copy_recovers_an_entry_even_after_others_lacked_it() -> None:
    read = question()
    assert read.next_replica() == 1
    read.failed(NoSuchEntry("x"))
    assert read.next_replica() == 2
    read.found(b"entry")
    assert (read.verdict, read.entry) == (RecoveryVerdict.DECIDED, b"entry")


@given(st.integers(1, 4), st.data())
def test_the_end_needs_a_quorum_of_replicas_that_say_so(write_quorum: int, data: st.DataObject) -> None:
    """In whatever order the answers come, the counts alone say whether the end is proved or the read has failed."""
    ack_quorum = data.draw(st.integers(1, write_quorum))
    read = RecoveryRead(0, tuple("abcd"[:write_quorum]), write_quorum, ack_quorum, frozenset())
    missing = asked = 0
    while read.verdict is RecoveryVerdict.OPEN:
        kind = data.draw(st.sampled_from([*MISSING, *UNKNOWN]))
        read.next_replica()
        read.failed(kind("x"))
        asked += 1
        missing += kind in MISSING
    assert read.entry is None
    if read.verdict is RecoveryVerdict.DECIDED:
        assert missing == write_quorum - ack_quorum + 1
    else:
        assert asked == write_quorum
        assert missing <= write_quorum - ack_quorum
        assert not isinstance(read.error(), (NoSuchEntry, NoSuchLedgerOnBookie))


def test_a_slow_bookie_is_asked_last() -> None:
    read = RecoveryRead(0, ("a", "b", "c"), 3, 2, frozenset({"a"}))
    order = []
    for _ in range(2):
        order.append(read.next_replica())
        read.failed(ReadFault("x"))
    assert [*order, read.next_replica()] == [1, 2, 0]


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        (UnauthorizedAccess("x"), UnauthorizedAccess),
        (BookieTimeout("x"), BookieTimeout),
        (DigestMismatch("x"), LedgerRecoveryFailed),
        (NoSuchEntry("x"), LedgerRecoveryFailed),
    ],
)
def test_recovery_fails_with_its_own_code_but_for_password_and_timeout(
    cause: LedgerError, kind: type[LedgerError]
) -> None:
    assert type(recovery_error(7, "fencing", cause)) is kind
