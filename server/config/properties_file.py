"""Reads Java property files, the format of `broker.conf`, `standalone.conf` and `bk_server.conf`.

Format: java.util.Properties.load. A line is `key=value`, `key: value` or `key value`; `#` and `!` begin a comment line;
a backslash at the end joins the next line; `\\t`, `\\n`, `\\r`, `\\f` and `\\uXXXX` are escapes, any other escaped
character is itself. The last of several lines with one key counts.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*([=: \t\f])")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\n|\r")


class Assignment(NamedTuple):
    """The value of a key, and the place where it was set, as in "standalone.conf:12"."""

    value: str
    place: str


def parse_properties(text: str, name: str) -> dict[str, Assignment]:
    """Returns the assignments by key. `name` is the file's name, with which the places of assignments begin. Values are
    stripped. Every text is a legal property file, so no text is refused."""
    assignments: dict[str, Assignment] = {}
    for number, line in _logical_lines(text):
        end = _KEY_END.search(line)
        key, rest = (line, "") if end is None else (line[: end.start(1)], line[end.start(1) :])
        rest = rest.lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:]
        assignments[_unescape(key)] = Assignment(_unescape(rest.strip()), f"{name}:{number}")
    return assignments


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields each line with its number. Lines that a backslash continues are joined and have the number of the first
    line; comments and empty lines are left out."""
    lines = iter(enumerate(_LINE_END.split(text), start=1))
    for number, line in lines:
        joined = line.lstrip(_BLANKS)
        if not joined or joined[0] in "#!":
            continue
        while _ends_open(joined):
            joined = joined[:-1]
            following = next(lines, None)
            if following is None:
                break
            joined += following[1].lstrip(_BLANKS)
        yield number, joined


def _ends_open(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _CONTROLS.get(match[2], match[2]), text)
