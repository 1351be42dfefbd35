"""Which messages count as lost, judged by the ids that come."""

import pytest

from magnetar.spark.source.ranges.bounds import BEFORE_ALL, Bound, Range
from magnetar.spark.source.ranges.continuity_rules import Continuity, DataLoss, takes


def watch(after: Bound, upto: Bound, *ids: tuple[int, int], protected: bool = False, sparse: bool = False) -> list[str]:
    continuity = Continuity("t", Range(after, upto), protected=protected, sparse=sparse)
    for ledger, entry in ids:
        continuity.entry(ledger, entry)
    continuity.finished(bool(ids) and ids[-1] >= upto[:2])
    return continuity.missing


def test_entries_without_gap_over_two_ledgers_are_no_loss() -> None:
    assert watch(Bound(1, 3), Bound(4, 1), (1, 3), (1, 4), (4, 0), (4, 1)) == []
    assert watch(BEFORE_ALL, Bound(4, 1), (2, 0), (4, 0), (4, 1)) == []


def test_a_gap_inside_a_ledger_is_named() -> None:
    (sentence,) = watch(Bound(1, 3), Bound(1, 7), (1, 3), (1, 6), (1, 7))
    assert "after 1:3 came 1:6" in sentence


def test_a_ledger_that_does_not_begin_at_its_begin_is_named() -> None:
    (sentence,) = watch(Bound(1, 3), Bound(2, 7), (1, 3), (2, 7))
    assert "ledger 2 begins with entry 7" in sentence


def test_a_trimmed_ledger_is_a_loss_unless_a_subscription_kept_what_was_unread() -> None:
    (sentence,) = watch(Bound(1, 3), Bound(9, 0), (9, 0))
    assert "ledger 1 is gone" in sentence
    assert watch(Bound(1, 3), Bound(9, 0), (9, 0), protected=True) == []
    assert watch(Bound(1, 3), Bound(9, 5), (9, 5), protected=True) != []


def test_an_end_that_never_comes_is_a_loss() -> None:
    (sentence,) = watch(Bound(1, 3), Bound(1, 7), (1, 3), (1, 4))
    assert "1:7 never came, the last was 1:4" in sentence
    (nothing,) = watch(BEFORE_ALL, Bound(1, 7))
    assert "the last was nothing" in nothing


def test_a_range_that_ends_where_a_ledger_begins_is_whole_without_an_entry_there() -> None:
    """The broker names such a place for a time before a ledger's first message."""
    assert watch(BEFORE_ALL, Bound(5, -1), (5, 0)) == []
    assert watch(Bound(4, 7), Bound(5, -1), (4, 7), (4, 8), (5, 0)) == []
    assert watch(Bound(4, 7), Bound(5, 1), (4, 7), (5, 0), (5, 2)) != []


def test_a_compacted_view_may_have_gaps() -> None:
    assert watch(Bound(1, 3), Bound(1, 7), (1, 5), (1, 7), sparse=True) == []


def test_the_error_says_what_to_do() -> None:
    continuity = Continuity("t", Range(Bound(1, 3), Bound(1, 5)), protected=False, sparse=False)
    continuity.entry(1, 5)
    with pytest.raises(DataLoss, match=r"t: after 1:3 came 1:5.*failOnDataLoss=false"):
        continuity.check()


def test_a_range_takes_messages_by_batch_index() -> None:
    wanted = Range(Bound(1, 2, 3), Bound(1, 4, 0))
    assert [index for index in range(6) if takes(wanted, 1, 2, index)] == [4, 5]
    assert [index for index in range(3) if takes(wanted, 1, 4, index)] == [0]
    assert not takes(wanted, 1, 4, -1)
    assert takes(wanted, 1, 3, -1)
