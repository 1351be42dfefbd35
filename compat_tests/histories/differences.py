"""Compares two replays of a history, and knows by name the differences that `compat_tests/NOTES.md` lists."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from compat_tests.histories.replay import CLOSED, UNANSWERED, Answer, Replay
from compat_tests.histories.steps import Ack, End, History, Seek, Subscription

UNKNOWN = "unknown"
TRANSACTION_CONFLICT = 23


class Difference(NamedTuple):
    reason: str
    """A key of KNOWN, MOVED_BACK, SET_ANEW or UNKNOWN."""
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
    """Messages of a batch are acknowledged while a transaction holds the whole batch."""
    step = history.steps[number]
    if not isinstance(step, Ack) or not step.indexes or theirs != (CLOSED if step.txn is None else UNANSWERED):
        return False
    return any(
        each.txn is not None and not each.indexes and step.entries[0] in each.entries
        for each in _acks_before(history, number, step.subscription)
    )


MOVED_BACK = "parts of batches stay acknowledged in transactions after a subscription was moved back"


def stays_acknowledged(history: History, view: str, theirs: Sequence[str], own: Sequence[str]) -> bool:
    """Apache's broker does not show messages of batches that were acknowledged before the subscription was moved."""
    moved = {step.subscription.name for step in history.steps if isinstance(step, Seek)}
    hidden = [text for text in own if text not in theirs]
    return view in moved and all("." in text for text in hidden) and [t for t in own if t in theirs] == list(theirs)


SET_ANEW = "a cumulative acknowledgement of a part of a batch in a transaction forgets what was acknowledged behind it"


def comes_again(history: History, view: str, theirs: Sequence[str], own: Sequence[str]) -> bool:
    """Apache's broker shows messages of a batch again that were acknowledged before a cumulative acknowledgement of
    earlier messages of the batch, in a transaction."""
    acks = [step for step in history.steps if isinstance(step, Ack) and step.subscription.name == view]
    again = [text for text in theirs if text not in own]
    return (
        any(ack.cumulative and ack.txn is not None and ack.indexes for ack in acks)
        and all("." in text for text in again)
        and [text for text in theirs if text in own] == list(own)
    )


def _reason(history: History, view: str, theirs: Sequence[str], own: Sequence[str]) -> str:
    """Returns why the views of a subscription differ."""
    if stays_acknowledged(history, view, theirs, own):
        return MOVED_BACK
    return SET_ANEW if comes_again(history, view, theirs, own) else UNKNOWN


def _acks_before(history: History, number: int, subscription: Subscription) -> list[Ack]:
    """Returns the acknowledgements of a subscription before a step."""
    steps = history.steps[:number]
    return [each for each in steps if isinstance(each, Ack) and each.subscription == subscription]


Reason = Callable[[History, int, Answer, Answer], bool]

KNOWN: Mapping[str, Reason] = {
    "a whole batch of which a part is acknowledged already": whole_after_part,
    "an acknowledgement of a part of a batch that a transaction holds as a whole": part_of_held_whole,
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
            reason = _reason(history, name, view, ours.views[name])
            return Difference(reason, f"{name}: Apache {view}, Magnetar {ours.views[name]}")
    return None
