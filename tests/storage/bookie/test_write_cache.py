"""The two halves of the write cache, compared with a simple twin."""

from hypothesis import given
from hypothesis import strategies as st

from magnetar.storage.bookie.write_cache import ENTRY_OVERHEAD_BYTES, WriteCache
from tests.storage.bookie.helpers import entries_of, entry_of


def filled(cache: WriteCache, ledger_id: int, ids: list[int] | range, mark: bytes = b"") -> None:
    entries = [entry_of(ledger_id, i, mark + b"%d" % i) for i in ids]
    cache.active.put(ledger_id, ids, entries, sum(map(len, entries)))


def test_the_very_objects_that_were_added_come_back() -> None:
    cache = WriteCache(10_000)
    entries = entries_of(1, range(5))
    cache.active.put(1, range(5), entries, sum(map(len, entries)))
    assert cache.get(1, 3) is entries[3]
    assert all(found is given for found, given in zip(cache.run(1, 0, 9, 9999), entries, strict=True))


def test_an_entry_added_again_replaces_the_older_one_in_either_half() -> None:
    cache = WriteCache(10_000)
    filled(cache, 1, range(4), b"old")
    cache.swap()
    filled(cache, 1, [2], b"new")
    assert [entry[36:] for entry in cache.run(1, 0, 9, 9999)] == [b"old0", b"old1", b"new2", b"old3"]
    assert (cache.get(1, 2) or b"")[36:] == b"new2"


def test_a_run_crosses_the_halves_and_ends_at_a_gap_or_limit() -> None:
    cache = WriteCache(10_000)
    filled(cache, 1, [0, 1, 2, 5])
    cache.swap()
    filled(cache, 1, [3])
    assert len(cache.run(1, 0, 100, 9999)) == 4
    assert len(cache.run(1, 0, 2, 9999)) == 2
    assert len(cache.run(1, 0, 100, 1)) == 1
    assert cache.run(1, 4, 100, 9999) == []
    assert cache.run(2, 0, 100, 9999) == []


def test_room_counts_bytes_and_overhead_and_admits_one_large_group_alone() -> None:
    cache = WriteCache(1000)
    assert cache.has_room(5000)
    filled(cache, 1, [0])
    assert cache.active.size == len(entry_of(1, 0, b"0")) + ENTRY_OVERHEAD_BYTES
    assert cache.has_room(1000 - cache.active.size)
    assert not cache.has_room(1001 - cache.active.size)


def test_the_flushed_half_is_readable_until_it_is_flushed() -> None:
    cache = WriteCache(1000)
    filled(cache, 1, [0])
    half = cache.swap()
    assert (cache.get(1, 0), cache.size) == (half.ledgers[1].entries[0], half.size)
    cache.flushed()
    assert (cache.get(1, 0), cache.size) == (None, 0)


@given(st.lists(st.lists(st.integers(-5, 30), min_size=1, max_size=5, unique=True), max_size=8))
def test_the_highest_id_is_the_true_one(groups: list[list[int]]) -> None:
    cache = WriteCache(10_000)
    for number, ids in enumerate(groups):
        filled(cache, 1, ids)
        if number == 3:
            cache.swap()
    expected = max((i for ids in groups for i in ids), default=None)
    assert cache.last_entry_id(1) == expected


def test_it_says_where_newer_entries_may_be() -> None:
    cache = WriteCache(10_000)
    filled(cache, 1, [10, 20])
    cache.swap()
    assert cache.touches(1, 0, 10)
    assert cache.touches(1, 12, 13)
    assert not cache.touches(1, 0, 9)
    assert not cache.touches(1, 21, 99)
    assert not cache.touches(2, 0, 99)


def test_a_deleted_ledger_leaves_the_active_half() -> None:
    cache = WriteCache(10_000)
    filled(cache, 1, [0])
    filled(cache, 2, [0])
    cache.drop(1)
    assert cache.get(1, 0) is None
    assert cache.get(2, 0) is not None
