"""One life of a broker with transactions in a simulation, and the connections of its clients."""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any

from magnetar.metadata.store import CancelWatch, WatchCallback
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.transactions import make_coordinators
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.transactions.coordinators import TransactionCoordinators
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.server.transactions.live_transactions import LiveTransactions
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, Received
from tests.server.topics.transactions.scene import send
from tests.sim.processes import Process, at_home
from tests.sim.sim_cluster import CLIENT, SimCluster
from tests.storage.ledger.distant_store import DistantStore

LEDGERS = ManagedLedgerConfig(
    managed_ledger_default_ensemble_size=2,
    managed_ledger_default_write_quorum=2,
    managed_ledger_default_ack_quorum=2,
    managed_ledger_max_entries_per_ledger=7,
    managed_ledger_min_ledger_rollover_time_minutes=0,
)


class SimConnection(FakeConnection):
    """A client's connection, on which the client can wait for what the broker writes."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = asyncio.Event()
        self.taken = 0
        """How many of the messages the client has looked at."""

    def write(self, data: bytes) -> None:
        super().write(data)
        self._changed.set()

    def close_producer(self, producer_id: int) -> None:
        super().close_producer(producer_id)
        self._changed.set()

    def close_consumer(self, consumer_id: int) -> None:
        super().close_consumer(consumer_id)
        self._changed.set()

    @property
    def is_cut(self) -> bool:
        """Whether the broker has closed the client's producer or consumer."""
        return bool(self.of_type("CLOSE_PRODUCER") or self.of_type("CLOSE_CONSUMER"))

    async def until(self, condition: Callable[[], object]) -> None:
        """Returns when the condition holds. Raises Gone when the broker has closed the producer or consumer."""
        while not condition():
            if self.is_cut or not self.is_open:
                raise Gone
            self._changed.clear()
            await self._changed.wait()

    async def next_message(self) -> Received:
        await self.until(lambda: len(self.messages) > self.taken)
        self.taken += 1
        return self.messages[self.taken - 1]


class Gone(Exception):
    """A worker's producer or consumer was closed, or a message was refused. The worker begins anew."""


class ProcessStore(DistantStore):
    """A broker's way to the metadata, by which a killed process hears nothing."""

    def watch(self, path: str, callback: WatchCallback, *, recursive: bool = False) -> CancelWatch:
        home = copy_context()
        return super().watch(path, lambda event: at_home(home, partial(callback, event)), recursive=recursive)


class Life:
    """One life of the broker, in a process of its own."""

    def __init__(self, number: int, cluster: SimCluster, settings: TransactionSettings) -> None:
        self.label = f"broker.{number}"
        self.process = Process(self.label)
        self._cluster = cluster
        self._settings = settings
        self.service: BrokerService
        self.coordinators: TransactionCoordinators
        self.ids = iter(range(1_000_000))

    async def start(self) -> None:
        cluster = self._cluster
        store = cluster.ways_to_store[self.label] = ProcessStore(cluster.store.session(), cluster.delay)
        client = BookKeeperCluster(
            store, config=CLIENT, rng=Random(self.label), channel_of=partial(cluster.link, self.label)
        )
        await client.registry.start()
        factory = ManagedLedgerFactory(store, client.bookkeeper, LEDGERS, clock_ms=cluster.now_ms)
        live = LiveTransactions()
        support = TransactionSupport(self._settings, live)
        self.service = BrokerService(factory, store, TopicSettings(), transactions=support)
        await self.service.warm_up()
        broker = Broker(self.service, ConnectionSettings())
        self.coordinators = broker.transactions = make_coordinators(broker, self._settings, live)
        await self.coordinators.start()

    async def producer(self, cnx: FakeConnection, name: TopicName) -> Producer:
        topic = await self.service.get_topic(name, create=True)
        return await topic.add_producer(
            cnx, pb.CommandProducer(topic=name.full, producer_id=next(self.ids), request_id=next(self.ids))
        )

    async def consumer(self, cnx: FakeConnection, name: TopicName, subscription: str, kind: str) -> Consumer:
        topic = await self.service.get_topic(name, create=True)
        command = pb.CommandSubscribe(
            topic=name.full,
            subscription=subscription,
            subType=pb.CommandSubscribe.SubType.Value(kind),
            consumer_id=next(self.ids),
            request_id=next(self.ids),
            initialPosition=pb.CommandSubscribe.Earliest,
        )
        consumer = await topic.subscribe(cnx, command)
        consumer.flow(1_000)
        return consumer


async def published(producer: Producer, body: bytes, txn_id: TxnId, sequence_id: int) -> None:
    """Publishes a message in a transaction. Raises Gone when it was refused or the producer was closed."""
    cnx: Any = producer.cnx
    receipts, errors = len(cnx.receipts), len(cnx.of_type("SEND_ERROR"))
    send(producer, body, txn_id, sequence_id)
    await cnx.until(lambda: len(cnx.receipts) > receipts or len(cnx.of_type("SEND_ERROR")) > errors)
    if len(cnx.of_type("SEND_ERROR")) > errors:
        raise Gone
