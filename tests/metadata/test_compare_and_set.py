"""The compare-and-set loop: what it writes, and what it does when other writers are faster."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from magnetar.metadata import compare_and_set
from magnetar.metadata.compare_and_set import update_record
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import Record

PATH = "/a/record"

Interfere = Callable[["ContestedStore"], Awaitable[object]]


class ContestedStore(MemoryStore):
    """Another writer does the next of `interferences` after each read, before the reader can write."""

    def __init__(self, *interferences: Interfere) -> None:
        super().__init__()
        self._interferences = list(interferences)

    async def get(self, path: str) -> Record | None:
        record = await super().get(path)
        if self._interferences:
            await self._interferences.pop(0)(self)
        return record


def append_x(value: bytes | None) -> bytes:
    return (value or b"") + b"x"


async def make(store: ContestedStore) -> None:
    await store.create(PATH, b"theirs", make_parents=True)


async def overwrite(store: ContestedStore) -> None:
    await store.put(PATH, b"theirs")


async def delete(store: ContestedStore) -> None:
    await store.delete(PATH)


async def test_a_missing_record_is_made_with_its_parents_and_an_existing_one_is_changed() -> None:
    store = MemoryStore()
    made = await update_record(store, PATH, append_x)
    assert made is not None
    assert (made.value, made.stat.version) == (b"x", 0)
    changed = await update_record(store, PATH, append_x)
    assert changed is not None
    assert (changed.value, changed.stat.version) == (b"xx", 1)
    assert changed == await store.get(PATH)


async def test_nothing_is_written_when_the_change_has_nothing_to_write() -> None:
    store = MemoryStore()
    assert await update_record(store, PATH, lambda value: None) is None
    await store.create(PATH, b"v", make_parents=True)
    assert await update_record(store, PATH, lambda value: None) == await store.get(PATH)


@pytest.mark.parametrize(
    ("before", "interfere", "after"),
    [(None, make, b"theirs"), (b"first", overwrite, b"theirs"), (b"first", delete, None)],
)
async def test_the_change_is_applied_again_to_what_a_faster_writer_left(
    before: bytes | None, interfere: Interfere, after: bytes | None
) -> None:
    store = ContestedStore(interfere)
    if before is not None:
        await store.create(PATH, before, make_parents=True)
    seen: list[bytes | None] = []

    def change(value: bytes | None) -> bytes:
        seen.append(value)
        return append_x(value)

    changed = await update_record(store, PATH, change)
    assert seen == [before, after]
    assert changed is not None
    assert changed.value == append_x(after)


async def test_it_gives_up_when_others_are_faster_each_time() -> None:
    store = ContestedStore(make, overwrite, overwrite)
    with pytest.raises(MetadataError, match="lost 3 compare-and-set rounds in a row"):
        await update_record(store, PATH, append_x, attempts_max=3)
    record = await store.get(PATH)
    assert record is not None
    assert record.value == b"theirs"


async def test_what_the_change_raises_ends_the_update() -> None:
    store = MemoryStore()

    def refuse(value: bytes | None) -> bytes:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await update_record(store, PATH, refuse)
    assert await store.get(PATH) is None


class SlowStore(MemoryStore):
    """Every call takes some turns of the loop."""

    async def get(self, path: str) -> Record | None:
        found = await super().get(path)
        for _ in range(3):
            await asyncio.sleep(0)
        return found


async def test_many_changes_of_one_process_do_not_make_each_other_fail() -> None:
    store = SlowStore()
    await asyncio.gather(*(update_record(store, PATH, append_x) for _ in range(100)))
    record = await store.get(PATH)
    assert record is not None
    assert (record.value, record.stat.version) == (b"x" * 100, 99)


async def test_a_writer_that_is_slower_than_another_process_gets_its_turn() -> None:
    """Both write all the time; the slow one loses each round that it does not pause before."""
    fast = MemoryStore()
    slow = fast.session()

    async def write(store: MemoryStore, count: int) -> None:
        for _ in range(count):
            await update_record(store, PATH, append_x)

    await asyncio.gather(write(fast, 200), write(slow, 50))
    record = await fast.get(PATH)
    assert record is not None
    assert record.value == b"x" * 250


async def test_a_change_that_hangs_holds_up_the_others_for_a_moment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_and_set, "TURN_SECONDS", 0.01)
    store = MemoryStore()
    hangs = asyncio.Event()

    async def get(path: str) -> Record | None:
        monkeypatch.undo()
        monkeypatch.setattr(compare_and_set, "TURN_SECONDS", 0.01)
        await hangs.wait()
        return None

    monkeypatch.setattr(store, "get", get)
    hanging = asyncio.create_task(update_record(store, PATH, append_x))
    await asyncio.sleep(0)
    await update_record(store, PATH, append_x)
    hangs.set()
    await hanging
    record = await store.get(PATH)
    assert record is not None
    assert record.value == b"xx"
