"""The tail cache: what is found, and that its bound holds."""

import gc

from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.storage.managed.tail_cache import ENTRY_OVERHEAD_BYTES, TailCache, _CachedGroup
from pulsar_proto.ids import Position
from tests.rounds import rounds
from tests.storage.managed.fake_bookkeeper import World
from tests.storage.managed.support import append, factory_of, fill, open_one

OFFSET = 4


def entry(ledger_id: int, entry_id: int, size: int = 10) -> bytes:
    return b"%04d" % entry_id + bytes([ledger_id]) * size


def group(ledger_id: int, first: int, count: int, size: int = 10) -> list[bytes]:
    return [entry(ledger_id, entry_id, size) for entry_id in range(first, first + count)]


def add(cache: TailCache, ledger_id: int, first: int, count: int, now_ms: int = 0, size: int = 10) -> list[bytes]:
    entries = group(ledger_id, first, count, size)
    cache.add(ledger_id, first, entries, count * size, OFFSET, now_ms)
    return entries


def cost(count: int, size: int = 10) -> int:
    return count * (size + OFFSET + ENTRY_OVERHEAD_BYTES)


def found(
    cache: TailCache, ledger_id: int, entry_id: int, entries: int = 1000, size: int = 10**6
) -> list[bytes] | None:
    run = cache.get(ledger_id, entry_id, entries, size)
    if run is None:
        return None
    assert (run.ledger_id, run.first_entry_id, run.payload_offset) == (ledger_id, entry_id, OFFSET)
    return run.entries


def test_a_whole_group_is_handed_out_as_the_list_that_was_added() -> None:
    cache = TailCache(10_000)
    entries = add(cache, 1, 0, 5)
    assert found(cache, 1, 0) is entries


def test_reads_start_anywhere_and_go_over_groups_up_to_their_limits() -> None:
    cache = TailCache(10_000)
    for first in (0, 5, 10):
        add(cache, 1, first, 5)
    assert found(cache, 1, 3) == group(1, 3, 12)
    assert found(cache, 1, 3, entries=4) == group(1, 3, 4)
    assert found(cache, 1, 12, size=30) == group(1, 12, 2)
    assert found(cache, 1, 12, size=1) == group(1, 12, 1), "always at least one"
    assert found(cache, 1, 15) is None
    assert found(cache, 2, 0) is None


def cached_groups() -> int:
    return sum(type(each) is _CachedGroup for each in gc.get_objects())


def test_what_leaves_with_its_ledger_is_freed_without_a_garbage_collection() -> None:
    cache = TailCache(10_000)
    gc.disable()
    try:
        before = cached_groups()
        for first in (0, 5):
            add(cache, 1, first, 5)
        assert cached_groups() == before + 2
        cache.drop_ledger(1)
        cache.evict_before(1)
        assert cached_groups() == before
    finally:
        gc.enable()


def test_the_oldest_groups_of_the_process_leave_first() -> None:
    cache = TailCache(cost(5))
    add(cache, 1, 0, 2)
    add(cache, 2, 0, 2)
    add(cache, 1, 2, 2)
    assert found(cache, 1, 0) is None
    assert found(cache, 1, 2) == group(1, 2, 2)
    assert found(cache, 2, 0) == group(2, 0, 2)
    add(cache, 3, 0, 1)
    add(cache, 3, 1, 1)
    assert found(cache, 2, 0) is None


def test_a_group_larger_than_the_cache_is_not_held() -> None:
    cache = TailCache(cost(3))
    add(cache, 1, 0, 1)
    add(cache, 1, 1, 4)
    assert cache.bytes_held == 0
    assert found(cache, 1, 0) is None


def test_a_gap_starts_anew() -> None:
    cache = TailCache(10_000)
    add(cache, 1, 0, 2)
    add(cache, 1, 5, 2)
    assert found(cache, 1, 0) is None
    assert found(cache, 1, 5) == group(1, 5, 2)
    assert cache.bytes_held == cost(2)


def test_groups_leave_by_age() -> None:
    cache = TailCache(10_000)
    add(cache, 1, 0, 2, now_ms=100)
    add(cache, 2, 0, 2, now_ms=150)
    add(cache, 1, 2, 2, now_ms=200)
    cache.evict_before(200)
    assert found(cache, 1, 0) is None
    assert found(cache, 2, 0) is None
    assert found(cache, 1, 2) == group(1, 2, 2)
    assert cache.bytes_held == cost(2)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 3), st.integers(1, 6)),
        st.tuples(st.just("drop"), st.integers(1, 3), st.just(0)),
        st.tuples(st.just("evict"), st.integers(0, 60), st.just(0)),
    ),
    max_size=60,
)


@given(steps, st.integers(0, 15))
@settings(max_examples=rounds(200), deadline=None)
def test_it_never_exceeds_its_bound_and_never_returns_anything_wrong(
    steps: list[tuple[str, int, int]], bound: int
) -> None:
    cache = TailCache(cost(bound))
    next_entry = {1: 0, 2: 0, 3: 0}
    for now_ms, (kind, number, count) in enumerate(steps):
        if kind == "add":
            add(cache, number, next_entry[number], count, now_ms)
            next_entry[number] += count
        elif kind == "drop":
            cache.drop_ledger(number)
        else:
            cache.evict_before(number)
        assert 0 <= cache.bytes_held <= cost(bound)
        held = 0
        for ledger_id, end in next_entry.items():
            for entry_id in range(end):
                entries = found(cache, ledger_id, entry_id)
                if entries is not None:
                    assert entries == group(ledger_id, entry_id, end - entry_id)
                    held += 1
        assert cost(held) == cache.bytes_held


async def test_only_managed_ledgers_with_an_active_cursor_fill_it() -> None:
    factory = factory_of(World().session())
    ledger = await factory.open("t/n/persistent/a")
    await fill(ledger, 2)
    assert factory.cache.bytes_held == 0
    cursor = await ledger.open_cursor("s")
    ledger.activate(cursor)
    result = await append(ledger, b"x", b"y")
    (ledger_id, first, _count) = result.runs[0]
    run = ledger.cached(Position(ledger_id, first), 10, 10_000)
    assert run is not None
    assert [each[run.payload_offset :] for each in run.entries] == [b"x", b"y"]
    assert ledger.cached(Position(1, 0), 10, 10_000) is None
    ledger.deactivate(cursor)
    assert factory.cache.bytes_held == 0
    await fill(ledger, 2)
    assert factory.cache.bytes_held == 0


async def test_a_cached_entry_is_read_without_asking_the_bookies() -> None:
    world = World()
    ledger = await open_one(world)
    ledger.activate(await ledger.open_cursor("s"))
    await fill(ledger, 4)
    assert len(await ledger.read(Position(1, 1), 100, 10_000)) == 3
    assert world.reads == []
