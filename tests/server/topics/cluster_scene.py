"""Brokers of one cluster over one metadata tree: topics on fake managed ledgers, real locks, and stores that suspend at
every call."""

import json
from functools import partial
from typing import Any, cast

from magnetar.metadata import paths
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.config.bundle_settings import BundleSettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.namespaces.broker_addresses import addresses_of
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ownership import BundleOwnership
from magnetar.server.network.ports import Urls
from magnetar.server.topics.broker_service import BrokerService
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.broker_scene import FakeFactory
from tests.server.topics.scene import FakeConnection
from tests.storage.ledger.distant_store import DistantStore

NAMESPACE = "acme/orders"
BOUNDARIES = ("0x00000000", "0x40000000", "0x80000000", "0xc0000000", "0xffffffff")
T0 = TopicName.parse("persistent://acme/orders/t0")
NP = TopicName.parse("non-persistent://acme/orders/np")


class Broker:
    """One broker of the cluster."""

    def __init__(self, tree: MemoryStore, number: int, **settings: Any) -> None:
        self.tree = tree
        self.store = DistantStore(tree, lambda: 0.0)
        self.factory = FakeFactory(self.store)
        addresses = addresses_of(Urls(f"pulsar://h{number}:6650", web=f"http://h{number}:8080"))
        own = partial(BundleOwnership, store=self.store, locks=LockManager(self.store), addresses=addresses)
        self.service = BrokerService(
            cast(Any, self.factory), self.store, TopicSettings(), own, BundleSettings(**settings)
        )

        self.ownership.departures.wait_seconds_max = 0.01

    @property
    def ownership(self) -> BundleOwnership:
        return cast(BundleOwnership, self.service.ownership)

    async def take(self, topic: TopicName = T0) -> BundleName:
        bundle = await self.ownership.bundle_of(topic)
        await self.ownership.acquire(bundle)
        return bundle

    async def produce(self, cnx: FakeConnection, topic: TopicName = T0) -> Any:
        loaded = await self.service.get_for_client(topic)
        return await loaded.add_producer(cnx, pb.CommandProducer(topic=topic.full, producer_id=1, request_id=1))

    async def consume(self, cnx: FakeConnection, topic: TopicName = T0) -> Any:
        loaded = await self.service.get_for_client(topic)
        command = pb.CommandSubscribe(
            topic=topic.full, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=1
        )
        return await loaded.subscribe(cnx, command)

    async def record(self, path: str) -> Any:
        """Returns the JSON at the path."""
        record = await self.tree.get(path)
        return None if record is None else json.loads(record.value)


async def cluster(size: int = 2, **settings: Any) -> list[Broker]:
    """Returns the brokers, which serve the namespace acme/orders of four bundles."""
    tree = MemoryStore()
    bundles = {"boundaries": list(BOUNDARIES), "numBundles": len(BOUNDARIES) - 1}
    policies = {"bundles": bundles, "ofALaterVersion": 1}
    await tree.create(paths.policies_path(NAMESPACE), json.dumps(policies).encode(), make_parents=True)
    brokers = [Broker(tree if number == 0 else tree.session(), number, **settings) for number in range(size)]
    for broker in brokers:
        await broker.service.warm_up()
    return brokers
