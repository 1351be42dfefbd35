"""Reads the JSON bodies of admin calls, as leniently as Jackson does for Apache's broker.

A number may be written as a string, a scalar may be null, and unknown keys of an object are ignored. Every function
here that reads a value raises Refusal 400 when the value is of a wrong kind. The text of the refusal names the fault,
and calls the value by the word in the parameter `what`. This module does no I/O.
"""

import json
import math
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any, Final, TypeVar

from magnetar.server.web.calls import Refusal

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

NUMBER = re.compile(r"[+-]?[0-9]{1,40}(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,2})?")

Kind = TypeVar("Kind", bound=StrEnum)


class _Absent:
    """The class of the constant ABSENT. Like None, ABSENT is false in a condition."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = _Absent()
"""Stands for an empty body, which differs from one that says `null`."""


def parse(body: bytes) -> Any:
    """Returns the value of a JSON body, or ABSENT for an empty one."""
    if not body.strip():
        return ABSENT
    try:
        parsed = json.loads(body, parse_constant=_no_constant)
        if b"\\u" in body or b"\xed" in body:
            # The encoding raises for a string with half of a surrogate pair, which cannot be stored anywhere.
            json.dumps(parsed, ensure_ascii=False).encode()
        return parsed
    except (ValueError, RecursionError) as error:
        raise Refusal(400, f"The body is not JSON: {error}") from None


def word(body: bytes) -> str:
    """Returns the text of a body that is a string. The string may stand in JSON's quotation marks, or without them, as
    Apache's Java client sends a string. Returns "" for an empty body and for null."""
    try:
        raw = body.decode().strip()
    except UnicodeDecodeError:
        raise Refusal(400, "The body is not UTF-8") from None
    if raw == "null":
        return ""
    return text(parse(body)) if raw.startswith('"') else raw


def present(value: Any) -> Any:
    """Returns the value unchanged. Raises Refusal 400 for ABSENT, because the call needs a body."""
    if value is ABSENT:
        raise Refusal(400, "The request entity cannot be empty.")
    return value


def integer(value: Any, most: int = INT_MAX, what: str = "the body") -> int:
    """Reads a whole number from -most - 1 to most. As in Java, null is 0 and a fraction is cut off."""
    if value is None:
        return 0
    number = _number(value)
    if number is None or isinstance(value, bool):
        raise Refusal(400, f"{what} must be a whole number, not {_shown(value)}")
    if not -most - 1 <= number <= most:
        raise Refusal(400, f"{what}: {_shown(value)} is out of the range of {-most - 1} to {most}")
    return int(number)


def optional_integer(value: Any, most: int = INT_MAX, what: str = "the body") -> int | None:
    return None if value is None else integer(value, most, what)


def number(value: Any, what: str) -> float:
    parsed = 0.0 if value is None else _number(value)
    if parsed is None:
        raise Refusal(400, f"{what} must be a number, not {_shown(value)}")
    return float(parsed)


def boolean(value: Any, what: str = "the body") -> bool:
    if value is None:
        return False
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise Refusal(400, f"{what} must be true or false, not {_shown(value)}")
    return value


def text(value: Any, what: str = "the body") -> str:
    if isinstance(value, dict | list) or value is None:
        raise Refusal(400, f"{what} must be a string, not {_shown(value)}")
    return value if isinstance(value, str) else json.dumps(value)


def obj(value: Any, what: str = "the body") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Refusal(400, f"{what} must be an object, not {_shown(value)}")
    return value


def strings(value: Any, what: str = "the body") -> list[str]:
    """Reads a list of strings. Repeated strings are left out; the order is kept."""
    if not isinstance(value, list):
        raise Refusal(400, f"{what} must be a list of strings, not {_shown(value)}")
    return list(dict.fromkeys(text(each, f"a member of {what}") for each in value))


def string_map(value: Any, what: str = "the body") -> dict[str, str]:
    return {key: text(each, f"{key} in {what}") for key, each in obj(value, what).items()}


def one_of(value: Any, choices: Iterable[str], what: str = "the body") -> str:
    chosen = text(value, what)
    allowed = list(choices)
    if chosen not in allowed:
        raise Refusal(400, f"{what}: {_shown(chosen)} is none of {', '.join(allowed)}")
    return chosen


def some_of(value: Any, choices: Iterable[str], what: str = "the body") -> list[str]:
    allowed = list(choices)
    return [one_of(each, allowed, what) for each in strings(value, what)]


def fields(value: Any, readers: dict[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Reads an object by one reader for each key. A key that is missing is read as null; other keys are ignored."""
    known = obj(value)
    return {key: read(known.get(key)) for key, read in readers.items()}


def _number(value: Any) -> int | float | None:
    """Returns the value if it is a number, or the number that a string spells. Returns None for any other value."""
    if isinstance(value, int | float):
        return value if math.isfinite(value) else None
    if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
        return float(value) if set(value) & set(".eE") else int(value)
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 80 else f"{shown[:80]}…"
