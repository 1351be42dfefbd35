"""Brokers that own bundles by locks, over one metadata tree. Their stores suspend at every call."""

import json

from magnetar.metadata import paths
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.namespaces.broker_addresses import addresses_of
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ownership import BundleOwnership
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.network.ports import Urls
from pulsar_proto.names import TopicName
from tests.storage.ledger.distant_store import DistantStore

NAMESPACE = "acme/orders"
FOUR = ("0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff")
TOPIC = TopicName.parse("persistent://acme/orders/t0")


class Seat:
    """One broker of the cluster."""

    def __init__(self, store: MemoryStore, number: int) -> None:
        self.near = store
        self.store = DistantStore(store, lambda: 0.0)
        self.addresses = addresses_of(Urls(f"pulsar://h{number}:6650", web=f"http://h{number}:8080"))
        self.bundles = BundleCache(self.store, self._policies)
        self.locks = LockManager(self.store)
        self.ownership = BundleOwnership(self.bundles, store=self.store, locks=self.locks, addresses=self.addresses)
        self.ownership.departures.wait_seconds_max = 0.01
        self.gained: list[str] = []
        self.lost: list[str] = []
        self.ownership.on_gained(lambda bundle: self.gained.append(bundle.range))
        self.ownership.on_lost(lambda bundle: self.lost.append(bundle.range))
        self.ownership.start()

    async def _policies(self, namespace: str) -> dict[str, object] | None:
        record = await self.store.get(paths.policies_path(namespace))
        return None if record is None else json.loads(record.value)


async def cluster(size: int = 2) -> list[Seat]:
    first = MemoryStore()
    policies = {"bundles": {"boundaries": list(FOUR), "numBundles": 4}}
    await first.create(paths.policies_path(NAMESPACE), json.dumps(policies).encode(), make_parents=True)
    return [Seat(first if number == 0 else first.session(), number) for number in range(size)]


async def bundle_of(seat: Seat, topic: TopicName = TOPIC) -> BundleName:
    return await seat.ownership.bundle_of(topic)
