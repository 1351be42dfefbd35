"""Auto-recovery on a real ZooKeeper loses its session or its connection, and resumes instead of stopping."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import count
from random import Random

import pytest

from magnetar.metadata import paths
from magnetar.metadata.store import SessionEvent
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.repair.auditor_election import current_auditor
from magnetar.storage.repair.auto_recovery import AutoRecovery, wall_clock_ms
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.underreplication import Underreplication
from tests.metadata.zookeeper.zookeeper_events import SessionRecorder, end_session
from tests.metadata.zookeeper.zookeeper_proxy import ZkProxy
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running
from tests.storage.ledger.fake_bookie import FakeCluster, LinkState
from tests.storage.repair.repair_scene import CONFIG, append
from tests.waiting import moment

pytestmark = pytest.mark.process

SETTINGS = AutoRecoveryConfig(
    auditor_periodic_check_interval=0, open_ledger_rereplication_grace_period=100, rw_rereplicate_backoff_ms=100
)
SECONDS = 60
numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("repair")) as one:
        yield one


class Bench:
    """Fake bookies registered in ZooKeeper, a client, and an auto-recovery that reaches ZooKeeper through a proxy."""

    def __init__(self, server: ZooKeeperServer, proxy: ZkProxy) -> None:
        self.server = server
        self.proxy = proxy
        self.chroot = f"/repair/{next(numbers)}"
        self.fakes = FakeCluster(5)

    async def start(self) -> None:
        self.direct = await ZooKeeperStore.open(self.server.address + self.chroot)
        for name in self.fakes.names():
            await self.direct.create(paths.bookie_path(name), ephemeral=True, make_parents=True)
        self.client = await self.connect(self.direct, "client")
        self.book = Underreplication(self.direct, now_ms=wall_clock_ms)
        self.store = await ZooKeeperStore.open(self.proxy.address + self.chroot, session_timeout_ms=6000)
        self.session = SessionRecorder(self.store)
        self.recovery = AutoRecovery(await self.connect(self.store, "recovery"), SETTINGS, "r0")
        await self.recovery.start()

    async def connect(self, store: ZooKeeperStore, name: str) -> BookKeeperCluster:
        cluster = BookKeeperCluster(store, config=CONFIG, rng=Random(name), channel_of=self.fakes.channel_of(name))
        await cluster.registry.start()
        return cluster

    async def lose(self, bookie: str) -> None:
        self.fakes.bookies[bookie].network = LinkState.RESET
        await self.direct.delete(paths.bookie_path(bookie))

    async def healed(self, bookie: str, ledgers: list[int]) -> None:
        """Waits until no record names the bookie and there are no marks and no locks."""
        async with asyncio.timeout(SECONDS):
            while True:
                metadata = [(await self.client.driver.read(ledger_id)).metadata for ledger_id in ledgers]
                named = any(bookie in members for one in metadata for _, members in one.ensembles)
                marked = [ledger_id async for ledger_id in self.book.marked()]
                if not named and not marked and not await self.book.locks():
                    return
                await moment()

    async def auditor(self) -> str:
        async with asyncio.timeout(SECONDS):
            while (auditor := await current_auditor(self.direct)) is None:
                await moment()
        return auditor

    async def close(self) -> None:
        await self.recovery.stop()
        await self.store.close()
        await self.client.close()
        await self.direct.close()


@pytest.fixture
async def bench(server: ZooKeeperServer) -> AsyncIterator[Bench]:
    proxy = ZkProxy()
    await proxy.start(server.port)
    made = Bench(server, proxy)
    await made.start()
    yield made
    await made.close()
    await proxy.close()


async def ledgers_on(bench: Bench, entries: int = 50) -> list[int]:
    handles = [
        await bench.client.bookkeeper.create_ledger(ensemble_size=3, write_quorum=2, ack_quorum=2) for _ in range(12)
    ]
    for handle in handles:
        await append(handle, entries)
        await handle.close()
    return [handle.ledger_id for handle in handles]


async def test_after_its_session_is_lost_it_votes_again_and_heals_what_was_lost_meanwhile(bench: Bench) -> None:
    ledgers = await ledgers_on(bench)
    assert await bench.auditor() == "r0"
    bench.proxy.refusing = True
    bench.proxy.cut()
    await end_session(bench.store, bench.server.port)
    assert await current_auditor(bench.direct) is None
    await bench.lose("b0")
    bench.proxy.refusing = False
    await bench.session.until(SessionEvent.NEW_SESSION)
    assert await bench.auditor() == "r0"
    await bench.healed("b0", ledgers)


async def test_a_cut_connection_does_not_cost_the_office_and_work_goes_on(bench: Bench) -> None:
    ledgers = await ledgers_on(bench)
    assert await bench.auditor() == "r0"
    votes = await bench.direct.children("/ledgers/underreplication/auditorelection")
    await bench.lose("b1")
    for _ in range(5):
        bench.proxy.cut()
        await moment()
    await bench.healed("b1", ledgers)
    assert await bench.direct.children("/ledgers/underreplication/auditorelection") == votes


async def test_a_session_lost_while_ledgers_are_healed_leaves_no_lock_and_no_ledger_behind(bench: Bench) -> None:
    ledgers = await ledgers_on(bench)
    for name in bench.fakes.names():
        bench.fakes.link("recovery", name).hold()
    await bench.lose("b2")
    async with asyncio.timeout(SECONDS):
        while not await bench.book.locks():
            await moment()
    bench.proxy.refusing = True
    bench.proxy.cut()
    await end_session(bench.store, bench.server.port)
    assert await bench.book.locks() == []
    for name in bench.fakes.names():
        bench.fakes.link("recovery", name).release()
    bench.proxy.refusing = False
    await bench.healed("b2", ledgers)


async def test_a_vote_that_somebody_deletes_is_cast_again(bench: Bench) -> None:
    assert await bench.auditor() == "r0"
    (vote,) = await bench.direct.children("/ledgers/underreplication/auditorelection")
    await bench.direct.delete(f"/ledgers/underreplication/auditorelection/{vote}")
    assert await bench.auditor() == "r0"
    ledgers = await ledgers_on(bench)
    await bench.lose("b3")
    await bench.healed("b3", ledgers)
