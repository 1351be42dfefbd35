"""`Reason`, one of the reasons why a subscription or a producer gets nothing, and the words that reasons share."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import NamedTuple, TypeVar

from pulsar_proto.counted import counted

T = TypeVar("T")

Json = dict[str, object]

LISTED_MAX = 100
"""How many consumers, producers or hashes the figures of a reason list."""

NAMES_SHOWN_MAX = 5
"""How many names one sentence lists. The figures of the reason list more of them."""


class Holds(Enum):
    """What a reason holds back."""

    EVERYTHING = "everything"
    """No message is delivered, or taken from producers, before this reason is gone."""
    SOME = "some"
    """Some messages wait or some clients are kept out, while other messages pass."""
    NOTHING = "nothing"
    """The reason explains what people see, and holds nothing back."""


class Reason(NamedTuple):
    """One reason. `code` is a name for programs, which stays the same when the sentence is worded better."""

    code: str
    holds: Holds
    sentence: str
    figures: Mapping[str, object] = {}

    def as_json(self) -> Json:
        return {
            "code": self.code,
            "holdsBack": self.holds.value,
            "sentence": self.sentence,
            "figures": dict(self.figures),
        }


def in_the_way(reasons: Iterable[Reason]) -> bool:
    """Whether some message is not delivered, or not taken from a producer, because of one of the reasons."""
    return any(reason.holds is not Holds.NOTHING for reason in reasons)


def duration(seconds: float) -> str:
    """Returns a time in the words of people: `0.4 s`, `12 s`, `3 min 20 s`, `5 h 2 min`, `3 d 4 h`."""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = int(seconds)
    for size, unit, smaller, smaller_unit in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest} {smaller_unit}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def moment(time_ms: int) -> str:
    """Returns a time since the epoch as people and programs read it: in UTC, to the second."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def entries(count: int) -> str:
    return counted(count, "entry", "entries")


def listed(items: Sequence[T], text: Callable[[T], str] = str) -> str:
    """Returns the texts of the items with commas, at most NAMES_SHOWN_MAX of them."""
    shown = ", ".join(map(text, items[:NAMES_SHOWN_MAX]))
    more = len(items) - NAMES_SHOWN_MAX
    return f"{shown} and {more} more" if more > 0 else shown
