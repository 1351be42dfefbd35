"""The format strings of `consume -F` and `read -F`. This module does no I/O.

A format is text with fields: `%` and a letter, and for some letters a modifier in braces, as in `%k %v{hex}\\n`.

    %t topic   %p partition   %i id   %k key   %v value   %o ordering key
    %h properties, as a=1,b=2   %h{NAME} one property   %T publish time   %e event time (milliseconds; {iso} for UTC)
    %r redelivery count   %P producer   %S schema version   %% a percent sign
    {base64} {hex} {json} {len} after %k %v %o: the bytes in that form, or their number
    \\n \\t \\r \\0 \\\\ \\xHH

A key, value, property or time that the message does not have is empty. The value is byte-exact without a modifier.
"""

import base64
import json
import re
from collections.abc import Callable

from magnetar.server.tools.messages.message_fields import NOT_DECODED, MessageFields
from magnetar.server.tools.messages.position_rules import time_text

Part = Callable[[MessageFields], bytes]
"""A function that returns one part of the output of a message."""

DEFAULT_FORMAT = "%v\\n"
ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_NEXT = re.compile(r"[%\\]")
_FIELD = re.compile(r"%(.)(?:\{([^}]*)\})?", re.DOTALL)
_HEX = re.compile(r"\\x([0-9a-fA-F]{2})")
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")


def _as_json(data: bytes) -> bytes:
    return json.dumps(data.decode("utf-8", "replace"), ensure_ascii=False).encode()


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "base64": base64.b64encode,
    "hex": lambda data: data.hex().encode(),
    "json": _as_json,
    "len": lambda data: str(len(data)).encode(),
}
TEXTS: dict[str, Callable[[MessageFields], str]] = {
    "t": lambda message: message.topic,
    "p": lambda message: str(message.partition),
    "i": lambda message: message.id,
    "r": lambda message: str(message.redelivery_count),
    "P": lambda message: message.producer,
    "S": lambda message: str(message.schema_version) if message.schema_version >= 0 else "",
}
"""The fields that have no modifiers."""
LETTERS = "%t %p %i %k %v %o %h %T %e %r %P %S"


def value_bytes(message: MessageFields) -> bytes:
    """Returns the value as it is printed: its bytes, or the JSON of a decoded value that is no text by itself."""
    if message.decoded is NOT_DECODED or message.is_text:
        return message.value or b""
    return json.dumps(message.decoded, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def escaped(text: str, at: int) -> tuple[bytes, int]:
    """Returns the bytes that the escape at `at` stands for, and the place behind the escape. Raises ValueError."""
    found = _HEX.match(text, at)
    if found is not None:
        return bytes.fromhex(found[1]), found.end()
    letter = text[at + 1 : at + 2]
    if letter not in ESCAPES:
        raise ValueError(f"'\\{letter}' is no escape: \\n \\t \\r \\0 \\\\ \\xHH")
    return ESCAPES[letter], at + 2


def parse_format(text: str) -> list[Part]:
    """Returns the parts of a format. Raises ValueError with a sentence that names what is wrong."""
    parts: list[Part] = []
    literal = bytearray()
    at = 0
    while at < len(text):
        special = _NEXT.search(text, at)
        if special is None or special.start() > at:
            until = len(text) if special is None else special.start()
            literal += text[at:until].encode("utf-8", "surrogateescape")
            at = until
            continue
        if text[at] == "\\":
            data, at = escaped(text, at)
            literal += data
            continue
        found = _FIELD.match(text, at)
        if found is None:
            raise ValueError("the format ends with a single '%'; write %% for a percent sign")
        if found[1] == "%":
            literal += b"%"
            at += 2
            continue
        if literal:
            parts.append(_literal(bytes(literal)))
            literal.clear()
        parts.append(_field(found[1], found[2]))
        at = found.end()
    if literal:
        parts.append(_literal(bytes(literal)))
    return parts


def render(parts: list[Part], message: MessageFields) -> bytes:
    """Returns what is printed for a message."""
    return b"".join([part(message) for part in parts])


def without_control(data: bytes) -> bytes:
    """Returns the output with its control characters written as \\xHH, except for tabs and ends of lines. It is
    for terminals, which must not obey what a message holds."""
    return _CONTROL.sub(lambda found: b"\\x%02x" % found[0][0], data)


def _literal(data: bytes) -> Part:
    return lambda message: data


def _field(letter: str, modifier: str | None) -> Part:
    if letter == "h":
        return _properties if modifier is None else lambda message: message.properties.get(modifier, "").encode()
    if letter in TEXTS and modifier is None:
        text = TEXTS[letter]
        return lambda message: text(message).encode()
    if letter in "kvo":
        form = FORMS.get(modifier or "")
        if form is None:
            raise ValueError(f"'%{letter}{{{modifier}}}': the forms are base64, hex, json and len")
        return _bytes_field(letter, form)
    if letter in "Te":
        if modifier not in (None, "iso"):
            raise ValueError(f"'%{letter}{{{modifier}}}': a time is in milliseconds, or in the form iso")
        return _time_field(letter, modifier == "iso")
    if letter in TEXTS:
        raise ValueError(f"'%{letter}' has no forms; write %{letter} without braces")
    raise ValueError(f"'%{letter}' is no field of a message: {LETTERS}, or %% for a percent sign")


def _bytes_field(letter: str, form: Callable[[bytes], bytes]) -> Part:
    if letter == "v":
        return lambda message: form(value_bytes(message))
    if letter == "k":
        return lambda message: form(message.key.encode())
    return lambda message: form(message.ordering_key.encode())


def _time_field(letter: str, as_iso: bool) -> Part:
    def part(message: MessageFields) -> bytes:
        moment_ms = message.publish_time_ms if letter == "T" else message.event_time_ms
        if not moment_ms:
            return b""
        return (time_text(moment_ms) if as_iso else str(moment_ms)).encode()

    return part


def _properties(message: MessageFields) -> bytes:
    return ",".join(f"{name}={value}" for name, value in message.properties.items()).encode()
