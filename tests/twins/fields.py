"""Random values for the fields of protobuf messages, and their bytes, which protobuf's own encoder would refuse."""

import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from pulsar_proto.varint import varint

Sane = Mapping[str, int | str | bytes | Callable[[], int | str]]
"""What a client would put into fields, by their names. The value for a field that holds a message counts for nothing,
but the field is then there as often as others."""

UINT64_MASK = (1 << 64) - 1
NUMBERS_OF_64_BITS = (0, 1, 3, 1000, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 2, 2**64 - 1)
NUMBERS_OF_32_BITS = (0, 1, 2, 5, 1000, 2**31 - 1, 2**31, 2**32 - 1, 2**64 - 1, 2**64 - 2, 2**64 - 2**31)
TEXTS = (b"", b"x", b"s", b"\xff\xfe", b"\xed\xa0\x80", b"t\x80", b"\0", b"a\nb", b"\xf0\x9f\x9a\x80", b"x" * 3000)
NAMES = (b"..", b"/", b"a=b", b"true", b"1" * 30)
FLOATS = (0.0, -1.0, 1e308, float("inf"), float("nan"))
DEPTH_MAX = 3
OF_PROXIES = (
    "original_principal",
    "original_auth_data",
    "original_auth_method",
    "proxy_to_broker_url",
    "proxy_version",
)
"""Fields that only proxies set. They end most connections, so they are drawn seldom."""


class Fields:
    """Draws messages. `wild` is how often (0 to 1) a value is drawn from all values instead of the sane ones."""

    def __init__(self, chooser: random.Random, wild: float) -> None:
        self.chooser = chooser
        self.wild = wild
        self.left_out: tuple[str, ...] = ()
        """Names of fields that messages do not have for now."""

    def chance(self, of_one: float) -> bool:
        return self.chooser.random() < of_one

    def message(self, descriptor: Any, sane: Sane, depth: int = 0) -> bytes:
        """Returns the bytes of a message. A required field is missing now and then; others are there sometimes."""
        made = b""
        for field in descriptor.fields if depth <= DEPTH_MAX else ():
            often = 0.995 if field.is_required else 0.75 if field.name in sane else 0.25
            if field.name in OF_PROXIES:
                often = self.wild / 20
            if field.name in self.left_out or not self.chance(often):
                continue
            count = self.chooser.choice((1, 1, 2, 5)) if field.is_repeated else 2 if self.chance(0.03) else 1
            for _ in range(count):
                made += self.field(field, sane, depth)
        unknown = varint(9000 << 3 | 2) + varint(3) + b"abc"
        return made + unknown if self.chance(self.wild / 10) else made

    def field(self, field: Any, sane: Sane, depth: int = 0) -> bytes:
        """Returns the bytes of one field with its number."""
        if field.type == FieldDescriptor.TYPE_DOUBLE:
            return varint(field.number << 3 | 1) + struct.pack("<d", self.chooser.choice(FLOATS))
        if field.type == FieldDescriptor.TYPE_FLOAT:
            return varint(field.number << 3 | 5) + struct.pack("<f", 1.0)
        if field.message_type is not None:
            value: int | bytes = self.message(field.message_type, sane, depth + 1)
        else:
            value = self._value(field, sane)
        if isinstance(value, bytes):
            return varint(field.number << 3 | 2) + varint(len(value)) + value
        if field.type in (FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64):
            value <<= 1
        return varint(field.number << 3) + varint(value & UINT64_MASK)

    def _value(self, field: Any, sane: Sane) -> int | bytes:
        choose = self.chooser.choice
        is_wild = self.chance(self.wild)
        if field.name in sane and not is_wild:
            given = sane[field.name]
            value = given() if callable(given) else given
            return value.encode() if isinstance(value, str) else value
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES):
            return choose(TEXTS + NAMES) if is_wild else choose((b"x", b"s", b"y"))
        if field.type == FieldDescriptor.TYPE_BOOL:
            return choose((0, 1, 2)) if is_wild else choose((0, 1))
        if field.enum_type is not None:
            numbers: list[int] = [each.number for each in field.enum_type.values]
            return choose(NUMBERS_OF_32_BITS) if is_wild and self.chance(0.5) else choose(numbers)
        if not is_wild:
            return choose((0, 1, 2, 3))
        if self.chance(0.2):
            return self.chooser.getrandbits(choose((3, 8, 31, 40, 64)))
        is_long = field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_INT64)
        return choose(NUMBERS_OF_64_BITS if is_long else NUMBERS_OF_32_BITS)
