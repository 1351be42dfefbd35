"""Bitmaps as words of a java.util.BitSet, for every form in which a bitmap is stored."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from magnetar.storage.managed.bitmap_words import bitmap_of_words, words_of_bitmap
from pulsar_proto.records.managed_record import bitset_from_words, words_from_bits


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


@given(st.sets(st.integers(0, 200_000), max_size=60), st.sets(st.integers(0, 300), max_size=200))
def test_any_numbers_survive(far: set[int], near: set[int]) -> None:
    bitmap = BitMap(far | near)
    words = words_of_bitmap(bitmap)
    assert bitset_from_words(words) == as_integer(bitmap)
    assert bitmap_of_words(words) == bitmap


def test_zero_words_at_the_end_and_unsigned_words_are_read() -> None:
    assert bitmap_of_words([12, 0]) == BitMap([2, 3])
    assert bitmap_of_words([2**64 - 1, 2**63]) == BitMap([*range(64), 127])
