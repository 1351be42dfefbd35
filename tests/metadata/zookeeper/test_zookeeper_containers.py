"""Missing parents are containers, which the server removes when they are empty; creates go on all the same."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from magnetar.metadata import paths
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.errors import NoNodeError
from magnetar.metadata.store import CreateOp, DeleteOp
from magnetar.metadata.zookeeper import jute_codec as zk_codec
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running

pytestmark = pytest.mark.process

DEADLINE_SECONDS = 60.0
CHECK_MS = 20
"""How often the server looks for empty containers."""


@pytest.fixture(scope="module")
def quick_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    options = (f"-Dznode.container.checkIntervalMs={CHECK_MS}", "-Dznode.container.maxPerMinute=1000000")
    with running(tmp_path_factory.mktemp("containers"), options) as one:
        yield one


@pytest.fixture
async def quick_store(quick_server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
    store = await ZooKeeperStore.open(f"{quick_server.address}/containers")
    yield store
    await store.close()


async def _until_gone(store: ZooKeeperStore, path: str) -> None:
    gone = asyncio.Event()
    cancel = store.watch(path, lambda _: gone.set())
    async with asyncio.timeout(DEADLINE_SECONDS):
        while await store.exists(path) is not None:
            await gone.wait()
            gone.clear()
    cancel()


async def test_empty_parents_vanish_up_to_the_fixed_root(quick_store: ZooKeeperStore) -> None:
    path = paths.bundle_owner_path("t/n", "0x00000000_0xffffffff")
    await quick_store.create(path, b"", ephemeral=True, make_parents=True)
    await quick_store.delete(path)
    await _until_gone(quick_store, "/namespace/t/n")
    await _until_gone(quick_store, "/namespace/t")
    assert await quick_store.exists(paths.NAMESPACE_OWNERS) is not None
    assert await quick_store.exists("/") is not None


async def test_parents_of_numbered_and_of_bookkeepers_records_stay(quick_store: ZooKeeperStore) -> None:
    numbered = (await quick_store.create("/s/deep/n-", sequential=True, make_parents=True)).path
    ledger = "/ledgers/00/0000/L0001"
    await quick_store.create(ledger, make_parents=True)
    await quick_store.create("/gone/child", make_parents=True)
    await quick_store.multi([DeleteOp(numbered), DeleteOp(ledger), DeleteOp("/gone/child")])
    await _until_gone(quick_store, "/gone")
    assert (await quick_store.create("/s/deep/n-", sequential=True)).path == "/s/deep/n-0000000001"
    assert await quick_store.exists("/ledgers/00/0000") is not None


async def test_locks_are_had_while_their_parents_vanish(quick_store: ZooKeeperStore) -> None:
    """A parent may go between the look for it and the create below it, and often does here."""
    locks = LockManager(quick_store)
    vanished: list[str] = []
    quick_store.watch(
        "/namespace/v",
        lambda event: vanished.append(event.path) if event.type.value == "deleted" else None,
        recursive=True,
    )
    async with asyncio.timeout(DEADLINE_SECONDS):
        rounds = 0
        while vanished.count("/namespace/v/n") < 5:
            rounds += 1
            lock = await locks.acquire("/namespace/v/n/bundle", str(rounds).encode())
            assert await quick_store.owns(lock.path)
            await lock.release()
    with pytest.raises(NoNodeError):
        await quick_store.create("/namespace/missing/bundle")


def test_a_container_is_asked_for_as_java_does() -> None:
    body = zk_codec.multi_body([CreateOp("/c", container=True), CreateOp("/c/e", b"v", True)], sequential=False)
    assert body.startswith(b"\0\0\0\x0e" + b"\0\0\0\x13\0\xff\xff\xff\xff" + b"\0\0\0\x02/c")
    assert b"anyone" + b"\0\0\0\x04" + b"\0\0\0\x01\0\xff\xff\xff\xff" in body
