"""Locks and leadership are given up also while the store is silent or out of reach: they end with the session then."""

import asyncio

import pytest

from magnetar.metadata.coordination import leader_election, lock_manager
from magnetar.metadata.coordination.leader_election import LeaderElection
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import Record

SECONDS_MAX = 20


class SilentStore(MemoryStore):
    """Reads never end once the store is silent."""

    is_silent = False
    is_linked = True

    @property
    def is_connected(self) -> bool:
        return self.is_linked

    async def get(self, path: str) -> Record | None:
        if self.is_silent:
            await asyncio.get_running_loop().create_future()
        return await super().get(path)


@pytest.mark.parametrize("is_linked", [True, False])
async def test_a_close_does_not_wait_for_a_store_that_is_away(is_linked: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lock_manager, leader_election):
        monkeypatch.setattr(module, "CLOSE_SECONDS_MAX", 0.05 if is_linked else 1000.0)
    store = SilentStore()
    locks = LockManager(store)
    held = [await locks.acquire(f"/namespace/t/n/{number}", b"one") for number in range(100)]
    told: list[bool] = []
    lost: list[str] = []
    held[0].on_lost(lambda: lost.append(held[0].path))
    election = LeaderElection(store, "/loadbalance/leader", b"one", told.append)
    await election.start()
    store.is_silent, store.is_linked = True, is_linked
    async with asyncio.timeout(SECONDS_MAX):
        await asyncio.gather(locks.close(), election.close())
    assert told == [True, False]
    assert lost == []
    assert not any(lock.is_held for lock in held)
    others = store.session()
    assert len(await others.children("/namespace/t/n")) == 100
    await store.close()
    assert await others.children("/namespace/t/n") == []
    assert await others.exists("/loadbalance/leader") is None
