"""The ledger of receipts notices each kind of damage; otherwise the crash rounds would prove nothing."""

from collections.abc import Callable

import pytest

from compat_tests.python.receipts import (
    AckRecord,
    ProducerRecord,
    Stored,
    complaints_about_log,
    complaints_about_subscription,
    complaints_about_unanswered,
    parse,
)


def sound_history() -> tuple[list[Stored], dict[str, ProducerRecord]]:
    """Returns the history of two producers with ten messages each, interleaved; eight of each have a receipt."""
    producers = {name: ProducerRecord(name, sent=12) for name in ("a", "b")}
    log = [Stored("ab"[entry % 2], entry // 2, (1, entry, -1)) for entry in range(20)]
    for stored in log[:16]:
        producers[stored.producer].receipts.append(stored.place)
    for record in producers.values():
        record.receipted_before_crash = 8
    return log, producers


def test_a_sound_log_has_no_complaints() -> None:
    log, producers = sound_history()
    assert complaints_about_log(log, producers, crashes=0) == []


def test_beginning_again_after_a_crash_at_an_unreceipted_message_is_sound() -> None:
    log, producers = sound_history()
    log += [Stored("a", sequence, (2, sequence, -1)) for sequence in range(8, 12)]
    assert complaints_about_log(log, producers, crashes=1) == []


Damage = Callable[[list[Stored]], object]
DAMAGES: dict[str, tuple[str, Damage]] = {
    "a receipted message is gone": ("(3)", lambda log: log.pop(5)),
    "a receipted tail is gone": ("(3)", lambda log: log.__delitem__(slice(10, None))),
    "a message is stored elsewhere": ("(3)", lambda log: log.__setitem__(15, Stored("b", 7, (1, 15, 3)))),
    "two messages changed places": (
        "(2)",
        lambda log: log.__setitem__(slice(2, 5), [Stored("a", 2, (1, 2, -1)), log[3], Stored("a", 1, (1, 4, -1))]),
    ),
    "a receipted message is stored twice": ("(2)", lambda log: log.append(Stored("a", 7, (2, 0, -1)))),
    "a producer begins again without a crash": ("(2)", lambda log: log.append(Stored("a", 9, (2, 0, -1)))),
    "a message was never sent": ("(1)", lambda log: log.append(Stored("a", 12, (2, 0, -1)))),
    "a producer is unknown": ("(1)", lambda log: log.append(Stored("c", 0, (2, 0, -1)))),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_noticed(what: str) -> None:
    claim, damage = DAMAGES[what]
    log, producers = sound_history()
    damage(log)
    found = complaints_about_log(log, producers, crashes=0)
    assert any(complaint.startswith(claim) for complaint in found), found


def test_a_send_without_a_receipt_is_noticed() -> None:
    _, producers = sound_history()
    assert [each[:3] for each in complaints_about_unanswered(producers.values())] == ["(6)", "(6)"]
    for record in producers.values():
        record.sent = len(record.receipts)
    assert complaints_about_unanswered(producers.values()) == []


def test_a_changed_body_is_noticed() -> None:
    body = ProducerRecord("a").body(123)
    assert parse(body, (1, 2, 3)) == Stored("a", 123, (1, 2, 3))
    for at in (0, 12, len(body) - 1):
        changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
        with pytest.raises(ValueError, match="damaged"):
            parse(changed, (1, 2, 3))


def test_subscriptions_may_repeat_young_acks_but_not_old_ones() -> None:
    log, _ = sound_history()
    acks = AckRecord(individual={(1, 3, -1): 10.0, (1, 4, -1): 20.0})
    everything = {stored.place for stored in log}
    check = complaints_about_subscription
    assert check("s", everything - {(1, 3, -1)}, log, acks, 15.0) == []
    assert check("s", everything - {(1, 3, -1), (1, 4, -1)}, log, acks, 15.0) == []
    assert [each[:3] for each in check("s", everything, log, acks, 15.0)] == ["(5)"]
    assert [each[:3] for each in check("s", everything - {(1, 3, -1), (1, 5, -1)}, log, acks, 15.0)] == ["(4)"]


def test_a_cumulative_ack_covers_what_lies_before_it() -> None:
    log, _ = sound_history()
    acks = AckRecord(cumulative=[(10.0, (1, 4, -1)), (20.0, (1, 9, -1))])
    rest = {stored.place for stored in log if stored.place > (1, 4, -1)}
    check = complaints_about_subscription
    assert check("s", rest, log, acks, 15.0) == []
    assert [each[:3] for each in check("s", rest | {(1, 2, -1)}, log, acks, 15.0)] == ["(5)"]
    assert [each[:3] for each in check("s", rest - {(1, 12, -1)}, log, acks, 15.0)] == ["(4)"]
