"""A bookie and a real ZooKeeper: the bookie is registered with its true state in its current session, whatever happens
to either."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from compat_tests.small_disk import SmallDisk, small_disk
from magnetar.metadata import paths
from magnetar.metadata.cluster_init import LAYOUT_VALUE
from magnetar.metadata.store import DeleteOp
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.process.running import StartError
from magnetar.server.programs.bookie.bookie_program import BookieApp, BookieOptions
from magnetar.storage.bookie.disks import BookieMode
from magnetar.storage.ledger.cluster_layout import ClusterError
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.records.ledger_record import ledger_path
from pulsar_proto.wire.bookie_wire import BookieRc
from tests.metadata.zookeeper.zookeeper_proxy import ZkProxy
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running
from tests.storage.bookie.helpers import add
from tests.waiting import until

pytestmark = pytest.mark.process

SESSION_MS = 3_000
WAIT_SECONDS = 60

numbers = count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("bookie")) as one:
        yield one


class Cluster:
    """An empty cluster below a chroot of its own. `store` belongs to another client."""

    def __init__(self, server: ZooKeeperServer, folder: Path) -> None:
        self.chroot = f"/cluster{next(numbers)}"
        self.address = server.address
        self.folder = folder
        self.store: ZooKeeperStore

    async def open(self) -> None:
        self.store = await ZooKeeperStore.open(self.address + self.chroot)
        for path, value in (
            (paths.READ_ONLY_BOOKIES, b""),
            (paths.LAYOUT, LAYOUT_VALUE),
            (paths.INSTANCE_ID, b"the-instance"),
        ):
            await self.store.create(path, value, make_parents=True)

    def app(self, **settings: str) -> BookieApp:
        zookeeper = settings.pop("zookeeper", self.address)
        values = {
            "metadataServiceUri": f"zk+hierarchical://{zookeeper}{self.chroot}/ledgers",
            "bookiePort": "0",
            "bookieId": "b1",
            "advertisedAddress": "127.0.0.1",
            "listeningInterface": "lo",
            "journalDirectories": str(self.folder / "journal"),
            "ledgerDirectories": str(self.folder / "ledgers"),
            "zkTimeout": str(SESSION_MS),
            "diskUsageThreshold": "1",
            "diskCheckInterval": "50",
        }
        return BookieApp(BookieOptions(overrides=values | settings))

    @asynccontextmanager
    async def started(self, **settings: str) -> AsyncIterator[BookieApp]:
        app = self.app(**settings)
        try:
            await app.start()
            yield app
        finally:
            await app.stop()

    async def refusal(self, **settings: str) -> str:
        app = self.app(**settings)
        with pytest.raises(StartError) as refused:
            await app.start()
        await app.stop()
        return str(refused.value)

    async def listed(self) -> tuple[list[str], list[str]]:
        """Returns (writable bookies, read-only ones)."""
        writable = await self.store.children(paths.AVAILABLE_BOOKIES)
        return [name for name in writable if name != "readonly"], await self.store.children(paths.READ_ONLY_BOOKIES)

    async def until_listed(self, *expected: list[str]) -> None:
        changed = asyncio.Event()
        cancel = self.store.watch(paths.AVAILABLE_BOOKIES, lambda _: changed.set(), recursive=True)
        async with asyncio.timeout(WAIT_SECONDS):
            while await self.listed() != tuple(expected):
                await changed.wait()
                changed.clear()
        cancel()


@pytest.fixture
async def cluster(server: ZooKeeperServer, tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(server, tmp_path)
    await made.open()
    yield made
    await made.store.close()


async def test_a_bookie_is_listed_while_it_runs_and_its_cookie_stays(cluster: Cluster) -> None:
    async with cluster.started() as app:
        assert await cluster.listed() == (["b1"], [])
        record = await cluster.store.get(paths.bookie_path("b1"))
        assert record is not None
        assert record.value == app.identity.service_info()
        assert "b1" in app.ready_line()
        assert app.uses() == 0, "nobody has added or read an entry"
    assert await cluster.listed() == ([], [])
    cookie = await cluster.store.get(paths.cookie_path("b1"))
    assert cookie is not None
    assert cookie.value == (cluster.folder / "journal" / "VERSION").read_bytes()
    async with cluster.started():
        assert await cluster.listed() == (["b1"], [])


async def test_a_lost_session_is_replaced_and_the_bookie_listed_again(
    cluster: Cluster, server: ZooKeeperServer
) -> None:
    proxy = ZkProxy()
    await proxy.start(server.port)
    async with cluster.started(zookeeper=proxy.address) as app:
        first = app.store.session_id
        proxy.refusing = True
        proxy.cut()
        await cluster.until_listed([], [])
        assert await add(app.bookie, 1, range(5)) == BookieRc.EOK, "it serves without ZooKeeper"
        proxy.refusing = False
        await cluster.until_listed(["b1"], [])
        assert app.store.session_id != first
        assert await app.store.owns(paths.bookie_path("b1"))
    await proxy.close()


async def test_a_stop_without_zookeeper_is_quick_and_flushes(cluster: Cluster, server: ZooKeeperServer) -> None:
    proxy = ZkProxy()
    await proxy.start(server.port)
    async with cluster.started(zookeeper=proxy.address) as app:
        await add(app.bookie, 1, range(5))
        proxy.refusing = True
        proxy.cut()
        began = asyncio.get_running_loop().time()
        await app.stop()
        assert asyncio.get_running_loop().time() - began < 10, "no call waits for its time-out"
        assert app.bookie.mode is BookieMode.CLOSED
        assert app.bookie.stats().write_cache_bytes == 0
    await proxy.close()


async def test_a_former_sessions_record_is_waited_for(cluster: Cluster) -> None:
    former = await ZooKeeperStore.open(cluster.address + cluster.chroot)
    await former.create(paths.bookie_path("b1"), b"", ephemeral=True)
    app = cluster.app()
    starting = asyncio.ensure_future(app.start())
    await until(lambda: app.awaits_former_session)
    assert await add(app.bookie, 1, range(5)) == BookieRc.EOK, "the port is open and serves meanwhile"
    assert not starting.done()
    await former.close()
    await starting
    assert await app.store.owns(paths.bookie_path("b1"))
    await app.stop()


async def test_a_record_that_never_goes_stops_the_start(cluster: Cluster) -> None:
    await cluster.store.create(paths.bookie_path("b1"), b"", ephemeral=True)
    reason = await cluster.refusal(zkTimeout="200")
    assert "bookie b1 is still registered by another session" in reason
    assert await cluster.listed() == (["b1"], [])


async def test_somebody_who_deletes_the_record_does_not_take_the_bookie_away(cluster: Cluster) -> None:
    async with cluster.started() as app:
        await cluster.store.delete(paths.bookie_path("b1"))
        await cluster.until_listed(["b1"], [])
        assert await app.store.owns(paths.bookie_path("b1"))


async def test_a_wiped_zookeeper_is_not_filled_again(cluster: Cluster) -> None:
    """Only the operator who initialises a cluster makes its records."""
    async with cluster.started() as app:
        gone = (paths.bookie_path("b1"), paths.READ_ONLY_BOOKIES, paths.AVAILABLE_BOOKIES)
        await cluster.store.multi([DeleteOp(path) for path in gone])
        await until(lambda: app.registered_as is None)
        assert await cluster.store.exists(paths.AVAILABLE_BOOKIES) is None
        await cluster.store.create(paths.READ_ONLY_BOOKIES, make_parents=True)
        await cluster.until_listed(["b1"], [])


async def test_a_forced_read_only_bookie_is_listed_as_one(cluster: Cluster) -> None:
    async with cluster.started(forceReadOnlyBookie="true") as app:
        assert await cluster.listed() == ([], ["b1"])
        assert await add(app.bookie, 1, range(5)) == BookieRc.EREADONLY


async def test_each_mismatch_stops_the_start_with_its_reason(cluster: Cluster) -> None:
    async with cluster.started():
        assert "is in use by process" in await cluster.refusal()
    assert "of bookie b1, this is b2" in await cluster.refusal(bookieId="b2")
    journal, ledgers = str(cluster.folder / "journal"), str(cluster.folder / "ledgers")
    elsewhere = str(cluster.folder / "elsewhere")
    assert f"says ledgerDirectories={ledgers}, configured is {elsewhere}" in await cluster.refusal(
        ledgerDirectories=elsewhere
    )
    assert f"says journalDirectories={journal}, configured is {elsewhere}" in await cluster.refusal(
        journalDirectories=elsewhere
    )
    more = {"ledgerDirectories": f"{ledgers},{elsewhere}"}
    assert "added ones need allowStorageExpansion=true" in await cluster.refusal(**more)
    assert not os.path.exists(elsewhere), "a refused start changes nothing"
    async with cluster.started(**more, allowStorageExpansion="true"):
        assert await cluster.listed() == (["b1"], [])
    async with cluster.started(**more):
        pass
    await cluster.store.delete(paths.cookie_path("b1"))
    assert "ZooKeeper has no cookie of it" in await cluster.refusal(**more)
    await cluster.store.put(paths.INSTANCE_ID, b"another")
    assert "of cluster instance 'the-instance', this cluster is 'another'" in await cluster.refusal(**more)
    assert await cluster.listed() == ([], [])


async def test_a_ledger_directory_that_is_not_mounted_stops_the_start(cluster: Cluster) -> None:
    async with cluster.started():
        pass
    os.rename(cluster.folder / "ledgers", cluster.folder / "away")
    assert "is a disk not mounted?" in await cluster.refusal()
    os.rename(cluster.folder / "journal", cluster.folder / "journal-away")
    assert "its directories are empty" in await cluster.refusal()


async def test_a_place_that_is_no_cluster_is_named(cluster: Cluster) -> None:
    await cluster.store.put(paths.LAYOUT, b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1")
    assert "the cluster keeps its ledgers by org.apache.bookkeeper.meta.FlatLedger" in await cluster.refusal()
    await cluster.store.delete(paths.INSTANCE_ID)
    assert "no /ledgers/INSTANCEID; make one with: magnetar bk initnewcluster" in await cluster.refusal()


async def test_the_first_bookie_writes_the_layout_that_pulsars_initialisation_leaves_out(cluster: Cluster) -> None:
    await cluster.store.delete(paths.LAYOUT)
    async with cluster.started():
        record = await cluster.store.get(paths.LAYOUT)
        assert record is not None
        assert record.value == LAYOUT_VALUE


async def test_a_failed_journal_ends_the_bookie_with_the_reason(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with cluster.started() as app:

        def fail(fd: int) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr("magnetar.storage.bookie.durable_file._sync_data", fail)
        assert await add(app.bookie, 1, range(5)) == BookieRc.EIO
        assert "bookie b1 ends: a write of the journal" in await asyncio.wait_for(app.failed(), WAIT_SECONDS)
        monkeypatch.undo()


async def test_the_http_port_is_registered_too(cluster: Cluster) -> None:
    async with cluster.started(httpServerEnabled="true", httpServerHost="127.0.0.1", httpServerPort="0") as app:
        record = await cluster.store.get(paths.bookie_path("b1"))
        assert record is not None
        endpoints = pb.BookieServiceInfoFormat.FromString(record.value).endpoints
        assert [(each.protocol, each.port) for each in endpoints] == [
            ("bookie-rpc", app.identity.port),
            ("http", app.http_port),
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", app.http_port)
        writer.write(b"GET /api/v1/bookie/is_ready HTTP/1.0\r\n\r\n")
        assert b" 200 " in await reader.readline()
        writer.close()


async def test_pulsars_metrics_provider_opens_a_port_for_metrics_alone(cluster: Cluster) -> None:
    provider = "org.apache.bookkeeper.stats.prometheus.PrometheusMetricsProvider"
    address = {"prometheusStatsHttpAddress": "127.0.0.1", "prometheusStatsHttpPort": "0"}
    async with cluster.started(statsProviderClass=provider, **address) as app:
        record = await cluster.store.get(paths.bookie_path("b1"))
        assert record is not None
        assert len(pb.BookieServiceInfoFormat.FromString(record.value).endpoints) == 1
        for path, status in ((b"/metrics", b" 200 "), (b"/api/v1/bookie/gc", b" 404 ")):
            reader, writer = await asyncio.open_connection("127.0.0.1", app.http_port)
            writer.write(b"GET " + path + b" HTTP/1.0\r\n\r\n")
            assert status in await reader.readline()
            writer.close()


async def test_deleted_ledgers_go_and_listed_ones_stay(cluster: Cluster) -> None:
    async with cluster.started() as app:
        ids = LedgerIdGenerator(cluster.store)
        first, second = [await ids.next_id() for _ in range(2)]
        for ledger_id in (first, second):
            await cluster.store.create(ledger_path(ledger_id), b"any", make_parents=True)
            assert await add(app.bookie, ledger_id, range(5)) == BookieRc.EOK
        await cluster.store.delete(ledger_path(first))
        await app.bookie.collect_garbage()
        assert app.bookie.ledger_ids() == {second}


async def test_nothing_is_deleted_because_of_another_cluster_in_this_ones_place(cluster: Cluster) -> None:
    """After ZooKeeper was wiped and initialised again, none of our ledgers is listed there, which must not make them
    garbage."""
    async with cluster.started() as app:
        await add(app.bookie, 1, range(5))
        await cluster.store.put(paths.INSTANCE_ID, b"a new one")
        with pytest.raises(ClusterError, match="nothing is deleted"):
            await app.bookie.collect_garbage()
        await cluster.store.delete(paths.INSTANCE_ID)
        with pytest.raises(ClusterError, match="nothing is deleted"):
            await app.bookie.collect_garbage()
        assert app.bookie.ledger_ids() == {1}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path, 64) as made:
        yield made


FULL_AT = {"diskUsageThreshold": "0.9", "diskUsageLwmThreshold": "0.8"}


async def test_a_full_disk_turns_the_bookie_read_only_and_room_turns_it_back(disk: SmallDisk, cluster: Cluster) -> None:
    async with cluster.started(**FULL_AT) as app:
        assert await add(app.bookie, 1, range(5)) == BookieRc.EOK
        disk.fill(leave_bytes=3 << 20)
        await cluster.until_listed([], ["b1"])
        assert app.bookie.mode is BookieMode.READ_ONLY
        assert await add(app.bookie, 1, range(5, 6)) == BookieRc.EREADONLY
        disk.empty()
        await cluster.until_listed(["b1"], [])
        assert await add(app.bookie, 1, range(5, 6)) == BookieRc.EOK


async def test_without_a_read_only_mode_a_full_disk_ends_the_bookie(disk: SmallDisk, cluster: Cluster) -> None:
    async with cluster.started(**FULL_AT, readOnlyModeEnabled="false") as app:
        disk.fill(leave_bytes=3 << 20)
        assert "readOnlyModeEnabled=false" in await asyncio.wait_for(app.failed(), WAIT_SECONDS)
