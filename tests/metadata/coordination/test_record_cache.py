"""Copies of records: how many there are, when they are read, and what their user is told."""

import asyncio

import pytest

from magnetar.metadata.coordination import record_cache
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import StoreUnavailableError
from magnetar.metadata.store import Record
from pulsar_proto.errors import MetadataFault
from tests.waiting import until


class SlowStore(MemoryStore):
    """Reads take as long as the test wants, and fail while it wants."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.fails = False
        self.is_linked = True

    @property
    def is_connected(self) -> bool:
        return self.is_linked

    async def get(self, path: str) -> Record | None:
        self.reads += 1
        record = await super().get(path)
        await self.gate.wait()
        if self.fails:
            raise StoreUnavailableError(path, "no answer")
        return record


def _parse(path: str, value: bytes) -> int:
    if not value.isdigit():
        raise MetadataFault(f"{path} is no number")
    return int(value)


async def test_a_record_is_read_once_until_it_changes() -> None:
    store = SlowStore()
    await store.create("/r/a", b"1", make_parents=True)
    cache = RecordCache(store, "/r", _parse)
    cache.start()
    for _ in range(3):
        copy = await cache.get("/r/a")
        assert copy is not None
        assert (copy.value, copy.stat.version) == (1, 0)
        assert await cache.get("/r/missing") is None
    assert store.reads == 2
    await store.put("/r/a", b"2")
    copy = await cache.get("/r/a")
    assert copy is not None
    assert (copy.value, copy.stat.version, store.reads) == (2, 1, 3)


async def test_an_answer_that_a_change_overtook_is_not_trusted() -> None:
    store = SlowStore()
    await store.create("/r/a", b"1", make_parents=True)
    cache = RecordCache(store, "/r", _parse)
    cache.start()
    store.gate.clear()
    reading = asyncio.ensure_future(cache.get("/r/a"))
    await until(lambda: store.reads > 0)
    await store.put("/r/a", b"2")
    store.gate.set()
    await reading
    copy = await cache.get("/r/a")
    assert copy is not None
    assert copy.value == 2


async def test_without_a_watch_every_question_is_a_reading() -> None:
    store = SlowStore()
    await store.create("/r/a", b"1", make_parents=True)
    cache = RecordCache(store, "/r", _parse)
    for number in range(1, 4):
        await store.put("/r/a", b"%d" % number)
        copy = await cache.get("/r/a")
        assert copy is not None
        assert copy == cache.cached("/r/a")
        assert (copy.value, store.reads) == (number, number)
    await store.put("/r/a", b"7")
    cache.start()
    copy = await cache.get("/r/a")
    assert copy is not None
    assert copy.value == 7, "what was read before the watch began is not trusted"


async def test_a_full_cache_drops_what_was_used_least_and_tells_its_user() -> None:
    store = MemoryStore()
    for number in range(5):
        await store.create(f"/r/{number}", b"1", make_parents=True)
    told: list[str] = []
    cache = RecordCache(store, "/r", _parse, on_change=told.append, cached_max=3)
    cache.start()
    for number in range(5):
        await cache.get(f"/r/{number}")
    assert len(cache) == 3
    assert told == ["/r/0", "/r/1", "/r/2", "/r/0", "/r/3", "/r/1", "/r/4"]


async def test_an_unbounded_cache_keeps_no_answer_for_missing_records() -> None:
    store = MemoryStore()
    await store.create("/r/a", b"1", make_parents=True)
    cache = RecordCache(store, "/r", _parse, cached_max=None)
    cache.start()
    for number in range(100):
        assert await cache.get(f"/r/missing-{number}") is None
    assert await cache.get("/r/a") is not None
    assert len(cache) == 1


async def test_a_record_that_cannot_be_read_again_keeps_its_copy_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_cache, "RETRY_SECONDS", 0.01)
    store = SlowStore()
    await store.create("/r/a", b"1", make_parents=True)
    cache = RecordCache(store, "/r", _parse, on_change=lambda path: None)
    cache.start()
    await cache.get("/r/a")
    store.fails = True
    before = store.reads
    await store.put("/r/a", b"2")
    await until(lambda: store.reads >= before + 3)
    copy = cache.cached("/r/a")
    assert copy is not None
    assert copy.value == 1
    store.fails = False
    await until(lambda: (copy := cache.cached("/r/a")) is not None and copy.value == 2)
    await store.put("/r/a", b"damaged")
    with pytest.raises(MetadataFault):
        await cache.refresh("/r/a")
    copy = cache.cached("/r/a")
    assert copy is not None
    assert copy.value == 2
    cache.close()


async def test_an_outdated_copy_is_served_while_the_store_cannot_be_reached() -> None:
    store = SlowStore()
    await store.create("/r/a", b"1", make_parents=True)
    cache = RecordCache(store, "/r", _parse)
    cache.start()
    await cache.get("/r/a")
    await store.put("/r/a", b"2")
    store.is_linked = False
    copy = await cache.get("/r/a")
    assert copy is not None
    assert copy.value == 1
    store.is_linked = True
    copy = await cache.get("/r/a")
    assert copy is not None
    assert copy.value == 2


async def test_a_users_fault_does_not_harm_the_reader() -> None:
    store = MemoryStore()
    await store.create("/r/a", b"1", make_parents=True)

    def broken(path: str) -> None:
        raise ZeroDivisionError

    cache = RecordCache(store, "/r", _parse, on_change=broken)
    cache.start()
    copy = await cache.get("/r/a")
    assert copy is not None
    assert copy.value == 1
