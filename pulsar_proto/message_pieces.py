"""Finds where the fields of an encoded protobuf message begin and end, and cuts a long message between them, so that it
is parsed in portions.

Protobuf reads the pieces of a message like the message itself: the fields of all pieces together are those of the
message. Only tags and lengths are looked at. Source: protobuf.dev, "Encoding".
"""

from collections.abc import Iterator

from pulsar_proto.errors import MalformedRecord
from pulsar_proto.varint import varint_at

BYTES_KIND = 2
"""The lowest three bits of the tag of a field that holds a string, bytes, a message or packed numbers."""
_VARINT, _FIXED64, _FIXED32 = 0, 1, 5


def fields_between(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yields the fields of the message between `at` and `end` as (tag, where the field's value begins, where the field
    ends). The last field ends beyond `end` if the message is cut off. Raises MalformedRecord for a group."""
    while at < end:
        tag, start = varint_at(data, at, end)
        kind = tag & 7
        if kind == BYTES_KIND:
            size, start = varint_at(data, start, end)
            at = start + size
        elif kind == _VARINT:
            _, at = varint_at(data, start, end)
        elif kind in (_FIXED64, _FIXED32):
            at = start + (8 if kind == _FIXED64 else 4)
        else:
            raise MalformedRecord(f"a message of {len(data)} bytes has a group in it")
        yield tag, start, at


def fields_of(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields the fields of a whole message like `fields_between`. Raises MalformedRecord for a field that reaches
    beyond the end of the message, and for a group."""
    for field in fields_between(data, 0, len(data)):
        if field[2] > len(data):
            raise MalformedRecord(f"a field of a message of {len(data)} bytes reaches beyond the end of the message")
        yield field


def pieces_of(data: bytes, size: int) -> Iterator[bytes]:
    """Yields a message in pieces of whole fields. Each piece but the last one has at least `size` bytes, and more only
    for the sake of its last field. Raises MalformedRecord as `fields_of` does."""
    start = 0
    if len(data) > size:
        for _, _, end in fields_of(data):
            if end - start >= size:
                yield data[start:end]
                start = end
    if start < len(data):
        yield data[start:]
