"""Bounds the work of parsing a protobuf message, which depends on how many elements it has, not on how long it is.

A frame of 5 MB may hold one string of 5 MB, which is parsed at once, or two million empty strings, which block all
other work for a second. The two frames differ only in the number of elements. So a message longer than INNOCENT_BYTES
is first walked over without building anything, and refused when it has more than ELEMENTS_MAX elements: a long message
of an honest peer has a few long elements.

The walk looks at tags and lengths only, and steps over everything else:

    tag len=5 |hello| tag varint  tag len=9 | tag len=0 || tag len=5 |world| |
    1               2             3           4              5                    elements

The walk goes into a field only when the descriptor says that the field holds a message (3 above), since only messages
cost the parser further elements. The same bytes in a string are just bytes. The walk stops at the element that is one
too many, so it costs at most ELEMENTS_MAX steps, whatever the peer sent.
"""

from google.protobuf.descriptor import Descriptor

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.varint import varint_at

INNOCENT_BYTES = 16 << 10
"""A message up to this length is not checked: it is parsed in some milliseconds even if it consists of the smallest
elements."""
ELEMENTS_MAX = 4_096
"""How many elements a longer message may have, the elements of its inner messages included."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def check_elements(data: bytes, descriptor: Descriptor, elements_max: int = ELEMENTS_MAX) -> None:
    """Checks an encoded message. Raises MalformedFrame when it has more than `elements_max` elements, or a group."""
    _walk(data, 0, len(data), descriptor, elements_max)


def _walk(data: bytes, at: int, end: int, descriptor: Descriptor | None, room: int) -> int:
    """Counts the elements between `at` and `end`, and returns `room` minus this number: how many elements the message
    may still have after `end`. Raises MalformedFrame when there are more than `room`.

    Bytes that do not decode are not judged here: the parser refuses them afterwards.
    """
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
