"""The read-ahead cache is bounded in bytes, and never older than the write cache."""

from magnetar.storage.bookie.read_ahead import ReadAheadCache, within_bytes
from magnetar.storage.bookie.write_cache import ENTRY_OVERHEAD_BYTES
from tests.storage.bookie.helpers import entries_of


def run_size(count: int, size: int) -> int:
    return count * (size + 36 + ENTRY_OVERHEAD_BYTES)


def test_any_part_of_a_run_is_found() -> None:
    cache = ReadAheadCache(1 << 20)
    entries = entries_of(1, range(100, 200), 50)
    cache.put(1, 100, entries)
    assert cache.run(1, 150, 10, 1 << 20) == entries[50:60]
    assert cache.run(1, 195, 10, 1 << 20) == entries[95:]
    assert cache.run(1, 99, 10, 1 << 20) == []
    assert cache.run(1, 200, 10, 1 << 20) == []
    assert cache.run(2, 150, 10, 1 << 20) == []


def test_a_longer_run_is_found_behind_a_short_one() -> None:
    cache = ReadAheadCache(1 << 20)
    entries = entries_of(1, range(100), 50)
    cache.put(1, 0, entries)
    cache.put(1, 50, entries[50:52])
    assert cache.run(1, 60, 1, 1 << 20) == [entries[60]]


def test_it_is_bounded_in_bytes_and_the_least_used_goes_first() -> None:
    cache = ReadAheadCache(3 * run_size(10, 100))
    for ledger in range(3):
        cache.put(ledger, 0, entries_of(ledger, range(10), 100))
    assert cache.run(0, 0, 1, 0)
    cache.put(3, 0, entries_of(3, range(10), 100))
    assert cache.size == 3 * run_size(10, 100)
    assert [ledger in cache for ledger in range(4)] == [True, False, True, True]


def test_a_run_beyond_the_bound_is_not_kept() -> None:
    cache = ReadAheadCache(1000)
    cache.put(1, 0, entries_of(1, range(100), 100))
    assert (1 in cache, cache.size) == (False, 0)


def test_entries_added_again_are_forgotten() -> None:
    cache = ReadAheadCache(1 << 20)
    for first in (0, 10, 20):
        cache.put(1, first, entries_of(1, range(first, first + 10)))
    cache.replaced(1, 15, 15)
    assert [bool(cache.run(1, first, 1, 0)) for first in (0, 10, 20)] == [True, False, True]
    cache.replaced(1, -(1 << 63), 1 << 63)
    assert (1 in cache, cache.size) == (False, 0)


def test_the_same_run_again_counts_once() -> None:
    cache = ReadAheadCache(1 << 20)
    for _ in range(3):
        cache.put(1, 0, entries_of(1, range(10), 100))
    assert cache.size == run_size(10, 100)


def test_single_entries_are_found_in_their_run() -> None:
    cache = ReadAheadCache(1 << 20)
    cache.put(1, 5, entries_of(1, range(5, 10)))
    assert [cache.get(1, entry_id) for entry_id in (4, 5, 9, 10)] == [None, *entries_of(1, [5, 9]), None]
    assert cache.get(2, 5) is None


def test_a_byte_limit_leaves_at_least_one_entry() -> None:
    entries = entries_of(1, range(5), 64)
    assert within_bytes(entries, 0) == entries[:1]
    assert within_bytes(entries, 299) == entries[:2]
    assert within_bytes(entries, 300) == entries[:3]
    assert within_bytes(entries, 9999) == entries
