"""Acknowledged entries as the words of a java.util.BitSet: from pyroaring bitmaps to PositionInfo's field 6 and back.

A loop over a million entries would hold up the broker, so the bits are copied by the block. A roaring bitmap splits its
numbers into containers of 65,536, and its serial form holds every container with more than 4,096 numbers as plain bits,
which is what a BitSet is. Containers with fewer numbers have another form, so they are filled up for the moment: the
bitmap is united once with all even numbers and once with all odd ones. Both results are dense everywhere, and their
intersection is the bitmap again, since no number is even and odd:

    (bitmap | even) & (bitmap | odd) = bitmap | (even & odd) = bitmap

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
"""A container with more numbers than this is stored as 8 KiB of bits."""
_CONTAINER_BYTES = 8192
_CONTAINER_BITS = _CONTAINER_BYTES * 8
_U32 = Struct("<I")
_KEY_AND_SIZE = Struct("<HH")
_HEAD = Struct("<II")
_EVEN = b"\x55" * _CONTAINER_BYTES
_ODD = b"\xaa" * _CONTAINER_BYTES


def words_of_bitmap(bitmap: BitMap) -> "array[int]":
    """Returns the bitmap as signed 64-bit words, of which the last is not zero. Bit n of the words says whether n is in
    the bitmap."""
    words = array("q")
    words.frombytes(bits_of_bitmap(bitmap))
    if sys.byteorder == "big":
        words.byteswap()
    return words


def bits_of_bitmap(bitmap: BitMap) -> bytes:
    """Returns the words of `words_of_bitmap` as bytes, least significant first. The number of bytes is a multiple of
    eight."""
    if not bitmap:
        return b""
    size = (bitmap.max() // 64 + 1) * 8
    containers = (size - 1) // _CONTAINER_BYTES + 1
    with_even = _dense_bits(bitmap | BitMap(range(0, containers * _CONTAINER_BITS, 2)), containers)
    with_odd = _dense_bits(bitmap | BitMap(range(1, containers * _CONTAINER_BITS, 2)), containers)
    # The numbers that are in both results are those of the bitmap, as the module's docstring explains.
    return (with_even & with_odd).to_bytes(containers * _CONTAINER_BYTES, "little")[:size]


def bitmap_of_words(words: Sequence[int]) -> BitMap:
    """Returns the bitmap for words like those that `words_of_bitmap` returns. Words may be signed or unsigned, and
    there may be zero words at the end."""
    try:
        packed = array("q", words)
    except OverflowError:
        packed = array("Q", [word & 0xFFFF_FFFF_FFFF_FFFF for word in words])
    if sys.byteorder == "big":
        packed.byteswap()
    return bitmap_of_bits(packed.tobytes())


def bitmap_of_bits(bits: bytes) -> BitMap:
    """Returns the bitmap for bytes like those that `bits_of_bitmap` returns. There may be zero bytes at the end.
    Accepts at most 512 MiB."""
    if not bits:
        return BitMap()
    containers = (len(bits) - 1) // _CONTAINER_BYTES + 1
    number = int.from_bytes(bits, "little")
    with_even = number | int.from_bytes(_EVEN * containers, "little")
    with_odd = number | int.from_bytes(_ODD * containers, "little")
    return _bitmap_of_dense(with_even, containers) & _bitmap_of_dense(with_odd, containers)


def _dense_bits(bitmap: BitMap, containers: int) -> int:
    """Returns a bitmap as an integer, whose bit n says whether n is in it. Each container must have at least half of
    all numbers."""
    serial = bitmap.serialize()
    parts = []
    for size, is_run, at in _containers(serial):
        if not is_run:
            assert size > _ARRAY_MAX
            parts.append(serial[at : at + _CONTAINER_BYTES])
        else:
            parts.append(_bits_of_runs(serial, at))
    assert len(parts) == containers
    return int.from_bytes(b"".join(parts), "little")


def _bitmap_of_dense(number: int, containers: int) -> BitMap:
    """Returns the bitmap for a number that `_dense_bits` returned."""
    bits = number.to_bytes(containers * _CONTAINER_BYTES, "little")
    starts = range(0, len(bits), _CONTAINER_BYTES)
    sizes = [int.from_bytes(bits[start : start + _CONTAINER_BYTES], "little").bit_count() for start in starts]
    heads = b"".join(_KEY_AND_SIZE.pack(key, size - 1) for key, size in enumerate(sizes))
    first = _HEAD.size + len(heads) + 4 * containers
    offsets = b"".join(_U32.pack(first + start) for start in starts)
    return BitMap.deserialize(b"".join((_HEAD.pack(_COOKIE_WITHOUT_RUNS, containers), heads, offsets, bits)))


def _containers(serial: bytes) -> list[tuple[int, bool, int]]:
    """Returns for each container (number of values, whether it is stored as runs, offset of its body). The keys must be
    0, 1, …"""
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
        _, size = _KEY_AND_SIZE.unpack_from(serial, heads + 4 * index)
        size += 1
        is_run = bool(flags) and bool(flags[index // 8] >> (index % 8) & 1)
        found.append((size, is_run, at))
        if is_run:
            at += 2 + 4 * int.from_bytes(serial[at : at + 2], "little")
        else:
            at += _CONTAINER_BYTES if size > _ARRAY_MAX else 2 * size
    return found


def _bits_of_runs(serial: bytes, at: int) -> bytes:
    """Returns the bits of a container that is stored as runs, each of which is (first, length - 1)."""
    pairs = array("H")
    pairs.frombytes(serial[at + 2 : at + 2 + 4 * int.from_bytes(serial[at : at + 2], "little")])
    if sys.byteorder == "big":
        pairs.byteswap()
    bits = 0
    for start, length in zip(pairs[::2], pairs[1::2], strict=True):
        bits |= ((1 << (length + 1)) - 1) << start
    return bits.to_bytes(_CONTAINER_BYTES, "little")
