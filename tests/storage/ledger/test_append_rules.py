"""The writer's state machine, driven by hand: what is sent, which answers count, what is confirmed and when."""

import pytest

from magnetar.storage.ledger.append_group_rules import Append
from magnetar.storage.ledger.append_rules import ANSWER_TICKS, Phase
from magnetar.storage.ledger.ledger_errors import BookieTimeout, LedgerClosed, LedgerFenced, UnauthorizedAccess
from magnetar.storage.ledger.quorum_rules import write_set
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.storage.ledger.append_machine import EIO, change, confirmed, group, machine_of, unused


def test_one_bookie_one_answer_confirms_the_whole_group() -> None:
    machine = machine_of("a", 1, 1)
    (send,) = machine.push(group(machine, 60))
    assert (send.index, list(send.ids), len(send.entries)) == (0, list(range(60)), 60)
    assert machine.last_add_confirmed == -1
    assert machine.answered(send, range(60), 0)
    assert confirmed(machine) == [0]
    assert (machine.last_add_confirmed, machine.length_confirmed, machine.pending_entries) == (59, 600, 0)


def test_answers_out_of_order_are_confirmed_in_order() -> None:
    machine = machine_of("a", 1, 1)
    first, second, third = (machine.push(group(machine, 2))[0] for _ in range(3))
    assert not machine.answered(third, third.ids, 0)
    assert not machine.answered(second, second.ids, 0)
    assert confirmed(machine) == []
    assert machine.answered(first, first.ids, 0)
    assert confirmed(machine) == [0, 2, 4]


def test_a_group_answered_in_parts_is_confirmed_after_the_last_part() -> None:
    machine = machine_of("ab", 2, 2)
    a, b = machine.push(group(machine, 4))
    assert not machine.answered(a, [0, 1, 2, 3], 0)
    assert not machine.answered(b, [3, 0], 0)
    assert not machine.answered(b, [1], 0)
    assert machine.answered(b, [2], 0)
    assert confirmed(machine) == [0]


def test_entries_may_owe_their_quorum_to_different_bookies() -> None:
    machine = machine_of("abc", 3, 2)
    a, b, c = machine.push(group(machine, 2))
    assert not machine.answered(a, [0], 0)
    assert not machine.answered(b, [1], 0)
    assert not machine.answered(c, [0], 0)
    assert machine.answered(c, [1], 0)
    assert confirmed(machine) == [0]


def test_striping_sends_each_bookie_what_it_holds() -> None:
    machine = machine_of("abcde", 3, 2)
    sends = machine.push(group(machine, 4))
    assert {send.index: list(send.ids) for send in sends} == {
        0: [0, 3],
        1: [0, 1],
        2: [0, 1, 2],
        3: [1, 2, 3],
        4: [2, 3],
    }
    for send in sends:
        assert list(send.entries) == [b"entry %d" % entry_id for entry_id in send.ids]
    small = machine.push(group(machine, 1))
    assert [send.index for send in small] == sorted(write_set(4, 5, 3))


def test_an_answer_more_than_the_quorum_changes_nothing() -> None:
    machine = machine_of("abc", 3, 2)
    a, b, c = machine.push(group(machine, 3))
    machine.answered(a, a.ids, 0)
    assert machine.answered(b, b.ids, 0)
    assert confirmed(machine) == [0]
    assert not machine.answered(c, c.ids, 0)
    assert confirmed(machine) == []


@pytest.mark.parametrize(("rc", "error"), [(BookieRc.EFENCED, LedgerFenced), (BookieRc.EUA, UnauthorizedAccess)])
def test_one_fenced_or_unauthorised_answer_ends_the_writer(rc: BookieRc, error: type[Exception]) -> None:
    machine = machine_of("abc", 3, 2)
    sends = machine.push(group(machine, 1))
    machine.push(group(machine, 2))
    assert machine.answered(sends[2], sends[2].ids, int(rc))
    assert isinstance(machine.broken, error)
    assert not machine.must_change
    failed = machine.end(machine.broken)
    assert [append.first_entry_id for append in failed] == [0, 1]
    assert all(append.error is machine.broken for append in failed)
    assert (machine.phase, machine.last_add_pushed, machine.length) == (Phase.ENDED, -1, 0)


def test_nothing_is_confirmed_while_the_ensemble_changes() -> None:
    machine = machine_of("abc", 3, 2)
    first = machine.push(group(machine, 1))
    second = machine.push(group(machine, 1))
    assert machine.answered(first[0], first[0].ids, EIO)
    assert machine.must_change
    machine.begin_change()
    assert machine.take_failed() == {0: "a"}
    for send in (*first[1:], *second[1:]):
        machine.answered(send, send.ids, 0)
    assert confirmed(machine) == []
    resent = machine.ensemble_changed("dbc")
    assert [(send.index, list(send.ids)) for send in resent] == [(0, [0]), (0, [1])]
    assert confirmed(machine) == []
    machine.resume()
    assert confirmed(machine) == [0, 1]


def test_a_replaced_bookie_no_longer_counts_and_its_entries_are_sent_again() -> None:
    machine = machine_of("ab", 2, 2)
    a, b = machine.push(group(machine, 2))
    a2, _ = machine.push(group(machine, 1))
    machine.answered(b, b.ids, 0)
    machine.answered(a2, a2.ids, EIO)
    resent = change(machine, "cb")
    machine.resume()
    assert not machine.answered(a, a.ids, 0), "an answer of a bookie that left"
    assert confirmed(machine) == []
    assert [list(send.ids) for send in resent] == [[0, 1], [2]]
    assert list(resent[0].entries) == list(a.entries)
    assert machine.answered(resent[0], resent[0].ids, 0)
    assert confirmed(machine) == [0]


def test_acknowledgements_that_came_before_the_change_are_forgotten_for_a_replaced_bookie() -> None:
    machine = machine_of("abc", 3, 2)
    sends = machine.push(group(machine, 2))
    machine.answered(sends[0], [0], 0)
    machine.answered(sends[0], [1], EIO)
    resent = change(machine, "dbc")
    machine.resume()
    machine.answered(sends[1], [0, 1], 0)
    assert confirmed(machine) == [], "a had entry 0, but is no member any more"
    assert machine.answered(resent[0], [0, 1], 0)
    assert confirmed(machine) == [0]


def test_groups_that_come_during_a_change_reach_the_new_bookie() -> None:
    machine = machine_of("ab", 2, 2)
    a, _ = machine.push(group(machine, 1))
    machine.answered(a, a.ids, EIO)
    machine.begin_change()
    machine.take_failed()
    assert [send.index for send in machine.push(group(machine, 1))] == [1], "the failed bookie gets no more"
    assert [(send.index, list(send.ids)) for send in machine.ensemble_changed("cb")] == [(0, [0]), (0, [1])]


def test_a_failure_during_a_change_makes_it_go_round_again() -> None:
    machine = machine_of("abc", 3, 2)
    a, b, _ = machine.push(group(machine, 1))
    machine.answered(a, a.ids, EIO)
    machine.begin_change()
    machine.take_failed()
    assert machine.answered(b, b.ids, EIO)
    assert not machine.must_change, "one change at a time"
    machine.ensemble_changed("dbc")
    assert machine.take_failed() == {1: "b"}
    machine.ensemble_changed("dec")
    assert machine.take_failed() == {}
    machine.resume()
    assert machine.ensemble == ("d", "e", "c")


def test_a_failed_bookie_without_replacement_is_asked_once_more() -> None:
    machine = machine_of("abc", 3, 3)
    a, b, c = machine.push(group(machine, 1))
    machine.answered(a, a.ids, EIO)
    machine.answered(b, b.ids, EIO)
    machine.answered(c, c.ids, 0)
    resent = change(machine, "dbc")
    machine.resume()
    assert [send.index for send in resent] == [0, 1]
    assert machine.answered(resent[1], resent[1].ids, EIO)
    assert machine.must_change


def test_a_failure_after_the_quorum_waits_for_the_next_append() -> None:
    machine = machine_of("abc", 3, 2)
    a, b, c = machine.push(group(machine, 1))
    machine.answered(a, a.ids, 0)
    machine.answered(b, b.ids, 0)
    assert confirmed(machine) == [0]
    machine.answered(c, c.ids, EIO)
    assert not machine.must_change
    assert [send.index for send in machine.push(group(machine, 1))] == [0, 1]
    assert machine.must_change


def test_a_silent_bookie_has_failed_after_the_deadline_and_not_before() -> None:
    machine = machine_of("ab", 2, 2)
    machine.tick()
    a, _ = machine.push(group(machine, 1))
    machine.answered(a, a.ids, 0)
    for _ in range(ANSWER_TICKS):
        assert machine.tick()
        assert not machine.must_change
    assert machine.tick()
    assert machine.must_change
    assert dict(machine.failures()) == {1: BookieTimeout.code}


def test_a_bookie_silent_beyond_the_quorum_is_noticed_too() -> None:
    machine = machine_of("abc", 3, 2)
    a, b, _ = machine.push(group(machine, 1))
    for send in (a, b):
        machine.answered(send, send.ids, 0)
    assert confirmed(machine) == [0]
    for _ in range(ANSWER_TICKS + 1):
        machine.tick()
    machine.push(group(machine, 1))
    assert machine.must_change


def test_with_every_answer_in_the_timer_may_stop() -> None:
    machine = machine_of("a", 1, 1)
    assert not machine.tick()
    (send,) = machine.push(group(machine, 1))
    assert machine.tick()
    machine.answered(send, send.ids, 0)
    assert not machine.tick()


def test_a_writer_goes_at_the_pace_of_a_bookie_that_is_too_far_behind() -> None:
    machine = machine_of("abc", 3, 2, lagging_bytes_max=100)
    unanswered = []
    for _ in range(20):
        *quick, slow = machine.push(group(machine, 1))
        unanswered.append(slow)
        for send in quick:
            machine.answered(send, send.ids, 0)
        confirmed(machine)
    # The first entry ends at 10 bytes, so the eleventh is 100 bytes ahead of the slow bookie.
    assert machine.last_add_confirmed == 10
    assert not machine.must_change
    for last_confirmed, slow in zip(range(11, 20), unanswered, strict=False):
        assert machine.answered(slow, slow.ids, 0)
        confirmed(machine)
        assert machine.last_add_confirmed == last_confirmed


def test_a_bookie_too_far_behind_that_stays_silent_is_replaced_at_its_deadline() -> None:
    machine = machine_of("abc", 3, 2, lagging_bytes_max=100)
    for _ in range(12):
        for send in machine.push(group(machine, 1))[:2]:
            machine.answered(send, send.ids, 0)
        confirmed(machine)
    while not machine.must_change:
        assert machine.tick()
    assert list(machine.failures()) == [2]
    machine.begin_change()
    machine.take_failed()
    for send in machine.ensemble_changed("abd"):
        machine.answered(send, send.ids, 0)
    machine.resume()
    confirmed(machine)
    assert machine.last_add_confirmed == 11


def test_ending_returns_the_length_to_what_is_confirmed() -> None:
    machine = machine_of("a", 1, 1, lac=9)
    (first,) = machine.push(group(machine, 3))
    machine.push(group(machine, 3))
    machine.answered(first, first.ids, 0)
    confirmed(machine)
    assert (machine.last_add_pushed, machine.length) == (15, 60)
    error = LedgerClosed("closed")
    assert [append.first_entry_id for append in machine.end(error)] == [13]
    assert (machine.last_add_confirmed, machine.last_add_pushed, machine.length) == (12, 12, 30)
    assert not machine.answered(first, [], 0)
    with pytest.raises(AssertionError):
        machine.push(group(machine, 1))


def test_entry_ids_follow_each_other() -> None:
    machine = machine_of("a", 1, 1)
    with pytest.raises(AssertionError):
        machine.push(Append(1, [b"x"], 1, unused))
