"""One life of a broker in a simulation: the product's own parts, from the metadata's coordination to the client's
connection, put together as `server/programs/broker.py` does it. The links to ZooKeeper, the bookies and the clients are
simulated."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from random import Random
from typing import Any

from magnetar.metadata import paths
from magnetar.server.broker.broker import Broker
from magnetar.server.config.broker_config import ServerConfig, load_config
from magnetar.server.config.broker_keys import BROKER_KEYS
from magnetar.server.config.cluster_settings import managed_ledger_settings
from magnetar.server.load.broker_report import BrokerUsage
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, addresses_of
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ownership import BundleOwnership
from magnetar.server.namespaces.bundle_ranges import hash_of
from magnetar.server.network.ports import Urls
from magnetar.server.process.closing import close_within
from magnetar.server.programs import broker_parts
from magnetar.server.programs.cluster_membership import ClusterMembership
from magnetar.server.protocol.broker_listener import BrokerListener
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.connection import Connection
from magnetar.server.protocol.handlers.command_table import commands_of
from magnetar.server.topics.topic import Topic
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from pulsar_proto.names import TopicName
from tests.sim.processes import Process
from tests.sim.sim_cluster import CLIENT, SimCluster
from tests.sim.sim_sessions import Servers, SimStore

CLUSTER = "c"
STOP_SECONDS = 20.0

OnLoad = Callable[["SimBroker", Topic], None]


class BrokerStore(SimStore):
    """A broker's way to ZooKeeper. `deletes` is called before a request to delete a record leaves."""

    is_remote = True
    deletes: Callable[[str], None] = staticmethod(lambda path: None)

    async def delete(self, path: str, expected_version: int | None = None) -> None:
        self.deletes(path)
        await super().delete(path, expected_version)


class Host:
    """A host without any load."""

    last = BrokerUsage()

    async def measure(self, nic_speed_gbps: float = 0) -> BrokerUsage:
        return self.last


def config_of(**keys: object) -> ServerConfig:
    """Returns the configuration of a broker with these keys of broker.conf."""
    common: dict[str, object] = {
        "clusterName": CLUSTER,
        "topicLevelPoliciesEnabled": False,
        "keepAliveIntervalSeconds": 2,
        "loadBalancerSheddingEnabled": False,
        "loadBalancerAutoBundleSplitEnabled": False,
        "managedLedgerMinLedgerRolloverTimeMinutes": 0,
        "defaultRetentionTimeInMinutes": -1,
        "defaultRetentionSizeInMB": -1,
        "brokerShutdownTimeoutMs": int(STOP_SECONDS * 1000),
    }
    values = {key: str(value).lower() for key, value in {**common, **keys}.items()}
    return load_config(None, values, BROKER_KEYS)


class SimBroker:
    """One life of a broker. `start` begins it; `kill` or `stop` ends it."""

    def __init__(
        self,
        name: str,
        life: int,
        servers: Servers,
        bookies: SimCluster,
        config: ServerConfig,
        on_load: OnLoad,
        faults: list[str],
    ) -> None:
        """`on_load(broker, topic)` is called when the broker has loaded a topic. `faults` takes what no broker may
        do."""
        self.name = name
        self.label = f"{name}.{life}"
        self.process = Process(self.label)
        self.listens = False
        self.has_joined = False
        self.is_leaving = False
        self.outage = False
        """Whether the history is busy with this broker's link to ZooKeeper."""
        self.wires: dict[Any, None] = {}
        """The connections of clients (`sim_clients.Wire`)."""
        self.store: BrokerStore
        self.member: ClusterMembership
        self.broker: Broker
        self.listener: BrokerListener
        self._servers = servers
        self._bookies = bookies
        self._config = config
        self._rng = Random(f"{self.label} {servers.rng.random()}")
        self._on_load = on_load
        self.faults = faults
        self._closing = AsyncExitStack()
        self.started = self.process.spawn(self._start())

    @property
    def ownership(self) -> BundleOwnership:
        ownership = self.broker.ownership
        assert isinstance(ownership, BundleOwnership)
        return ownership

    @property
    def is_up(self) -> bool:
        """Whether the process takes connections and does what it is asked."""
        return self.has_joined and not self.process.is_dead

    @property
    def runs(self) -> bool:
        return self.is_up and not self.process.is_paused

    @property
    def addresses(self) -> BrokerAddresses:
        return addresses_of(Urls(f"pulsar://{self.name}:6650", web=f"http://{self.name}:8080"))

    async def _start(self) -> None:
        """Does what BrokerApp does. An error ends the process, as it does there."""
        config, closing = self._config, self._closing
        self.store = store = BrokerStore(self._servers)
        closing.push_async_callback(store.close)
        store.doubled_share = self._rng.choice([0.0, 0.1, 0.5])
        store.deletes = self._check_delete
        link = partial(self._bookies.link, self.label)
        cluster = BookKeeperCluster(store, config=CLIENT, rng=self._rng, channel_of=link)
        await cluster.registry.start()
        closing.push_async_callback(cluster.close)
        self.member = member = ClusterMembership(config, store, self.addresses)
        closing.push_async_callback(member.close)
        manager = member.load.manager
        manager.random, manager.clock_s = self._rng, asyncio.get_running_loop().time
        member.load._host = Host()  # type: ignore[assignment]
        managed = managed_ledger_settings(config)
        own = member.make_ownership
        service = await broker_parts.open_topics(
            config, store, cluster.bookkeeper, managed, config.transactions(is_standalone=False), own, closing
        )
        self._watch_loads(service)
        self.broker = broker_parts.make_broker(config, store, service, lambda: None, manager)
        self.listener = BrokerListener(ClientTraffic(self.broker), commands_of(None))
        self.listens = True
        closing.push_async_callback(self._close_connections)
        closing.push_async_callback(member.leave)
        await member.join(self.broker)
        self.has_joined = True

    def _watch_loads(self, service: Any) -> None:
        opener = service._opener
        opens = opener.open

        async def open_topic(name: TopicName, **options: Any) -> Topic:
            topic: Topic = await opens(name, **options)
            self._on_load(self, topic)
            return topic

        opener.open = open_topic

    def accept(self) -> Connection:
        """Returns the connection of a client that has just connected. Called in this process."""
        return self.listener._accept("")

    async def stop(self) -> None:
        """Stops in order, as after SIGTERM."""
        self.is_leaving = True
        await close_within(self._closing, STOP_SECONDS)

    async def _close_connections(self) -> None:
        self.listens = False
        for connection in list(self.listener._traffic.connections):
            connection.close("the broker stops")

    def kill(self) -> None:
        """Ends the process like SIGKILL. Its session with ZooKeeper lives on."""
        self.process.kill()
        if hasattr(self, "store"):
            self.store.has_died = True
            self.store._connected = False

    # --- what the history asks ---------------------------------------------------------------------------------------

    def serves(self, topic: TopicName) -> bool:
        return self.is_up and self.ownership.owns(topic)

    def _check_delete(self, path: str) -> None:
        """Notices a bundle that is given away while a topic of it still takes messages."""
        prefix = f"{paths.NAMESPACE_OWNERS}/"
        if not path.startswith(prefix) or not self.has_joined or not self.store.session_lives:
            return
        bundle = BundleName.parse(path.removeprefix(prefix))
        for topic in self.broker.service.topics.values():
            is_here = bundle.namespace == topic.name.namespace and bundle.includes(hash_of(topic.name.full))
            if is_here and topic.is_open and not self.ownership.owns(topic.name):
                self.faults.append(f"{self.label} gives {bundle} away while {topic} is open")
