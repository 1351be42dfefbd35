"""How the texts on a command line become values: numbers, times, sizes, lists, pairs and positions.

Sources: RelativeTimeUtil and ByteUnitUtil of pulsar-cli-utils, picocli's converters, and CliCommand's
validateMessageIdString. Every function raises ValueError with a text for people.
"""

from typing import Any, NamedTuple

from magnetar.server.tools.admin.command_table import (
    BOOLEAN,
    BYTES,
    COMMA_PAIRS,
    COMMAS,
    FLOAT,
    INTEGER,
    LIST,
    LONG,
    MILLIS,
    PAIRS,
    SECONDS,
    Option,
)

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1
_TIME_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 7 * 86_400, "y": 365 * 86_400}
_SIZE_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class MessageId(NamedTuple):
    """A message id in the JSON form of the REST interface."""

    ledger_id: int
    entry_id: int
    partition_index: int = -1

    def reset_body(self, *, excluded: bool = False) -> dict[str, Any]:
        """Returns the body of the calls that move a subscription (ResetCursorData)."""
        return {
            "ledgerId": self.ledger_id,
            "entryId": self.entry_id,
            "partitionIndex": self.partition_index,
            "batchIndex": -1,
            "excluded": excluded,
        }


EARLIEST = MessageId(-1, -1)
LATEST = MessageId(LONG_MAX, LONG_MAX)


def whole_number(text: str, maximum: int, kind: str) -> int:
    """Returns the number that Java's parseInt or parseLong reads from `text`."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()) or not -maximum - 1 <= int(text) <= maximum:
        raise ValueError(f"'{text}' is not {kind}")
    return int(text)


def seconds(text: str) -> int:
    """Returns the seconds of `3h`. A number without a unit is seconds already."""
    if not text:
        raise ValueError("time cannot be empty")
    number, unit = (text[:-1], text[-1].lower()) if text[-1].isalpha() else (text, "s")
    if unit not in _TIME_UNITS:
        raise ValueError(f"Invalid time unit '{text[-1]}'")
    return whole_number(number, LONG_MAX, "a time such as 90, 10m or 3h") * _TIME_UNITS[unit]


def size_in_bytes(text: str) -> int:
    """Returns the bytes of `10M`. A number without a unit is bytes already."""
    if not text:
        raise ValueError("byte string cannot be empty")
    factor = _SIZE_UNITS.get(text[-1].lower())
    try:
        return whole_number(text[:-1] if factor else text, LONG_MAX, "") * (factor or 1)
    except ValueError:
        raise ValueError(f"Invalid size '{text}'. Valid formats are: (4096, 100K, 10M, 16G, 2T)") from None


def truth(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' is not a boolean")
    return text.lower() == "true"


def decimal(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a double") from None


def pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"Invalid key value pair '{text}', valid format like 'a=b'.")
    return key, value


def message_id(text: str, partition_index: int = -1) -> MessageId:
    """Returns the id of `ledgerId:entryId`."""
    ledger, _, entry = text.partition(":")
    try:
        return MessageId(whole_number(ledger, LONG_MAX, ""), whole_number(entry, LONG_MAX, ""), partition_index)
    except ValueError:
        raise ValueError(f"Invalid message id (must be in format: ledgerId:entryId) value {text}") from None


_SINGLE = {
    INTEGER: lambda text: whole_number(text, INT_MAX, "an int"),
    LONG: lambda text: whole_number(text, LONG_MAX, "a long"),
    FLOAT: decimal,
    BOOLEAN: truth,
    SECONDS: seconds,
    MILLIS: lambda text: seconds(text) * 1_000,
    BYTES: size_in_bytes,
}


def option_value(option: Option, text: str, before: Any) -> Any:
    """Returns the value of an option after one more `text` was given for it. `before` is its value so far, None for an
    option that was not given yet."""
    if option.kind in (LIST, COMMAS):
        return [*(before or ()), *(text.split(",") if option.kind == COMMAS else (text,))]
    if option.kind in (PAIRS, COMMA_PAIRS):
        parts = text.split(",") if option.kind == COMMA_PAIRS else (text,)
        return {**(before or {}), **dict(pair(part) for part in parts)}
    if before is not None:
        raise ValueError("it may be given only once")
    if option.choices and text not in option.choices:
        raise ValueError(f"'{text}' is not one of {', '.join(option.choices)}")
    convert = _SINGLE.get(option.kind)
    return text if convert is None else convert(text)
