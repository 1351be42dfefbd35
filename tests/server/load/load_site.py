"""Brokers of one cluster over one metadata store, with all that they have of load balancing.

Each broker has a session of its own, and each call of the store suspends.
"""

import asyncio
from dataclasses import replace
from functools import partial
from random import Random

from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BrokerUsage, BundleStats, LocalBrokerData, ResourceUsage
from magnetar.server.load.leader_duties import BundleRequestError, LeaderDuties
from magnetar.server.load.load_manager import LoadManager
from magnetar.server.load.load_reporter import LoadReporter
from magnetar.server.load.registered_brokers import broker_path
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.network.ports import Urls
from tests.server.load.clusters import MB
from tests.storage.ledger.distant_store import DistantStore
from tests.waiting import until

SETTINGS = LoadSettings(load_balancer_report_update_min_interval_millis=10)
CLUSTER = "c1"


def bundle(number: int, namespace: str = "t/n") -> BundleName:
    return BundleName.of(namespace, number << 28, (number + 1) << 28)


class Stats:
    """The bundles of a broker, as a test has set them."""

    def __init__(self) -> None:
        self.bundles: dict[str, BundleStats] = {}
        self.reads = 0

    async def collect(self) -> dict[str, BundleStats]:
        return self.current()

    def current(self) -> dict[str, BundleStats]:
        self.reads += 1
        return {name: replace(each) for name, each in self.bundles.items()}


class Requests:
    """Remembers what was asked for, and does it to the fake brokers."""

    def __init__(self, site: "Site") -> None:
        self.site = site
        self.unloads: list[tuple[str, str]] = []
        self.splits: list[tuple[str, bool]] = []
        self.fails = False

    async def unload(self, bundle: BundleName, destination: str) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise BundleRequestError("the owner does not answer")
        self.unloads.append((str(bundle), destination))
        for each in self.site.brokers.values():
            each.stats.bundles.pop(str(bundle), None)

    async def split(self, bundle: BundleName, *, unload: bool) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise BundleRequestError("the owner does not answer")
        self.splits.append((str(bundle), unload))


class FakeBroker:
    """What a broker has of load balancing."""

    def __init__(self, site: "Site", number: int, settings: LoadSettings) -> None:
        self.session: MetadataStore = site.tree.session()
        store = self.store = DistantStore(self.session, lambda: 0.0)
        host = f"h{number}"
        self.addresses = BrokerAddresses(f"{host}:8080", Urls(f"pulsar://{host}:6650", "", f"http://{host}:8080", ""))
        self.id = self.addresses.broker_id
        self.stats = Stats()
        self.cpu = 0.1
        self.manager = LoadManager(store, self.addresses, CLUSTER, settings, random=Random(number))
        self.locks = LockManager(store)
        self.reporter = LoadReporter(store, self.locks, self.addresses, settings, self.stats, self._measure)
        self.bundles = BundleCache(store, _no_policies)
        self.requests = Requests(site)
        self.duties = LeaderDuties(store, self.manager, self.bundles, self.requests)

    async def _measure(self, nic_speed_gbps: float) -> BrokerUsage:
        return BrokerUsage(cpu=ResourceUsage(self.cpu * 200, 200))

    async def start(self) -> None:
        await self.manager.start()
        await self.reporter.start()
        self.duties.start()

    async def stop(self) -> None:
        await self.duties.stop()
        await self.reporter.stop()
        await self.manager.close()
        await self.session.close()

    async def die(self) -> None:
        """Its session ends without a word."""
        await self.session.close()
        for task in (self.duties._task, self.reporter._task):
            if task is not None:
                task.cancel()

    def own(self, *bundles: BundleName, megabytes: float = 0.0, topics: int = 1) -> None:
        half = megabytes * MB / 2
        for each in bundles:
            self.stats.bundles[str(each)] = BundleStats(100, half, 100, half, 1, 1, topics)


def _sees(broker: FakeBroker, ids: set[str]) -> bool:
    return broker.manager.view.brokers.keys() == ids


async def _no_policies(namespace: str) -> None:
    return None


class Site:
    """A cluster."""

    def __init__(self) -> None:
        self.tree = MemoryStore()
        self.brokers: dict[str, FakeBroker] = {}

    async def broker(self, number: int, settings: LoadSettings = SETTINGS) -> FakeBroker:
        made = FakeBroker(self, number, settings)
        await made.start()
        self.brokers[made.id] = made
        return made

    async def cluster(self, count: int, settings: LoadSettings = SETTINGS) -> list[FakeBroker]:
        made = [await self.broker(number, settings) for number in range(count)]
        await self.all_see(made)
        return made

    async def all_see(self, brokers: list[FakeBroker]) -> None:
        ids = {each.id for each in brokers}
        for each in brokers:
            await until(partial(_sees, each, ids))

    async def report(self, broker_id: str) -> LocalBrokerData:
        record = await self.tree.get(broker_path(broker_id))
        assert record is not None
        report = LocalBrokerData.read(record.value)
        assert report is not None
        return report
