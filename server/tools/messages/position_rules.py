"""Places in a topic as a person writes them: `earliest`, `latest`, a message's id, a time, or a time that is some while
ago. This module does no I/O.

    earliest, latest
    12:34, 12:34:-1, 12:34:2:0     ledger:entry[:partition[:batch index]], as Java's MessageIdImpl prints ids
    (12,34,-1,0)                   as the C++ and Python clients print them
    2026-11-24, 2026-11-24T06:30, 2026-11-24T06:30:00.5Z, 2026-11-24T06:30+02:00
    @1763966400, @1763966400000    seconds (up to 11 digits) or milliseconds since 1970
    -1h, -30s, -2d, 1h             an hour ago, and so on; `now` is this moment
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import Enum

from magnetar.server.tools.messages.quantity_rules import duration_seconds

_JAVA_ID = re.compile(r"(\d{1,19}):(-?\d{1,19})(?::(-1|\d{1,9}))?(?::(-1|\d{1,9}))?")
_CLIENT_ID = re.compile(r"\((\d{1,19}),(-?\d{1,19}),(-1|\d{1,9}),(-1|\d{1,9})\)")
_UNIX = re.compile(r"@(\d{1,15})")
SECONDS_DIGITS_MAX = 11
I64_MAX = 2**63 - 1


class End(Enum):
    """The two ends of a topic."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class Place:
    """The id of a message. `partition` and `batch_index` are -1 when the id does not have them."""

    ledger: int
    entry: int
    partition: int = -1
    batch_index: int = -1

    def __str__(self) -> str:
        text = f"{self.ledger}:{self.entry}:{self.partition}"
        return text if self.batch_index < 0 else f"{text}:{self.batch_index}"

    def is_before(self, other: "Place") -> bool:
        """Returns whether this message lies before `other` in its partition. An id without a batch index stands for all
        messages of its entry."""
        if (self.ledger, self.entry) != (other.ledger, other.entry) or other.batch_index < 0:
            return (self.ledger, self.entry) < (other.ledger, other.entry)
        return self.batch_index < other.batch_index

    def is_at(self, other: "Place") -> bool:
        """Returns whether both are the id of one message of their partition."""
        return (self.ledger, self.entry, self.batch_index) == (other.ledger, other.entry, other.batch_index)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time, in milliseconds since 1970."""

    ms: int


Position = End | Place | Moment


def parse_position(text: str, now_ms: int, zone: tzinfo | None = None) -> Position:
    """Parses a position. A time without a zone is taken in `zone`, which is the machine's own zone when it is None.
    Raises ValueError with a sentence."""
    if text in ("earliest", "latest"):
        return End(text)
    if text == "now":
        return Moment(now_ms)
    found = _JAVA_ID.fullmatch(text) or _CLIENT_ID.fullmatch(text)
    if found is not None:
        place = Place(*(-1 if each is None else int(each) for each in found.groups()))
        if place.ledger > I64_MAX or place.entry > I64_MAX:
            raise ValueError(f"'{text}' is no message id: its numbers are too large")
        return place
    return Moment(_time_ms(text, now_ms, zone))


def _time_ms(text: str, now_ms: int, zone: tzinfo | None) -> int:
    unix = _UNIX.fullmatch(text)
    if unix is not None:
        return int(unix[1]) * (1000 if len(unix[1]) <= SECONDS_DIGITS_MAX else 1)
    try:
        if not re.match(r"\d{4}-", text):
            return _before(now_ms, duration_seconds(text.removeprefix("-")))
        when = datetime.fromisoformat(text)
        if when.tzinfo is None:
            when = when.replace(tzinfo=zone) if zone is not None else when.astimezone()
        return max(0, round(when.timestamp() * 1000))
    except (ValueError, OverflowError):
        raise ValueError(
            f"'{text}' is no place in a topic: earliest, latest, an id such as 12:34, "
            "a time such as 2026-11-24T06:30, @1763966400 or -1h"
        ) from None


def _before(moment_ms: int, seconds: float) -> int:
    return max(0, int(moment_ms - seconds * 1000))


def time_text(moment_ms: int) -> str:
    """Returns a time in UTC with milliseconds, such as `2026-11-24T06:30:00.000Z`; a time beyond the year 9999, which a
    foreign client may have sent, as its number."""
    try:
        when = datetime.fromtimestamp(moment_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(moment_ms)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{moment_ms % 1000:03}Z"
