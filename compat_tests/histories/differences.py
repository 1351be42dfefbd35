"""Compares two replays of a history, and knows by name the differences that `compat_tests/NOTES.md` lists."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from compat_tests.histories.replay import CLOSED, Answer, Replay
from compat_tests.histories.steps import Ack, End, History, Subscription

UNKNOWN = "unknown"
TRANSACTION_CONFLICT = 23


class Difference(NamedTuple):
    reason: str
    """A key of KNOWN, or UNKNOWN."""
    text: str


def whole_after_part(history: History, number: int, theirs: Answer, own: Answer) -> bool:
    """A transaction acknowledges a whole batch of which a part is acknowledged already."""
    step = history.steps[number]
    if not isinstance(step, Ack) or step.txn is None or (theirs.error, own.error) != (TRANSACTION_CONFLICT, None):
        return False
    committed = {each.txn for each in history.steps[:number] if isinstance(each, End) and each.commit}
    return any(
        (each.txn is None or each.txn in committed) and each.indexes and each.entries[0] in step.entries
        for each in _acks_before(history, number, step.subscription)
    )


def part_of_held_whole(history: History, number: int, theirs: Answer, own: Answer) -> bool:
    """Messages of a batch are acknowledged outside of transactions while a transaction holds the whole batch."""
    step = history.steps[number]
    if not isinstance(step, Ack) or step.txn is not None or not step.indexes or theirs != CLOSED:
        return False
    return any(
        each.txn is not None and not each.indexes and step.entries[0] in each.entries
        for each in _acks_before(history, number, step.subscription)
    )


def _acks_before(history: History, number: int, subscription: Subscription) -> list[Ack]:
    """Returns the acknowledgements of a subscription before a step."""
    steps = history.steps[:number]
    return [each for each in steps if isinstance(each, Ack) and each.subscription == subscription]


Reason = Callable[[History, int, Answer, Answer], bool]

KNOWN: Mapping[str, Reason] = {
    "a whole batch of which a part is acknowledged already": whole_after_part,
    "a plain acknowledgement of a part of a batch that a transaction holds": part_of_held_whole,
}
"""Whether the answers to a step, Apache's and ours, differ for this reason, which is a line of NOTES.md. What follows
such a step is not compared."""


def compare(history: History, apaches: Replay, ours: Replay) -> Difference | None:
    """Returns the first difference of two replays, or None."""
    for number, step in enumerate(history.steps):
        theirs, own = apaches.answers.get(number), ours.answers.get(number)
        if theirs is not None and own is not None and theirs != own:
            reason = next((name for name, applies in KNOWN.items() if applies(history, number, theirs, own)), UNKNOWN)
            return Difference(reason, f"step {number} {step}: Apache {theirs}, Magnetar {own}")
    for number, (theirs_seen, own_seen) in enumerate(zip(apaches.looks, ours.looks, strict=False)):
        if theirs_seen != own_seen:
            return Difference(UNKNOWN, f"look {number}: Apache {theirs_seen}, Magnetar {own_seen}")
    for name, view in apaches.views.items():
        if view != ours.views[name]:
            return Difference(UNKNOWN, f"{name}: Apache {view}, Magnetar {ours.views[name]}")
    return None
