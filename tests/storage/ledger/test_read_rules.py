"""Which replica is asked, and which error a read ends with."""

from itertools import permutations

import pytest

from magnetar.storage.ledger.ledger_errors import (
    BookieHandleNotAvailable,
    BookieOverloaded,
    BookieTimeout,
    DataUnknown,
    DigestMismatch,
    LedgerError,
    NoSuchEntry,
    NoSuchLedgerOnBookie,
    ReadFault,
)
from magnetar.storage.ledger.quorum_rules import write_set
from magnetar.storage.ledger.read_rules import demotes, most_telling_failure, replica_order, worse

ENSEMBLE = ("a", "b", "c", "d")


def test_replicas_are_asked_in_the_order_of_the_write_set() -> None:
    for entry_id in range(8):
        assert replica_order(entry_id, ENSEMBLE, 3) == write_set(entry_id, 4, 3)


def test_where_all_hold_all_a_reader_stays_with_one_bookie() -> None:
    assert {replica_order(entry_id, ENSEMBLE, 4, sticky=2) for entry_id in range(8)} == {(2, 3, 0, 1)}


def test_a_striped_ledger_has_no_sticky_bookie() -> None:
    assert replica_order(5, ENSEMBLE, 3, sticky=2) == (1, 2, 3)


def test_bookies_that_failed_are_asked_last_but_asked() -> None:
    assert replica_order(0, ENSEMBLE, 4, demoted={"a", "c"}) == (1, 3, 0, 2)
    assert replica_order(0, ENSEMBLE, 2, demoted={"a", "b"}) == (0, 1)


def of_all(*errors: LedgerError) -> LedgerError:
    kept: LedgerError | None = None
    for error in errors:
        kept = worse(kept, error)
    assert kept is not None
    return kept


@pytest.mark.parametrize("missing", [NoSuchEntry("x"), NoSuchLedgerOnBookie("x")])
def test_a_real_error_outranks_a_missing_entry_and_a_lost_connection_in_any_order(missing: LedgerError) -> None:
    lost, real = BookieHandleNotAvailable("x"), DigestMismatch("x")
    for order in permutations((missing, lost, real)):
        assert of_all(*order) is real
    for order in permutations((missing, lost)):
        assert of_all(*order) is lost


LOST = (NoSuchEntry("x"), NoSuchLedgerOnBookie("x"), DigestMismatch("x"), DataUnknown("x"))
NOT_NOW = (BookieHandleNotAvailable("x"), BookieTimeout("x"), ReadFault("x"), BookieOverloaded("x"))


@pytest.mark.parametrize("first", [*LOST, *NOT_NOW], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("second", [*LOST, *NOT_NOW], ids=lambda error: type(error).__name__)
def test_an_entry_is_lost_only_if_every_replica_answered_that_it_has_none_in_order(
    first: LedgerError, second: LedgerError
) -> None:
    assert most_telling_failure([first, second]).is_lost is (first in LOST and second in LOST)
    assert most_telling_failure([first, second]) is worse(first, second)
    assert most_telling_failure([first]).is_lost is (first in LOST)


def test_of_equal_errors_the_first_is_kept() -> None:
    first, second = ReadFault("first"), BookieTimeout("second")
    assert of_all(first, second) is first
    assert of_all(NoSuchEntry("first"), NoSuchLedgerOnBookie("second")).args == ("first",)


def test_lacking_an_entry_is_no_failure_of_the_bookie() -> None:
    assert not demotes(NoSuchEntry("x"))
    assert not demotes(NoSuchLedgerOnBookie("x"))
    assert demotes(BookieTimeout("x"))
    assert demotes(DigestMismatch("x"))
