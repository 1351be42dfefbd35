"""Writes values as Java's tools print them, byte for byte: Jackson's default pretty printer, Gson, and toString.

Scripts read the output of pulsar-admin, so blanks and line ends count.
"""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

_PLAIN_BELOW = 10.0**7
_PLAIN_FROM = 10.0**-3
_HTML_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&='\u2028\u2029"}
"""They stand in texts only, never in the rest of JSON."""


def pretty(value: Any) -> str:
    """Returns the text of Jackson's DefaultPrettyPrinter: objects over lines, arrays on one line."""
    return _pretty(value, "\n")


def _pretty(value: Any, line: str) -> str:
    if isinstance(value, dict):
        if not value:
            return "{ }"
        inner = line + "  "
        members = f",{inner}".join(f"{_quoted(str(key))} : {_pretty(item, inner)}" for key, item in value.items())
        return f"{{{inner}{members}{line}}}"
    if isinstance(value, list | tuple):
        if not value:
            return "[ ]"
        return f"[ {', '.join(_pretty(item, line) for item in value)} ]"
    return _scalar(value)


def compact(value: Any) -> str:
    """Returns JSON without blanks, as Jackson writes it when nobody asks for lines."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(str(key))}:{compact(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(compact(item) for item in value) + "]"
    return _scalar(value)


def gson(value: Any, indent: str = "") -> str:
    """Returns what Gson writes: without blanks, or over lines with an indent, arrays too. Characters that mean
    something in HTML are escaped."""
    text = _gson_indented(value, indent, "\n") if indent else compact(value)
    return text.translate(_HTML_ESCAPES)


def _gson_indented(value: Any, indent: str, line: str) -> str:
    if isinstance(value, dict):
        members = [f"{_quoted(str(key))}: {_gson_indented(item, indent, line + indent)}" for key, item in value.items()]
    elif isinstance(value, list | tuple):
        members = [_gson_indented(item, indent, line + indent) for item in value]
    else:
        return _scalar(value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}{line + indent}{f',{line + indent}'.join(members)}{line}{last}" if members else first + last


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, int):
        return str(value)
    return _quoted(str(value))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def double_text(value: float) -> str:
    """Returns what Java's Double.toString gives: `0.5`, `1.0E10`, `1.0E-4`. Infinite and missing values are texts in
    Jackson's JSON."""
    if value != value or value in (float("inf"), float("-inf")):
        return '"NaN"' if value != value else '"Infinity"' if value > 0 else '"-Infinity"'
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value) if "e" not in repr(value) else f"{Decimal(repr(value)):f}"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"


def to_string(value: Any) -> str:
    """Returns what Java's string concatenation makes of a value: collections as `[a, b]` and `{a=b}`."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={to_string(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(to_string(item) for item in value) + "]"
    return _scalar(value)


def lombok_text(name: str, fields: Mapping[str, Any]) -> str:
    """Returns what the toString that Lombok makes for a class gives: `Name(field=value, …)`."""
    return f"{name}({', '.join(f'{field}={to_string(value)}' for field, value in fields.items())})"


def printed(value: Any) -> str:
    """Returns what CliCommand.print shows: a text as it is, everything else as pretty JSON."""
    return value if isinstance(value, str) else pretty(value)
