"""Several brokers of one cluster in this process: one metadata store, one bookie, and two ports for each broker."""

import json
import random
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from magnetar.metadata import paths
from magnetar.metadata.cluster_init import initialize_cluster
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.broker_state import BrokerState
from magnetar.server.broker.changing_settings import hold_settings
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.http_settings import WebSettings
from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.config.websocket_settings import WebSocketSettings
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, addresses_of
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.bundle_ownership import BundleOwnership
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.network.ports import Urls
from magnetar.server.peers.admin_peer import AdminPeer
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.programs.broker_parts import admin_routes, watch_permissions, websockets
from magnetar.server.protocol.broker_listener import BrokerListener
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.handlers.command_table import commands_of
from magnetar.server.security.security import Security, tenant_reader
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.web.http_listener import WebListener
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_listing import list_ledgers
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.names import TopicName

CLUSTER = "c1"
NAMESPACE = "acme/orders"


class Answer(NamedTuple):
    """An answer to a call, without following redirects."""

    status: int
    location: str | None
    body: str

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class FixedPlacement:
    """The first broker leads; who tests says where bundles go."""

    def __init__(self, own: BrokerAddresses, everybody: list[BrokerAddresses]) -> None:
        self._own = own
        self._everybody = everybody
        self.destinations: dict[BundleName, str] = {}
        self.target: BrokerAddresses | None = None
        """Where the next bundles go; the leader itself when it is None."""

    @property
    def is_leader(self) -> bool:
        return self._own is self._everybody[0]

    async def leader(self) -> BrokerAddresses | None:
        return self._everybody[0]

    async def choose(self, bundle: BundleName) -> BrokerAddresses | None:
        noted = self.destinations.pop(bundle, None)
        if noted is not None:
            return await self.broker(noted)
        return self.target or self._own

    async def broker(self, broker_id: str) -> BrokerAddresses | None:
        return next((each for each in self._everybody if each.broker_id == broker_id), None)

    async def brokers(self) -> list[str]:
        return sorted(each.broker_id for each in self._everybody)

    async def newer_make(self) -> BrokerAddresses | None:
        return None

    def throughput_of(self, bundle: BundleName) -> float:
        return 0.0

    def note_destination(self, bundle: BundleName, broker_id: str) -> None:
        self.destinations[bundle] = broker_id


class Seat:
    """One broker of the cluster."""

    def __init__(
        self,
        broker: Broker,
        placement: FixedPlacement,
        session: aiohttp.ClientSession,
        traffic: ClientTraffic,
    ) -> None:
        self.broker = broker
        self.traffic = traffic
        self.placement = placement
        self.session = session

    @property
    def url(self) -> str:
        return self.broker.web_url

    async def call(self, method: str, path: str, body: str | None = None, *, follow: bool = False) -> Answer:
        headers = {} if body is None else {"Content-Type": "application/json"}
        async with self.session.request(
            method, f"{self.url}{path}", data=body, headers=headers, allow_redirects=follow
        ) as answer:
            return Answer(answer.status, answer.headers.get("Location"), await answer.text())

    async def own(self, *ranges: str, namespace: str = NAMESPACE) -> None:
        for bounds in ranges:
            await self.broker.ownership.acquire(BundleName(namespace, bounds))

    def owned(self, namespace: str = NAMESPACE) -> set[str]:
        return {each.range for each in self.broker.ownership.owned_bundles() if each.namespace == namespace}


@asynccontextmanager
async def cluster(
    folder: Path, size: int = 2, security: SecuritySettings | None = None, token: str = "", **settings: Any
) -> AsyncIterator[list[Seat]]:
    """Starts `size` brokers. The namespace acme/orders has four bundles, which nobody owns. With `security`, the
    brokers and the calls of the seats show the token."""
    async with AsyncExitStack() as closing:
        store = MemoryStore()
        await initialize_cluster(store, CLUSTER, broker_service_url="", web_service_url="")
        await store.create(paths.tenant_path("acme"), b'{"adminRoles":[],"allowedClusters":["c1"]}')
        bookie = await Bookie.open(
            BookieConfig(journal_directories=(str(folder / "j"),), ledger_directories=(str(folder / "l"),)),
            bookie_id="bookie",
            list_ledgers=partial(list_ledgers, store),
        )
        closing.push_async_callback(bookie.close)
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        session = await closing.enter_async_context(aiohttp.ClientSession(headers=shown))
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
        client_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(size)]
        everybody = [
            addresses_of(Urls(f"pulsar://{_place(client)}", web=f"http://{_place(web)}"))
            for client, web in zip(client_sockets, sockets, strict=True)
        ]
        seats: list[Seat] = []
        for own, sock, client_sock in zip(everybody, sockets, client_sockets, strict=True):
            near = store if not seats else store.session()
            placement = FixedPlacement(own, everybody)
            topics = TopicSettings(CLUSTER, **settings)
            broker = await _broker(near, bookie, own, placement, topics, closing)
            if security is not None:
                policies = broker.service.policies.namespaces
                broker.security = Security(security, tenant_reader(near), policies.get)
                watch_permissions(broker)
            plugin = "token" if token else ""
            peers = PeerSettings(CLUSTER, plugin, token)
            broker.peer = AdminPeer(near, peers, PeerCredentials(peers))
            closing.push_async_callback(broker.peer.close)
            # Addresses for lookups are trusted; these brokers have no records, by which the others could be trusted.
            urls = [own.urls.broker, *(each.urls.broker for each in everybody)]
            broker.peer_client = PeerClient(partial(list, urls), broker.peer.addresses, peers, PeerCredentials(peers))
            closing.push_async_callback(broker.peer_client.close)
            listener = WebListener(broker, admin_routes, None, websockets(WebSocketSettings(), WebSettings()))
            closing.push_async_callback(listener.close)
            await listener.start(sock=sock)
            traffic = ClientTraffic(broker)
            clients = BrokerListener(traffic, commands_of(broker.security))
            closing.push_async_callback(clients.close)
            await clients.start(sock=client_sock)
            seats.append(Seat(broker, placement, session, traffic))
        answer = await seats[0].call("PUT", f"/admin/v2/namespaces/{NAMESPACE}")
        assert answer.status == 204, answer
        yield seats


async def _broker(
    store: MetadataStore,
    bookie: Bookie,
    own: BrokerAddresses,
    placement: FixedPlacement,
    settings: TopicSettings,
    closing: AsyncExitStack,
) -> Broker:
    bookkeeper = BookKeeper(
        store,
        {"bookie": bookie}.__getitem__,
        bookies=lambda: ["bookie"],
        next_ledger_id=LedgerIdGenerator(store).next_id,
        rng=random.Random(1),
    )
    closing.push_async_callback(bookkeeper.close)
    one = ManagedLedgerConfig(
        managed_ledger_default_ensemble_size=1,
        managed_ledger_default_write_quorum=1,
        managed_ledger_default_ack_quorum=1,
    )
    factory = ManagedLedgerFactory(store, bookkeeper, one, clock_ms=lambda: 1_000)
    closing.push_async_callback(factory.close)
    locks = LockManager(store)

    def ownership(bundles: BundleCache) -> BundleOwnership:
        return BundleOwnership(bundles, store=store, locks=locks, addresses=own)

    service = BrokerService(factory, store, settings, ownership)
    closing.push_async_callback(service.close)
    await service.warm_up()
    broker = Broker(service, ConnectionSettings(), cluster=CLUSTER, placement=placement)
    hold_settings(broker)
    await broker.configuration.start()
    closing.callback(broker.configuration.close)
    broker.state = BrokerState.STARTED
    return broker


def _place(sock: socket.socket) -> str:
    return "{}:{}".format(*sock.getsockname())


async def range_of(seat: Seat, topic: str) -> str:
    """Returns the range of a topic's bundle."""
    return (await seat.broker.ownership.bundle_of(TopicName.parse(topic))).range
