"""Decides which messages a person asked for, and where the search begins. No I/O."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pulsar_proto.ids import I64_MAX, Position

COUNT_MAX = 500
"""How many messages one search returns at most."""

_ID = re.compile(r"(\d{1,19}):(\d{1,19})(?::(-?\d{1,10}))?")


class Start(NamedTuple):
    """Where a search begins: at a message, at a time, at the first message, or so that the last messages are found."""

    position: Position | None = None
    batch_index: int = 0
    """The first message of the batch that is wanted; 0 unless the search goes on within a batch."""
    time_ms: int | None = None
    from_end: bool = False


def start_of(text: str) -> Start:
    """Reads `earliest`, `latest`, an id `ledger:entry` with or without batch index, a time in milliseconds since the
    epoch or in ISO 8601 (without a zone: UTC). Raises ValueError with a sentence."""
    if text == "earliest":
        return Start()
    if text == "latest":
        return Start(from_end=True)
    if match := _ID.fullmatch(text):
        ledger_id, entry_id = int(match[1]), int(match[2])
        if max(ledger_id, entry_id) <= I64_MAX:
            return Start(Position(ledger_id, entry_id), max(0, int(match[3] or 0)))
    elif text.isdecimal() and len(text) <= 15:
        return Start(time_ms=int(text))
    else:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            return Start(time_ms=int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000))
    raise ValueError(
        f"'{text}' names no place in a topic: give earliest, latest, an id such as 12:0, milliseconds since the epoch, "
        "or a time such as 2026-01-31T12:00:00Z"
    )


class MessageFilter(NamedTuple):
    """What a message must have to be shown. A field that is None asks for nothing."""

    key: str | None = None
    property_name: str | None = None
    property_value: str | None = None
    text: str | None = None
    """A text that occurs in the value as it is shown, whatever its case."""

    def takes_head(self, key: str | None, properties: Mapping[str, str]) -> bool:
        """Whether key and properties are the ones that were asked for. Asked before a value is decoded."""
        if self.key is not None and self.key != key:
            return False
        if self.property_name is None:
            return True
        if self.property_name not in properties:
            return False
        return self.property_value is None or properties[self.property_name] == self.property_value

    def takes_content(self, content: Any) -> bool:
        """Whether the text occurs in the content, which is any JSON value."""
        if self.text is None:
            return True
        shown = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        return self.text.casefold() in shown.casefold()


def filter_of(key: str | None, name_and_value: str | None, text: str | None) -> MessageFilter:
    """Makes the filter of the query parameters `key`, `property` (`name` or `name=value`) and `text`."""
    name, separator, value = (name_and_value or "").partition("=")
    return MessageFilter(key, name or None, value if separator else None, text or None)
