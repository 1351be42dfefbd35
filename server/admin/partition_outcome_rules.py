"""Makes one answer for a topic out of the answers for its partitions. This module does no I/O.

Each function takes the outcomes in the order of the partitions. Source: PersistentTopicsBase, whose calls on
partitioned topics gather the answers of the admin client.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer, Refusal

NOT_FOUND = 404
CONFLICT = 409


class Outcome(NamedTuple):
    """The outcome of a call on one partition: the content of its answer, or its refusal."""

    partition: int
    value: Any = None
    """The content of the answer; None when the answer had no content."""
    refusal: Refusal | None = None


def values(outcomes: Sequence[Outcome]) -> list[Any]:
    """Returns the contents of the answers. Raises the first Refusal, if there is one."""
    for outcome in outcomes:
        if outcome.refusal is not None:
            raise outcome.refusal
    return [outcome.value for outcome in outcomes]


def done(outcomes: Sequence[Outcome]) -> Answer:
    """Answers a call that has to succeed everywhere. Raises the first Refusal."""
    values(outcomes)
    return NO_CONTENT


def shown(outcomes: Sequence[Outcome]) -> Answer:
    """Answers a call that has to succeed everywhere with an empty answer of status 200. Raises the first Refusal."""
    values(outcomes)
    return EMPTY


def gone(outcomes: Sequence[Outcome]) -> Answer:
    """Answers a call that deletes something, which some partitions may lack: their refusals 404 are ignored. Raises the
    first Refusal of any other status, and Refusal 404 when all partitions answered 404."""
    return _done_unless(outcomes, NOT_FOUND)


def made(outcomes: Sequence[Outcome]) -> Answer:
    """Answers a call that creates something, which some partitions may have already: their refusals 409 are ignored.
    Raises the first Refusal of any other status, and Refusal 409 when all partitions answered 409."""
    return _done_unless(outcomes, CONFLICT)


def started(outcomes: Sequence[Outcome]) -> Answer:
    """Answers a call that starts work. Refusals 409 of partitions that do the work already, and 404 of partitions that
    nobody has used yet, are ignored. Raises the first Refusal of any other status, and the first Refusal of all when
    the work started in no partition."""
    return _done_unless(outcomes, NOT_FOUND, CONFLICT)


def _done_unless(outcomes: Sequence[Outcome], *tolerated: int) -> Answer:
    others = [each for each in outcomes if each.refusal is None or each.refusal.status not in tolerated]
    return done(others or outcomes[:1])


def merged(outcomes: Sequence[Outcome]) -> Answer:
    """Joins the objects in the answers. If several have a value for one key, the last partition's value counts. Raises
    the first Refusal."""
    joined: dict[str, Any] = {}
    for value in values(outcomes):
        joined |= value or {}
    return joined


def listed(outcomes: Sequence[Outcome]) -> Answer:
    """Joins the lists of names in the answers into one sorted list, which has each name once. Raises the first
    Refusal."""
    return sorted({name for names in values(outcomes) for name in names or ()})


def by_index(outcomes: Sequence[Outcome]) -> Answer:
    """Answers with an object that maps the number of each partition to the content of its answer. Raises the first
    Refusal."""
    return {str(outcome.partition): value for outcome, value in zip(outcomes, values(outcomes), strict=True)}


def succeeded(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Returns the outcomes that are not refusals, for calls on statistics: the statistics of some partitions are better
    than no statistics."""
    return [outcome for outcome in outcomes if outcome.refusal is None]
