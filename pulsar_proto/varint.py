"""Protobuf's variable-length integers, for code that writes or scans messages by hand.

A varint holds seven bits a byte, the lowest ones first; every byte but the last has its high bit set. Source:
protobuf.dev, "Encoding", "Base 128 Varints".
"""

from typing import Final

U64_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
SHORT_VARINT_BYTES: Final = 9
"""The longest varint whose value has less than 64 bits."""
LAST_BYTE = tuple(bytes((low,)) for low in range(128))
"""Each value of seven bits as the last byte of a varint (or as the only one)."""
CONTINUED_BYTE = tuple(bytes((low | 0x80,)) for low in range(128))
"""Each value of seven bits as a byte of a varint that is not the last one."""


def varint(value: int) -> bytes:
    """Encodes a 64-bit integer. A negative integer takes ten bytes, as in every integer type of protobuf but sint."""
    value &= U64_MASK
    if value < 1 << 7:
        return LAST_BYTE[value]
    if value < 1 << 14:
        return CONTINUED_BYTE[value & 127] + LAST_BYTE[value >> 7]
    if value < 1 << 21:
        return CONTINUED_BYTE[value & 127] + CONTINUED_BYTE[value >> 7 & 127] + LAST_BYTE[value >> 14]
    parts = []
    while value >= 128:
        parts.append(CONTINUED_BYTE[value & 127])
        value >>= 7
    parts.append(LAST_BYTE[value])
    return b"".join(parts)


def varint_at(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decodes the varint that begins at `at`; returns its value and where it ends.

    If `end` cuts the varint off, the bytes before `end` count, and the varint ends there. The function never raises.
    """
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
    return value, at


def short_varint_at(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decodes the varint that begins at `at`, like `varint_at`. Returns -1 as its value if `end` cuts it off, or if it
    has more than SHORT_VARINT_BYTES: such a one may have bits beyond the 64th, or stand for a negative number."""
    if at < end and data[at] < 128:
        return data[at], at + 1
    value, following = varint_at(data, at, end)
    if not at < following <= at + SHORT_VARINT_BYTES or data[following - 1] >= 128:
        return -1, following
    return value, following
