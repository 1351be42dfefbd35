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

from pulsar_proto.errors import MalformedFrame, MalformedRecord
from pulsar_proto.message_pieces import BYTES_KIND, fields_between

INNOCENT_BYTES = 16 << 10
"""A message up to this length is not checked: it is parsed in some milliseconds even if it consists of the smallest
elements."""
ELEMENTS_MAX = 4_096
"""How many elements a longer message may have, the elements of its inner messages included."""


def check_elements(data: bytes, descriptor: Descriptor, elements_max: int = ELEMENTS_MAX) -> None:
    """Checks an encoded message. Raises MalformedFrame when it has more than `elements_max` elements, or a group. All
    other faults are for the parser to find."""
    try:
        _room_after(data, 0, len(data), descriptor, elements_max)
    except MalformedRecord as error:
        raise MalformedFrame(str(error)) from None


def _room_after(data: bytes, at: int, end: int, descriptor: Descriptor, room: int) -> int:
    """Returns `room` minus the number of elements between `at` and `end`: how many elements the message may still have
    after `end`. Raises MalformedFrame when there are more than `room`, and MalformedRecord for a group."""
    for tag, start, field_end in fields_between(data, at, end):
        room -= 1
        if room < 0:
            raise MalformedFrame(f"a message of {len(data)} bytes has too many elements")
        if tag & 7 == BYTES_KIND:
            field = descriptor.fields_by_number.get(tag >> 3)
            if field is not None and field.message_type is not None:
                room = _room_after(data, start, min(field_end, end), field.message_type, room)
    return room
