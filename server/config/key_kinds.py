"""The kinds of configuration keys: whole numbers, switches and texts, each with the values that it accepts."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

MAX_INT = 2**31 - 1
"""Java's Integer.MAX_VALUE."""
MAX_LONG = 10**18 - 1
"""The largest value of keys that count bytes or the like. It is more than any disk holds, and fits a Java Long."""
MAX_FRAME_BYTES = 1 << 30
DAY_SECONDS = 86_400
YEAR_MINUTES = 366 * 24 * 60
TEBIBYTE = 1 << 40

Value = int | float | bool | str | tuple[str, ...]

PORT_OFF = -1
"""The port number that stands for "no port": nobody listens."""

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


def snake_case(name: str) -> str:
    """Returns the field name of a key: `journalMaxSizeMB` becomes `journal_max_size_mb`."""
    return _WORD_START.sub("_", name).lower()


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key. `parse` turns the configured text into a value or raises ValueError, and `expected` says
    in words which texts `parse` accepts."""

    name: str
    fields: tuple[str, ...]
    parse: Callable[[str], Value]
    expected: str
    empty: Value | None = None
    """The value of a key that is set to nothing. None means that such a key keeps its default."""
    is_secret: bool = False
    """Whether the value must never be printed."""
    unit: str = ""
    """The unit of a number, such as "seconds"; empty for a number without a unit and for other kinds."""


def whole(name: str, least: int, most: int, unit: str = "", fields: tuple[str, ...] = ()) -> Key:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or not least <= int(text) <= most:
            raise ValueError(text)
        return int(text)

    of_unit = f" of {unit}" if unit else ""
    expected = f"a whole number{of_unit} from {least} to {most}"
    return Key(name, fields or (snake_case(name),), parse, expected, unit=unit)


def number(name: str, least: float, most: float, unit: str = "", fields: tuple[str, ...] = ()) -> Key:
    def parse(text: str) -> float:
        if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text):
            raise ValueError(text)
        if not least <= float(text) <= most:
            raise ValueError(text)
        return float(text)

    of_unit = f" of {unit}" if unit else ""
    expected = f"a number{of_unit} from {least:g} to {most:g}"
    return Key(name, fields or (snake_case(name),), parse, expected, unit=unit)


def switch(name: str) -> Key:
    def parse(text: str) -> bool:
        if text.lower() not in ("true", "false"):
            raise ValueError(text)
        return text.lower() == "true"

    return Key(name, (snake_case(name),), parse, "true or false")


def text(name: str, pattern: str, expected: str) -> Key:
    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(text)
        return text

    return Key(name, (snake_case(name),), parse, expected)


def choice(name: str, *choices: str) -> Key:
    return text(name, "|".join(choices), f"one of {', '.join(choices)}")


def port(name: str) -> Key:
    """Returns the key of a port. An empty value means that there is no such port, which is the rule of Apache's
    broker."""
    return replace(whole(name, 0, 65_535), empty=PORT_OFF)


def any_text(name: str, *, is_secret: bool = False) -> Key:
    return Key(name, (snake_case(name),), str, "a text", is_secret=is_secret)


def names(name: str) -> Key:
    def parse(text: str) -> tuple[str, ...]:
        return tuple(item.strip() for item in text.split(",") if item.strip())

    return Key(name, (snake_case(name),), parse, "a list with commas")


def list_of(name: str, *choices: str) -> Key:
    def parse(text: str) -> tuple[str, ...]:
        items = tuple(item.strip() for item in text.split(",") if item.strip())
        if not set(items) <= set(choices):
            raise ValueError(text)
        return items

    return Key(name, (snake_case(name),), parse, f"a list, with commas, of {', '.join(choices)}")
