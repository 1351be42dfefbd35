"""A broker service over managed ledgers in memory."""

import asyncio
from typing import Any, cast

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.cache_rates import CacheRates
from magnetar.storage.managed.ledger_reaper import LedgerReaper
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import NoSuchManagedLedger
from magnetar.storage.managed.tail_cache import TailCache
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.fake_managed_ledger import FakeManagedLedger
from tests.server.topics.scene import FakeConnection

NAME = TopicName.parse("persistent://public/default/t")


class FakeFactory:
    """Opens fake managed ledgers, which keep their records in the store. While `gate` is set, opening waits for it."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.bookkeeper = None
        self.cache_rates = CacheRates(TailCache(0))
        self.config = ManagedLedgerConfig()
        self.clock_ms = int
        self.reaper = LedgerReaper(cast(Any, None))
        self.opened: list[str] = []
        self.closed: list[str] = []
        self.gate: asyncio.Event | None = None
        self.failure: Exception | None = None

    async def open(self, name: str, config: ManagedLedgerConfig, *, create: bool) -> FakeManagedLedger:
        self.opened.append(name)
        if self.gate is not None:
            await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        if not await self.exists(name):
            if not create:
                raise NoSuchManagedLedger(name)
            await self.store.create(paths.managed_ledger_path(name), make_parents=True)
        return FakeManagedLedger(name)

    def config_changed(self) -> None:
        """Fake managed ledgers keep nothing that they made of the configuration."""

    async def exists(self, name: str) -> bool:
        return await self.store.exists(paths.managed_ledger_path(name)) is not None

    async def close_ledger(self, name: str) -> None:
        await asyncio.sleep(0)
        self.closed.append(name)

    async def delete(self, name: str) -> None:
        await self.store.delete(paths.managed_ledger_path(name))


class Broker:
    def __init__(self, store: MetadataStore, **settings: Any) -> None:
        self.store = store
        self.factory = FakeFactory(store)
        self.service = BrokerService(cast(Any, self.factory), store, TopicSettings(**settings))


async def make_broker(**settings: Any) -> Broker:
    store = MemoryStore()
    await store.create(paths.policies_path("public/default"), b"{}", make_parents=True)
    return Broker(store, **settings)


async def producer_on(topic: Topic, cnx: FakeConnection) -> Any:
    return await topic.add_producer(cnx, pb.CommandProducer(topic=topic.name.full, producer_id=1, request_id=1))
