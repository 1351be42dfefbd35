"""Acknowledged entries as the words of a java.util.BitSet: between pyroaring bitmaps and PositionInfo's field 6.

A bitmap's own serial form holds its dense parts as such words already, so a million entries cost a copy, not a loop.
Source of the serial form: github.com/RoaringBitmap/RoaringFormatSpec.
"""

import sys
from array import array
from collections.abc import Sequence
from struct import Struct

from pyroaring import BitMap

_COOKIE_WITHOUT_RUNS = 12346
_COOKIE_WITH_RUNS = 12347
_ARRAY_MAX = 4096
"""Containers of more values than this are stored as 8 KiB of bits."""
_CONTAINER_BYTES = 8192
_CONTAINER_BITS = _CONTAINER_BYTES * 8
_U32 = Struct("<I")
_KEY_AND_SIZE = Struct("<HH")
_BITS_OF_BYTE = tuple(tuple(bit for bit in range(8) if byte >> bit & 1) for byte in range(256))


def words_of_bitmap(bitmap: BitMap) -> "array[int]":
    """Signed 64-bit words, the last one not zero; bit n of them is number n."""
    if not bitmap:
        return array("q")
    data = bytearray((bitmap.max() // _CONTAINER_BITS + 1) * _CONTAINER_BYTES)
    serial = bitmap.serialize()
    for key, size, is_run, at in _containers(serial):
        base = key * _CONTAINER_BYTES
        if is_run:
            _fill_runs(data, base, _u16s(serial, at + 2, 2 * int.from_bytes(serial[at : at + 2], "little")))
        elif size > _ARRAY_MAX:
            data[base : base + _CONTAINER_BYTES] = serial[at : at + _CONTAINER_BYTES]
        else:
            for value in _u16s(serial, at, size):
                data[base + (value >> 3)] |= 1 << (value & 7)
    words = array("q")
    words.frombytes(data[: (bitmap.max() // 64 + 1) * 8])
    if sys.byteorder == "big":
        words.byteswap()
    return words


def bitmap_of_words(words: Sequence[int]) -> BitMap:
    """The reverse; zero words at the end are allowed, words may be signed or not."""
    bitmap = BitMap()
    for index, word in enumerate(words):
        if word == 0:
            continue
        base = 64 * index
        if word in (-1, 2**64 - 1):
            bitmap.add_range(base, base + 64)
            continue
        values = []
        for byte in (word & 0xFFFF_FFFF_FFFF_FFFF).to_bytes(8, "little"):
            values += [base + bit for bit in _BITS_OF_BYTE[byte]]
            base += 8
        bitmap.update(values)
    return bitmap


def _containers(serial: bytes) -> list[tuple[int, int, bool, int]]:
    """(key, number of values, whether stored as runs, offset of the body) of each container."""
    (cookie,) = _U32.unpack_from(serial)
    flags = b""
    if cookie == _COOKIE_WITHOUT_RUNS:
        (count,) = _U32.unpack_from(serial, 4)
        at = 8
    else:
        assert cookie & 0xFFFF == _COOKIE_WITH_RUNS, cookie
        count = (cookie >> 16) + 1
        flags = serial[4 : 4 + (count + 7) // 8]
        at = 4 + len(flags)
    heads = at
    at += 4 * count
    if not flags or count >= 4:
        at += 4 * count
    found = []
    for index in range(count):
        key, size = _KEY_AND_SIZE.unpack_from(serial, heads + 4 * index)
        size += 1
        is_run = bool(flags) and bool(flags[index // 8] >> (index % 8) & 1)
        found.append((key, size, is_run, at))
        if is_run:
            at += 2 + 4 * int.from_bytes(serial[at : at + 2], "little")
        else:
            at += _CONTAINER_BYTES if size > _ARRAY_MAX else 2 * size
    return found


def _u16s(serial: bytes, at: int, count: int) -> "array[int]":
    values = array("H")
    values.frombytes(serial[at : at + 2 * count])
    if sys.byteorder == "big":
        values.byteswap()
    return values


def _fill_runs(data: bytearray, base: int, pairs: "array[int]") -> None:
    for start, length in zip(pairs[::2], pairs[1::2], strict=True):
        bits = ((1 << (length + 1)) - 1) << (start & 7)
        first, end = base + (start >> 3), base + ((start + length) >> 3) + 1
        merged = int.from_bytes(data[first:end], "little") | bits
        data[first:end] = merged.to_bytes(end - first, "little")
