"""Bookies that heal each other's ledgers (`autoRecoveryDaemonEnabled`, on as in Apache's), while some are killed, or
paused for so long that they lose their session."""

import asyncio
import signal
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from compat_tests.bookkeeper.our_bookie import OurBookie
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.commands.main import main
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.repair.auditor_election import current_auditor
from magnetar.storage.repair.auto_recovery import wall_clock_ms
from magnetar.storage.repair.ledger_checker import LedgerChecker
from magnetar.storage.repair.ledger_index import bookies_of
from magnetar.storage.repair.underreplication import Underreplication
from tests.metadata.zookeeper.zookeeper_server import ZooKeeperServer, running
from tests.storage.repair.repair_scene import append
from tests.waiting import moment

pytestmark = pytest.mark.process

SECONDS = 120
ENTRIES = 50
SETTINGS = {
    "autoRecoveryDaemonEnabled": "true",
    "zkTimeout": "3000",
    "openLedgerRereplicationGracePeriod": "300",
    "rwRereplicateBackoffMs": "200",
}


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with running(tmp_path_factory.mktemp("in-bookies")) as one:
        assert main(["bk", "initnewcluster", "--metadata-service-uri", f"zk://{one.address}/ledgers"]) == 0
        yield one


@pytest.fixture
def bookies(zookeeper: ZooKeeperServer, tmp_path: Path) -> Iterator[list[OurBookie]]:
    made = [OurBookie(tmp_path / f"bookie{number}", zookeeper.address, SETTINGS) for number in range(4)]
    try:
        for bookie in made:
            bookie.start()
        yield made
    finally:
        for bookie in made:
            bookie.process.send_signal(signal.SIGCONT)
        for bookie in made:
            if bookie.process.poll() is None:
                bookie.stop()  # If it were killed, it would stay registered, and the next test would write to it.


class Cluster:
    def __init__(self, client: BookKeeperCluster) -> None:
        self.client = client
        self.book = Underreplication(client.store, now_ms=wall_clock_ms)
        self.ledgers: list[int] = []

    async def write(self, count: int) -> None:
        for number in range(count):
            handle = await self.client.bookkeeper.create_ledger(ensemble_size=3, write_quorum=3, ack_quorum=2)
            await append(handle, ENTRIES)
            if number:
                await handle.close()
            self.ledgers.append(handle.ledger_id)

    async def auditor(self, among: Collection[str]) -> str:
        """Returns the auditor once it is one of `among`. Until then there may be none, or one from before whose session
        has not ended yet."""
        async with asyncio.timeout(SECONDS):
            while (auditor := await current_auditor(self.client.store)) not in among:
                await moment()
        assert auditor is not None
        return auditor

    async def healed(self, lost: str) -> None:
        """Waits until no ledger names the lost bookie and none is marked, and checks every copy of every entry."""
        ends = time.monotonic() + SECONDS
        while True:
            records = [(await self.client.driver.read(ledger_id)).metadata for ledger_id in self.ledgers]
            named = [metadata for metadata in records if lost in bookies_of(metadata)]
            marked = [ledger_id async for ledger_id in self.book.marked()]
            if not named and not marked:
                break
            assert time.monotonic() < ends, f"not healed: marked {marked}, {lost} stands in {named}"
            await moment()
        checker = LedgerChecker(self.client, percentage=100)
        for ledger_id in self.ledgers:
            reader = await self.client.bookkeeper.open_ledger(ledger_id)
            assert reader.last_add_confirmed == ENTRIES - 1
            assert await checker.check(await checker.open(ledger_id)) == []


@pytest.mark.parametrize("deed", ["kill", "pause"])
async def test_the_auditors_bookie_goes_away_and_the_others_heal_its_ledgers(
    zookeeper: ZooKeeperServer, bookies: list[OurBookie], deed: str
) -> None:
    store = await ZooKeeperStore.open(zookeeper.address)
    client = await BookKeeperCluster.connect(store)
    cluster = Cluster(client)
    try:
        await cluster.write(8)
        by_id = {bookie.bookie_id: bookie for bookie in bookies}
        first = await cluster.auditor(by_id)
        victim = by_id.pop(first)
        if deed == "kill":
            victim.kill()
        else:
            victim.process.send_signal(signal.SIGSTOP)
        await cluster.auditor(by_id)
        await cluster.healed(first)
        if deed == "pause":
            victim.process.send_signal(signal.SIGCONT)
            async with asyncio.timeout(SECONDS):
                while len(client.registry.writable()) < 4 or len(await store.children(VOTES)) < 4:
                    await moment()
            assert victim.process.poll() is None, "it went on in a new session"
            await cluster.write(2)
    finally:
        for ledger_id in cluster.ledgers:
            await client.bookkeeper.delete_ledger(ledger_id)
        await client.close()
        await store.close()


VOTES = "/ledgers/underreplication/auditorelection"
