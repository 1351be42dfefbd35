"""The ZooKeeper store passes the contract: against a real server, through a slow proxy with the connection cut wherever
the suite settles, and with answers lost."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest

from metadata.store import MetadataStore
from metadata.zookeeper import ZooKeeperStore
from tests.metadata.contract import MetadataContract
from tests.metadata.zookeeper_proxy import ZkProxy
from tests.metadata.zookeeper_server import ZooKeeperServer, running

pytestmark = pytest.mark.process

numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("contract")) as one:
        yield one


class TestZooKeeperStore(MetadataContract):
    @pytest.fixture
    async def store(self, server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
        store = await ZooKeeperStore.open(f"{server.address}/direct/{next(numbers)}", session_timeout_ms=10_000)
        yield store
        await store.close()


class TestZooKeeperStoreThroughACuttingProxy(MetadataContract):
    """Answers come in pieces; the connection is cut where the suite settles."""

    @pytest.fixture
    async def store(self, server: ZooKeeperServer) -> AsyncIterator[ZooKeeperStore]:
        self.proxy = ZkProxy()
        self.proxy.chop_bytes = 500
        await self.proxy.start(server.port)
        store = await ZooKeeperStore.open(f"{self.proxy.address}/cut/{next(numbers)}", session_timeout_ms=10_000)
        yield store
        await store.close()
        await self.proxy.close()

    async def settle(self, store: MetadataStore) -> MetadataStore:
        self.proxy.cut()
        return store
