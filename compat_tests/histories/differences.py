"""Compares two replays of a history, and knows by name the differences that `compat_tests/NOTES.md` lists."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from compat_tests.histories.replay import Answer, Replay
from compat_tests.histories.steps import Ack, End, History

UNKNOWN = "unknown"
TRANSACTION_CONFLICT = 23


class Difference(NamedTuple):
    reason: str
    """A key of KNOWN, or UNKNOWN."""
    text: str


def whole_after_part(history: History, number: int, theirs: Answer, own: Answer) -> bool:
    """A transaction acknowledges an entry of which a committed transaction has acknowledged a part."""
    step = history.steps[number]
    if not isinstance(step, Ack) or step.txn is None or (theirs.error, own.error) != (TRANSACTION_CONFLICT, None):
        return False
    before = history.steps[:number]
    committed = {each.txn for each in before if isinstance(each, End) and each.commit}
    return any(
        isinstance(each, Ack)
        and each.subscription == step.subscription
        and each.txn in committed
        and bool(each.indexes)
        and each.entries[0] in step.entries
        for each in before
    )


Reason = Callable[[History, int, Answer, Answer], bool]

KNOWN: Mapping[str, Reason] = {"an entry of which a committed transaction has acknowledged a part": whole_after_part}
"""Whether the answers to a step, Apache's and ours, differ for this reason, which is a line of NOTES.md. What follows
such a step is not compared."""


def compare(history: History, apaches: Replay, ours: Replay) -> Difference | None:
    """Returns the first difference of two replays, or None."""
    for number, step in enumerate(history.steps):
        theirs, own = apaches.answers.get(number), ours.answers.get(number)
        if theirs != own and theirs is not None and own is not None:
            reason = next((name for name, applies in KNOWN.items() if applies(history, number, theirs, own)), UNKNOWN)
            return Difference(reason, f"step {number} {step}: Apache {theirs}, Magnetar {own}")
    for number, (theirs_seen, own_seen) in enumerate(zip(apaches.looks, ours.looks, strict=True)):
        if theirs_seen != own_seen:
            return Difference(UNKNOWN, f"look {number}: Apache {theirs_seen}, Magnetar {own_seen}")
    for name, view in apaches.views.items():
        if view != ours.views[name]:
            return Difference(UNKNOWN, f"{name}: Apache {view}, Magnetar {ours.views[name]}")
    return None
