"""Bounds the work that parsing a message is, which is decided by how many elements it has, not by how long it is.

A frame of 5 MB may hold one long string or a million empty ones; the second takes a second to parse and to look
through. So what is longer than INNOCENT_BYTES is walked over first, and refused when it has too many elements: any
sound one is long because something in it is long.
"""

from google.protobuf.descriptor import Descriptor

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.varint import varint_at

INNOCENT_BYTES = 16 << 10
"""So much may consist of the smallest elements."""
ELEMENTS_MAX = 4_096
"""Of a longer message, those of its inner messages included."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def check_elements(data: bytes, descriptor: Descriptor, elements_max: int = ELEMENTS_MAX) -> None:
    """Raises MalformedFrame for an encoded message with more than `elements_max` elements, or with a group in it."""
    _walk(data, 0, len(data), descriptor, elements_max)


def _walk(data: bytes, at: int, end: int, descriptor: Descriptor | None, room: int) -> int:
    """How much room is left. What does not decode is for the parser to say."""
    while at < end:
        room -= 1
        if room < 0:
            raise MalformedFrame(f"a message of {len(data)} bytes has too many elements")
        tag, at = varint_at(data, at, end)
        kind = tag & 7
        if kind == _VARINT:
            _, at = varint_at(data, at, end)
        elif kind == _BYTES:
            size, at = varint_at(data, at, end)
            field = None if descriptor is None else descriptor.fields_by_number.get(tag >> 3)
            if field is not None and field.message_type is not None:
                room = _walk(data, at, min(at + size, end), field.message_type, room)
            at += size
        elif kind in (_FIXED64, _FIXED32):
            at += 8 if kind == _FIXED64 else 4
        else:
            raise MalformedFrame(f"a message of {len(data)} bytes has a group in it")
    return room
