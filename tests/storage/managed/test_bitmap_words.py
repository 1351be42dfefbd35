"""Bitmaps as words of a java.util.BitSet, for every form in which a bitmap is stored."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.storage.managed.bitmap_words import bitmap_of_words, words_of_bitmap


def bitset_from_words(words: Sequence[int]) -> int:
    """Returns the words of java.util.BitSet.toLongArray as one integer: its bit k is bit k % 64 of word k // 64."""
    return sum((word & 0xFFFF_FFFF_FFFF_FFFF) << 64 * index for index, word in enumerate(words))


def words_from_bits(bits: int) -> list[int]:
    """Does the reverse of `bitset_from_words`: returns signed words, the last of them not zero."""
    data = bits.to_bytes((bits.bit_length() + 63) // 64 * 8, "little")
    return [int.from_bytes(data[at : at + 8], "little", signed=True) for at in range(0, len(data), 8)]


def dense(seed: int) -> BitMap:
    return BitMap(random.Random(seed).sample(range(65536, 131072), 30_000))


def runs(count: int) -> BitMap:
    """Returns `count` containers with a few runs each, stored as runs."""
    bitmap = BitMap()
    for key in range(count):
        bitmap.add_range(key * 65536 + 3, key * 65536 + 9000)
        bitmap.add_range(key * 65536 + 10_001, key * 65536 + 65536)
    bitmap.run_optimize()
    return bitmap


def as_integer(bitmap: BitMap) -> int:
    digits = bytearray(b"0" * (bitmap.max() + 1 if bitmap else 1))
    for number in bitmap:
        digits[-1 - number] = ord("1")
    return int(digits, 2)


def whole(count: int) -> BitMap:
    """Returns `count` containers without a hole. They are stored as runs, and stay so when others are united with
    them."""
    bitmap = BitMap()
    bitmap.add_range(0, count * 65536)
    bitmap.run_optimize()
    return bitmap


BITMAPS = {
    "empty": BitMap(),
    "zero": BitMap([0]),
    "sparse": BitMap([1, 63, 64, 127, 40_000, 200_000]),
    "dense": dense(1),
    "dense and sparse": dense(2) | BitMap([5, 300_000]),
    "one range": BitMap(range(100, 50_000)),
    "runs in one container": runs(1),
    "runs in five containers": runs(5),
    "a whole container": whole(1),
    "whole containers": whole(5),
    "whole containers and sparse": whole(2) | BitMap([131_072, 500_000]),
    "runs, dense and sparse": runs(1) | dense(3) | BitMap([500_000]),
}


@pytest.mark.parametrize("bitmap", BITMAPS.values(), ids=BITMAPS.keys())
def test_words_are_those_of_a_bitset(bitmap: BitMap) -> None:
    words = words_of_bitmap(bitmap)
    assert bitset_from_words(words) == as_integer(bitmap)
    assert list(words) == words_from_bits(as_integer(bitmap))
    assert bitmap_of_words(words) == bitmap


@pytest.mark.parametrize(
    ("words", "bits"),
    [
        ([], set()),
        ([0], set()),
        ([12, 0], {2, 3}),
        ([1 << 62, 1], {62, 64}),
        ([-(2**63)], {63}),
        ([-1, -1], set(range(128))),
    ],
)
def test_words_of_java_are_read_and_written_without_empty_words_at_the_end(words: list[int], bits: set[int]) -> None:
    bitmap = bitmap_of_words(words)
    assert set(bitmap) == bits
    while words and words[-1] == 0:
        words.pop()
    assert list(words_of_bitmap(bitmap)) == words


@given(st.sets(st.integers(0, 200_000), max_size=60), st.sets(st.integers(0, 300), max_size=200))
def test_any_numbers_survive(far: set[int], near: set[int]) -> None:
    bitmap = BitMap(far | near)
    words = words_of_bitmap(bitmap)
    assert bitset_from_words(words) == as_integer(bitmap)
    assert bitmap_of_words(words) == bitmap


def test_zero_words_at_the_end_and_unsigned_words_are_read() -> None:
    assert bitmap_of_words([12, 0]) == BitMap([2, 3])
    assert bitmap_of_words([2**64 - 1, 2**63]) == BitMap([*range(64), 127])
