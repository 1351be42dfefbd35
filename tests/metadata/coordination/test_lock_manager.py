"""Locks of several sessions on one tree."""

import pytest

from magnetar.metadata.coordination.lock_errors import LockBusyError, LockNotHeldError
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import MetadataStore

PATH = "/namespace/t/n/0x00000000_0xffffffff"


async def _value(store: MetadataStore) -> bytes | None:
    record = await store.get(PATH)
    return None if record is None else record.value


async def test_a_lock_is_an_ephemeral_record_of_the_session() -> None:
    store = MemoryStore()
    lock = await LockManager(store).acquire(PATH, b"one")
    assert (lock.path, lock.value, lock.is_held) == (PATH, b"one", True)
    assert await store.owns(PATH)
    assert await _value(store) == b"one"


async def test_what_another_session_holds_is_busy() -> None:
    first = MemoryStore()
    await LockManager(first).acquire(PATH, b"one")
    locks = LockManager(first.session())
    with pytest.raises(LockBusyError) as caught:
        await locks.acquire(PATH, b"two")
    assert caught.value.holder == b"one"
    assert locks.held(PATH) is None
    assert await _value(first) == b"one"


async def test_a_record_that_is_not_ephemeral_is_busy_even_with_our_value() -> None:
    store = MemoryStore()
    await store.create(PATH, b"one", make_parents=True)
    with pytest.raises(LockBusyError):
        await LockManager(store).acquire(PATH, b"one")


async def test_the_lock_of_an_own_earlier_session_is_taken_over_at_once() -> None:
    before = MemoryStore()
    await before.create(PATH, b"one", ephemeral=True, make_parents=True)
    now = before.session()
    lock = await LockManager(now).acquire(PATH, b"one")
    assert lock.is_held
    assert await now.owns(PATH)


async def test_an_updated_lock_has_its_new_value_and_can_be_released() -> None:
    store = MemoryStore()
    lock = await LockManager(store).acquire(PATH, b"one")
    for value in (b"two", b"three"):
        await lock.update(value)
    assert (lock.value, await _value(store)) == (b"three", b"three")
    await lock.release()
    await lock.release()
    assert not lock.is_held
    assert await _value(store) is None
    with pytest.raises(LockNotHeldError):
        await lock.update(b"four")


async def test_a_released_lock_can_be_had_by_others_and_again() -> None:
    store = MemoryStore()
    locks, others = LockManager(store), LockManager(store.session())
    await (await locks.acquire(PATH, b"one")).release()
    await (await others.acquire(PATH, b"two")).release()
    assert (await locks.acquire(PATH, b"one")).is_held


async def test_a_close_releases_all_locks() -> None:
    store = MemoryStore()
    locks = LockManager(store)
    held = [await locks.acquire(f"/namespace/t/n/{number}", b"one") for number in range(5)]
    await locks.close()
    assert await store.children("/namespace/t/n") == []
    assert not any(lock.is_held for lock in held)
