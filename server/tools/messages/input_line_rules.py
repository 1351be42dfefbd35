"""From the bytes of standard input to messages: cutting into lines, and each line into key, value, properties and event
time. This module does no I/O.

A format such as `%k %v` has the fields %k (key), %v (value), %h (properties, as a=1,b=2), %h{NAME} (one property) and
%e (event time in milliseconds), and escapes as in `output_format_rules`. A field ends where the text that follows it in
the format occurs first; the last field takes the rest of the line.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from magnetar.server.tools.messages.json_line_rules import Outgoing
from magnetar.server.tools.messages.output_format_rules import escaped
from magnetar.server.tools.messages.quantity_rules import pair

LineParser = Callable[[bytes], Outgoing]
"""A function that makes a message of a line. It raises ValueError with the rest of a sentence: "it has no key"."""

_FIELD = re.compile(r"%(.)(?:\{([^}]*)\})?", re.DOTALL)


class LineCutter:
    """Cuts a stream of bytes at a separator. A last line without a separator counts too, an empty rest does not."""

    def __init__(self, separator: bytes, line_bytes_max: int) -> None:
        assert separator
        self._separator = separator
        self._line_bytes_max = line_bytes_max
        self._rest = b""
        self._lines = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the lines that are complete. Raises ValueError for a line that is too long for a message."""
        *lines, self._rest = (self._rest + data).split(self._separator)
        for line in lines:
            self._count(line)
            yield line
        if len(self._rest) > self._line_bytes_max:
            self._count(self._rest)

    def end(self) -> Iterator[bytes]:
        """Yields the last line, if the stream did not end with a separator."""
        if self._rest:
            self._count(self._rest)
            yield self._rest

    def _count(self, line: bytes) -> None:
        self._lines += 1
        if len(line) > self._line_bytes_max:
            raise ValueError(f"line {self._lines} has more than {self._line_bytes_max} bytes")


@dataclass(slots=True)
class _Field:
    letter: str
    name: str | None
    until: bytes = b""
    """The text that ends the field; empty for the last one."""


@dataclass(slots=True)
class _Template:
    prefix: bytes = b""
    fields: list[_Field] = field(default_factory=list)


def whole_line(line: bytes) -> Outgoing:
    """Makes the whole line the value."""
    return Outgoing(line)


def keyed_line(separator: bytes) -> LineParser:
    """Returns the parser of `KEY SEPARATOR VALUE`. A line without the separator is a value without a key."""

    def parse(line: bytes) -> Outgoing:
        key, found, value = line.partition(separator)
        return Outgoing(value, _text(key, "key")) if found else Outgoing(line)

    return parse


def formatted_line(text: str) -> LineParser:
    """Returns the parser of lines in a format. Raises ValueError for a format that cannot be used."""
    template = _parse_template(text)
    return lambda line: _apply(template, line)


def unescaped(text: str) -> bytes:
    """Returns the bytes of a separator that may have escapes: `\\t`, `\\x00`. Raises ValueError; an empty separator is
    refused."""
    data = bytearray()
    at = 0
    while at < len(text):
        if text[at] == "\\":
            part, at = escaped(text, at)
        else:
            part, at = text[at].encode("utf-8", "surrogateescape"), at + 1
        data += part
    if not data:
        raise ValueError("a separator is at least one byte")
    return bytes(data)


def _parse_template(text: str) -> _Template:
    template = _Template()
    at = 0
    # `'%k %v\n'`, as one writes for consume, means the same as '%k %v' here: lines have no ends any more.
    text = text.removesuffix("\\n")
    while at < len(text):
        found = _FIELD.match(text, at)
        if found is not None and found[1] != "%":
            _add_field(template, found[1], found[2])
            at = found.end()
            continue
        if text[at] == "\\":
            literal, at = escaped(text, at)
        elif found is not None:
            literal, at = b"%", at + 2
        elif text[at] == "%":
            raise ValueError("the format ends with a single '%'; write %% for a percent sign")
        else:
            literal, at = text[at].encode("utf-8", "surrogateescape"), at + 1
        if template.fields:
            template.fields[-1].until += literal
        else:
            template.prefix += literal
    if sum(each.letter == "v" for each in template.fields) != 1:
        raise ValueError("the format must have %v, the value, once")
    return template


def _add_field(template: _Template, letter: str, name: str | None) -> None:
    if letter not in "kvhe" or (name is not None and letter != "h"):
        raise ValueError(f"'%{letter}' is no field of a line: %k %v %h %h{{NAME}} %e, or %% for a percent sign")
    if template.fields and not template.fields[-1].until:
        raise ValueError(f"nothing separates %{template.fields[-1].letter} from %{letter}")
    template.fields.append(_Field(letter, name))


def _apply(template: _Template, line: bytes) -> Outgoing:
    if not line.startswith(template.prefix):
        raise ValueError(f"it does not begin with {template.prefix!r}")
    rest = line[len(template.prefix) :]
    value, key, event_time_ms = b"", "", 0
    properties: dict[str, str] = {}
    for each in template.fields:
        data = rest
        if each.until:
            data, found, rest = rest.partition(each.until)
            if not found:
                raise ValueError(f"it has no {each.until!r} behind %{each.letter}")
        if each.letter == "v":
            value = data
        elif each.letter == "k":
            key = _text(data, "key")
        elif each.letter == "e":
            event_time_ms = _time_ms(data)
        elif each.name is not None:
            properties[each.name] = _text(data, "property")
        elif data:
            properties.update(pair(item) for item in _text(data, "properties").split(","))
    return Outgoing(value, key, properties=properties, event_time_ms=event_time_ms)


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"its {what} is not UTF-8") from None


def _time_ms(data: bytes) -> int:
    if not data.isdigit() or len(data) > 15:
        raise ValueError("its event time is no number of milliseconds since 1970")
    return int(data)
