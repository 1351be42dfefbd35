"""Which changes of a ledger's metadata are possible, and what forbids them."""

from dataclasses import replace

import pytest

from magnetar.storage.ledger.fragment_rules import (
    Fragment,
    Members,
    fragment_of,
    last_fragment,
    mark_in_recovery,
    recovered,
    with_ensemble,
    writer_closed,
    writer_ensemble,
)
from magnetar.storage.ledger.ledger_errors import LedgerClosed, LedgerFenced, MetadataVersion
from pulsar_proto.records.ledger_record import LedgerMetadata, LedgerState

OPEN = LedgerMetadata(
    7, 2, 2, 2, ((0, ("a", "b")), (10, ("a", "c"))), ctoken=99, custom_metadata={"application": b"pulsar"}
)
IN_RECOVERY = replace(OPEN, state=LedgerState.IN_RECOVERY)
CLOSED = replace(OPEN, state=LedgerState.CLOSED, last_entry_id=14, length=150)


def unchanged(members: Members) -> Members:
    return members


def test_an_entry_belongs_to_the_greatest_key_not_above_it() -> None:
    assert fragment_of(OPEN, 0) == fragment_of(OPEN, 9) == Fragment(0, ("a", "b"), 9)
    assert fragment_of(OPEN, 10) == fragment_of(OPEN, 10**9) == last_fragment(OPEN) == Fragment(10, ("a", "c"), None)


def test_a_new_ensemble_is_added_and_an_empty_one_replaced() -> None:
    assert with_ensemble(OPEN, 15, ("d", "c")).ensembles == (*OPEN.ensembles, (15, ("d", "c")))
    assert with_ensemble(OPEN, 10, ("d", "c")).ensembles == (OPEN.ensembles[0], (10, ("d", "c")))
    with pytest.raises(AssertionError):
        with_ensemble(OPEN, 9, ("d", "c"))


def test_every_rewrite_drops_the_creation_token_and_keeps_the_rest() -> None:
    written = [
        writer_ensemble(OPEN, 15, lambda members: ("d", "c")),
        writer_closed(OPEN, 14, 150),
        mark_in_recovery(OPEN),
        recovered(IN_RECOVERY, IN_RECOVERY, [], 14, 150),
    ]
    for metadata in written:
        assert metadata is not None
        assert metadata.ctoken == 0
        assert metadata.custom_metadata == OPEN.custom_metadata


def test_a_writer_changes_the_ensemble_of_an_open_ledger_only() -> None:
    assert writer_ensemble(OPEN, 15, unchanged) is None
    with pytest.raises(LedgerFenced):
        writer_ensemble(IN_RECOVERY, 15, unchanged)
    with pytest.raises(LedgerClosed):
        writer_ensemble(CLOSED, 15, unchanged)


def test_a_writer_s_close_may_be_repeated_but_not_contradict() -> None:
    closed = writer_closed(OPEN, 14, 150)
    assert closed == replace(CLOSED, ctoken=0)
    assert writer_closed(CLOSED, 14, 150) is None
    for last, length in ((13, 150), (14, 140)):
        with pytest.raises(MetadataVersion):
            writer_closed(CLOSED, last, length)
    with pytest.raises(LedgerFenced):
        writer_closed(IN_RECOVERY, 14, 150)


def test_recovery_is_marked_once() -> None:
    marked = mark_in_recovery(OPEN)
    assert marked is not None
    assert marked.state is LedgerState.IN_RECOVERY
    assert mark_in_recovery(IN_RECOVERY) is None
    assert mark_in_recovery(CLOSED) is None


def test_recovery_writes_its_ensembles_with_the_close() -> None:
    changes = [(10, ("d", "c")), (12, ("d", "e"))]
    closed = recovered(IN_RECOVERY, IN_RECOVERY, changes, 14, 150)
    assert closed is not None
    assert closed.ensembles == ((0, ("a", "b")), (10, ("d", "c")), (12, ("d", "e")))
    assert (closed.state, closed.last_entry_id, closed.length) == (LedgerState.CLOSED, 14, 150)


def test_recovery_adopts_another_s_close_and_keeps_what_was_copied_elsewhere() -> None:
    assert recovered(CLOSED, IN_RECOVERY, [(12, ("d", "e"))], 20, 200) is None
    copied = replace(IN_RECOVERY, ensembles=((0, ("z", "b")), IN_RECOVERY.ensembles[1]))
    closed = recovered(copied, IN_RECOVERY, [], 14, 150)
    assert closed is not None
    assert closed.ensembles == copied.ensembles


@pytest.mark.parametrize("state", [OPEN, replace(IN_RECOVERY, ensembles=((0, ("a", "b")), (10, ("a", "z"))))])
def test_recovery_closes_nothing_that_is_not_as_it_began(state: LedgerMetadata) -> None:
    with pytest.raises(MetadataVersion):
        recovered(state, IN_RECOVERY, [], 14, 150)
