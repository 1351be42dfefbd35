"""Locks and leadership on a real ZooKeeper: what becomes of them when the link breaks, when the session ends, and when
others touch their records."""

import asyncio

import pytest

from magnetar.metadata.coordination.leader_election import LeaderElection
from magnetar.metadata.coordination.lock_errors import LockBusyError
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.coordination.resource_lock import ResourceLock
from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.zookeeper.zookeeper_events import SessionRecorder, end_session
from tests.metadata.zookeeper.zookeeper_proxy import ZkProxy
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer
from tests.waiting import until

pytestmark = pytest.mark.process

PATH = "/namespace/t/n/0x00000000_0xffffffff"
LEADER = "/loadbalance/leader"


async def _lose_session(store: ZooKeeperStore, proxy: ZkProxy, server: ZooKeeperServer) -> None:
    """Ends the session while the store is cut off; returns while it is still cut off."""
    events = SessionRecorder(store)
    proxy.refusing = True
    proxy.cut()
    await events.until(SessionEvent.DISCONNECTED)
    await end_session(store, server.port)


async def _come_back(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    events = SessionRecorder(store)
    proxy.refusing = False
    await events.until(SessionEvent.NEW_SESSION)


def _losses(lock: ResourceLock) -> list[str]:
    lost: list[str] = []
    lock.on_lost(lambda: lost.append(lock.path))
    return lost


async def _settled(lock: ResourceLock) -> None:
    await until(lambda: lock._checking is None and not lock._doubted)


async def test_a_lock_outlives_a_break_of_the_link(store: ZooKeeperStore, proxy: ZkProxy) -> None:
    lock = await LockManager(store).acquire(PATH, b"one")
    lost = _losses(lock)
    await _settled(lock)
    events = SessionRecorder(store)
    before = await store.get(PATH)
    proxy.cut()
    await events.until(SessionEvent.CONNECTED)
    await lock.update(b"two")
    after = await store.get(PATH)
    assert before is not None
    assert after is not None
    assert (after.value, after.stat.created_ms) == (b"two", before.stat.created_ms)
    assert lock.is_held
    assert not lost


async def test_a_lock_is_made_again_in_the_new_session(
    store: ZooKeeperStore, direct: ZooKeeperStore, proxy: ZkProxy, server: ZooKeeperServer
) -> None:
    lock = await LockManager(store).acquire(PATH, b"one")
    lost = _losses(lock)
    first_session = store.session_id
    await _lose_session(store, proxy, server)
    await until_gone(direct, PATH)
    assert lock.is_held, "nobody else has it"
    await _come_back(store, proxy)
    async with asyncio.timeout(60):
        while not await store.owns(PATH):
            await store.sync()
    await _settled(lock)
    assert store.session_id != first_session
    assert lock.is_held
    assert not lost


async def test_a_lock_that_somebody_else_took_meanwhile_is_lost(
    store: ZooKeeperStore, direct: ZooKeeperStore, proxy: ZkProxy, server: ZooKeeperServer
) -> None:
    lock = await LockManager(store).acquire(PATH, b"one")
    lost = _losses(lock)
    await _lose_session(store, proxy, server)
    await until_gone(direct, PATH)
    other = await LockManager(direct).acquire(PATH, b"two")
    await _come_back(store, proxy)
    await until(lambda: bool(lost))
    assert lost == [PATH]
    assert not lock.is_held
    await _settled(other)
    assert other.is_held
    assert await direct.owns(PATH)


async def test_a_lock_that_an_operator_deleted_is_made_again(store: ZooKeeperStore, direct: ZooKeeperStore) -> None:
    lock = await LockManager(store).acquire(PATH, b"one")
    lost = _losses(lock)
    await _settled(lock)
    await direct.delete(PATH)
    async with asyncio.timeout(60):
        while not await store.owns(PATH):
            await store.sync()
    assert lock.is_held
    assert not lost


async def test_a_restarted_process_takes_its_own_stale_lock_at_once(
    server: ZooKeeperServer, direct: ZooKeeperStore, store: ZooKeeperStore, chroot: str
) -> None:
    dead = await ZooKeeperStore.open(server.address + chroot, session_timeout_ms=60_000)
    await LockManager(dead).acquire(PATH, b"one:8080")
    dead._client._runner.cancel()  # type: ignore[union-attr]
    assert dead._client._link is not None
    dead._client._link.abort()  # as a process that is killed: its session lives on
    with pytest.raises(LockBusyError):
        await LockManager(direct).acquire(PATH, b"two:8080")
    lock = await LockManager(store).acquire(PATH, b"one:8080")
    assert lock.is_held
    assert await store.owns(PATH)


async def test_the_leader_of_a_lost_session_follows_who_was_elected_meanwhile(
    store: ZooKeeperStore, direct: ZooKeeperStore, proxy: ZkProxy, server: ZooKeeperServer
) -> None:
    told: list[bool] = []
    first = LeaderElection(store, LEADER, b"one", told.append)
    await first.start()
    second = LeaderElection(direct, LEADER, b"two")
    await second.start()
    assert (first.is_leader, second.is_leader) == (True, False)
    assert await second.leader() == b"one"
    await _lose_session(store, proxy, server)
    await until(lambda: second.is_leader)
    await _come_back(store, proxy)
    async with asyncio.timeout(60):
        while await first.leader() != b"two":
            await store.sync()
    assert told == [True, False]
    await second.close()
    await until(lambda: first.is_leader)
    assert await first.leader() == b"one"
    assert await store.owns(LEADER)
    await first.close()
    assert await direct.get(LEADER) is None


async def until_gone(store: ZooKeeperStore, path: str) -> None:
    async with asyncio.timeout(60):
        while await store.exists(path) is not None:
            await store.sync()
