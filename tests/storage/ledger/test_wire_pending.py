"""Which request an answer belongs to: answers to adds come in and out of order, in parts, twice or late, and answers to
reads must not be mixed up."""

import asyncio
from collections.abc import Sequence
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.ledger.wire_pending import AddTable, Conflict, PendingAdds, ReadTable, ReadWait

EOK, EIO, LOST, LATE = 0, 101, -8, -23


class Told:
    """Records what a group's `done` was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[int], int]] = []

    def __call__(self, ids: Sequence[int], rc: int) -> None:
        self.calls.append((list(ids), rc))


def put(table: AddTable, ledger_id: int, ids: Sequence[int], *, deadline: float = 10.0) -> Told:
    told = Told()
    table.put(ledger_id, PendingAdds(ids, told, 100 * len(ids), deadline))
    return told


def test_a_group_is_told_once_when_its_last_entry_is_stored() -> None:
    table = AddTable()
    told = put(table, 1, range(5, 9))
    table.answered(1, 5, 3, EOK)
    assert told.calls == []
    table.answered(1, 8, 1, EOK)
    assert told.calls == [([5, 6, 7, 8], EOK)]
    assert table.bytes == 0


def test_one_run_of_answers_may_cover_several_groups_and_part_of_another() -> None:
    table = AddTable()
    told = [put(table, 1, range(2)), put(table, 1, range(2, 4)), put(table, 1, range(4, 6))]
    table.answered(1, 0, 5, EOK)
    assert [each.calls for each in told] == [[([0, 1], EOK)], [([2, 3], EOK)], []]
    assert table.bytes == 200


def test_a_failure_is_told_at_once_and_the_rest_when_it_is_complete() -> None:
    table = AddTable()
    told = put(table, 1, range(3))
    table.answered(1, 1, 1, EIO)
    assert told.calls == [([1], EIO)]
    table.answered(1, 2, 1, EOK)
    table.answered(1, 0, 1, EOK)
    assert told.calls == [([1], EIO), ([0, 2], EOK)]


def test_an_entry_that_is_answered_twice_counts_once() -> None:
    table = AddTable()
    told = put(table, 1, range(3))
    table.answered(1, 0, 1, EOK)
    table.answered(1, 0, 1, EOK)
    table.answered(1, 0, 2, EOK)
    assert told.calls == []
    assert table.bytes == 300


def test_answers_of_other_ledgers_and_unknown_entries_are_dropped() -> None:
    table = AddTable()
    told = put(table, 1, range(2))
    table.answered(2, 0, 2, EOK)
    table.answered(1, 2, 100, EOK)
    table.answered(1, -5, 4, EOK)
    assert told.calls == []


def test_the_same_entries_sent_again_are_two_groups_and_the_older_one_is_answered_first() -> None:
    table = AddTable()
    first, second = put(table, 1, range(2)), put(table, 1, range(2))
    table.answered(1, 0, 2, EOK)
    assert (first.calls, second.calls) == ([([0, 1], EOK)], [])
    table.answered(1, 0, 2, EOK)
    assert second.calls == [([0, 1], EOK)]


def test_a_striped_group_is_answered_by_its_own_ids() -> None:
    table = AddTable()
    told = put(table, 1, [0, 1, 3, 4])
    table.answered(1, 0, 5, EOK)
    assert told.calls == [([0, 1, 3, 4], EOK)]


def test_the_end_of_a_connection_fails_what_is_unanswered_and_keeps_what_was_answered() -> None:
    table = AddTable()
    partly, wholly = put(table, 1, range(4)), put(table, 2, range(2))
    table.answered(1, 1, 2, EOK)
    table.give_up_all(LOST)
    assert partly.calls == [([1, 2], EOK), ([0, 3], LOST)]
    assert wholly.calls == [([0, 1], LOST)]
    table.answered(1, 0, 1, EOK)
    assert len(partly.calls) == 2
    assert table.bytes == 0


def test_only_groups_past_their_deadline_expire_and_their_late_answers_are_dropped() -> None:
    table = AddTable()
    old, young = put(table, 1, range(2), deadline=1.0), put(table, 1, range(2, 4), deadline=5.0)
    assert not table.expire(0.9, LATE)
    assert table.expire(1.0, LATE)
    assert (old.calls, young.calls) == ([([0, 1], LATE)], [])
    assert table.bytes == 200
    table.answered(1, 0, 4, EOK)
    assert (old.calls, young.calls) == ([([0, 1], LATE)], [([2, 3], EOK)])


def test_transactions_are_answered_in_any_order() -> None:
    table = AddTable()
    told = Told()
    table.put_txns(PendingAdds([7, 9, 11], told, 300, 10.0, txn_id=40))
    table.answered_txns(42, 1, EOK)
    table.answered_txns(39, 2, EIO)
    table.answered_txns(40, 1, EOK)
    assert told.calls == [([7], EIO)]
    table.answered_txns(40, 9, EOK)
    assert told.calls == [([7], EIO), ([9, 11], EOK)]


def test_a_run_of_transactions_covers_groups_as_far_as_it_goes() -> None:
    table, told = AddTable(), [Told(), Told()]
    table.put_txns(PendingAdds(range(3), told[0], 300, 10.0, txn_id=40))
    table.put_txns(PendingAdds(range(3, 6), told[1], 300, 10.0, txn_id=43))
    table.answered_txns(40, 5, EOK)
    assert [each.calls for each in told] == [[([0, 1, 2], EOK)], []]
    table.answered_txns(45, 1, EIO)
    assert told[1].calls == [([5], EIO), ([3, 4], EOK)]
    assert table.bytes == 0


@given(
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
    failing=st.sets(st.integers(0, 35)),
    lost_after=st.integers(0, 36),
)
def test_every_entry_is_told_exactly_once_with_its_own_outcome(
    sizes: list[int], order: Random, failing: set[int], lost_after: int
) -> None:
    table, groups, first = AddTable(), [], 0
    for size in sizes:
        groups.append(put(table, 1, range(first, first + size)))
        first += size
    ids = list(range(first))
    order.shuffle(ids)
    for entry_id in ids[:lost_after]:
        table.answered(1, entry_id, 1, EIO if entry_id in failing else EOK)
    table.give_up_all(LOST)
    told = {entry_id: rc for group in groups for some, rc in group.calls for entry_id in some}
    assert sum(len(some) for group in groups for some, _ in group.calls) == first
    answered = set(ids[:lost_after])
    assert told == {i: LOST if i not in answered else EIO if i in failing else EOK for i in range(first)}


def read(loop: asyncio.AbstractEventLoop, *, fencing: bool) -> ReadWait:
    return ReadWait(loop.create_future(), fencing, 10.0)


async def test_a_fence_and_a_plain_read_of_one_entry_are_never_under_way_together() -> None:
    loop = asyncio.get_running_loop()
    for first in (False, True):
        table = ReadTable()
        table.put(1, -1, read(loop, fencing=first))
        assert table.conflict(1, -1, not first) is Conflict.WAIT
        assert table.conflict(1, -1, first) is Conflict.NONE
        assert table.conflict(1, 0, not first) is Conflict.NONE
        assert table.answered(1, -1) is not None
        assert table.conflict(1, -1, not first) is Conflict.NONE


async def test_a_fence_never_takes_an_answer_that_an_abandoned_plain_read_is_owed() -> None:
    table, plain = ReadTable(), read(asyncio.get_running_loop(), fencing=False)
    table.put(1, -1, plain)
    plain.outcome.set_exception(TimeoutError())
    assert table.conflict(1, -1, True) is Conflict.RECONNECT
    assert table.conflict(1, -1, False) is Conflict.NONE
    assert isinstance(plain.outcome, asyncio.Future)
    assert isinstance(plain.outcome.exception(), TimeoutError)


async def test_reads_of_one_entry_are_answered_in_order() -> None:
    loop, table = asyncio.get_running_loop(), ReadTable()
    waits = [read(loop, fencing=False) for _ in range(3)]
    for each in waits:
        table.put(1, 5, each)
    assert [table.answered(1, 5) for _ in range(4)] == [*waits, None]
    assert table.all() == []
