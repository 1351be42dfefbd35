"""A real ZooKeeper, Java's and then our own, behind a proxy that misbehaves, where each fault that was found in aiozk's
session is tested."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from tests.metadata.zookeeper.own_server import KINDS, running
from tests.metadata.zookeeper.zookeeper_proxy import ZkProxy
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer

SESSION_MS = 6000
"""A busy machine does not stall for so long, so that no session ends unless a test wants it."""
CALL_SECONDS = 16.0

numbers = count(1)


@pytest.fixture(scope="package", params=KINDS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("faults"), request.param) as one:
        yield one


@pytest.fixture
async def proxy(server: ZooKeeperServer) -> AsyncIterator[ZkProxy]:
    proxy = ZkProxy()
    await proxy.start(server.port)
    yield proxy
    await proxy.close()


@pytest.fixture
def chroot() -> str:
    return f"/faults/{next(numbers)}"


@pytest.fixture
async def direct(server: ZooKeeperServer, chroot: str) -> AsyncIterator[ZooKeeperStore]:
    """Another client, whose link nothing disturbs."""
    store = await ZooKeeperStore.open(server.address + chroot)
    yield store
    await store.close()


@pytest.fixture
async def store(proxy: ZkProxy, direct: ZooKeeperStore, chroot: str) -> AsyncIterator[ZooKeeperStore]:
    store = await ZooKeeperStore.open(
        proxy.address + chroot,
        session_timeout_ms=SESSION_MS,
        call_timeout_seconds=CALL_SECONDS,
        auth=[("digest", b"me:secret")],
    )
    yield store
    await store.close()
