"""Builds, starts and stops one broker of a cluster. The broker's metadata is in ZooKeeper, its ledgers are on bookies.

The start follows PulsarService.start: metadata stores, ledger client, topics, ports, and the broker's registration in
the cluster. A broker stores no data of its own: after a kill, the next start finds all data in the cluster.
"""

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from magnetar import __version__
from magnetar.metadata import paths
from magnetar.metadata.routed_store import RoutedStore
from magnetar.metadata.store import MetadataStore, SessionEvent
from magnetar.metadata.zookeeper.connect_string import SCHEME
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.metadata_link import MetadataLink
from magnetar.server.broker.write_readiness import WriteReadiness
from magnetar.server.config.broker_config import ServerConfig, load_config
from magnetar.server.config.broker_keys import BROKER_KEYS
from magnetar.server.config.cluster_settings import (
    ClusterSettings,
    bookkeeper_uri,
    cluster_settings,
    ledger_client_settings,
    managed_ledger_settings,
)
from magnetar.server.namespaces.broker_addresses import addresses_of
from magnetar.server.network.advertised_listeners import AdvertisedListeners, ListenerSettings
from magnetar.server.network.bind_addresses import BindSettings, bind_addresses
from magnetar.server.network.bookie_tls import broker_wire
from magnetar.server.network.ports import PortChoice, Urls, reserve_ports
from magnetar.server.process.closing import close_within
from magnetar.server.process.garbage_collection import freeze_start
from magnetar.server.process.running import THREAD_SWITCH_SECONDS, StartError, sentence
from magnetar.server.process.supervision import tell_supervisor
from magnetar.server.programs import broker_parts
from magnetar.server.programs.broker_ready_line import ready_json, ready_sentence
from magnetar.server.programs.cluster_membership import ClusterMembership
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.cluster_layout import ClusterError, join_cluster

log = logging.getLogger(__name__)

START_FAULTS = (*broker_parts.START_FAULTS, ClusterError)
"""Errors that stop a start for a reason outside of this program. The user gets such an error as one sentence."""

DISK_ANSWER_SECONDS = 5
"""How long a bookie may take to tell the room on its disks."""

EVERY_ADDRESS = ("0.0.0.0", "", "::")


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options of the command line."""

    conf: Path | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    ready_json: bool = False


class BrokerApp:
    """One broker as a process. `start()` is called once, then `stop()` once, also after a start that failed."""

    def __init__(self, options: BrokerOptions, ask_to_stop: Callable[[], None] = lambda: None) -> None:
        """`ask_to_stop` is called when an administrator stops the process over REST."""
        self._options = options
        self._ask_to_stop = ask_to_stop
        self._closing = AsyncExitStack()
        self._failed = asyncio.Event()
        self._settings = ClusterSettings()
        self.urls = Urls()
        self.broker: Broker

    async def start(self) -> None:
        """Returns when clients can produce and consume. Raises StartError when the start fails."""
        try:
            await self._start()
        except START_FAULTS as error:
            raise StartError(sentence(error)) from error

    async def stop(self) -> None:
        """Stops in reverse order of the start, within brokerShutdownTimeoutMs."""
        seconds = self._settings.broker_shutdown_timeout_ms / 1000
        await close_within(self._closing, seconds, "brokerShutdownTimeoutMs")

    def uses(self) -> int:
        """Returns a number that grows with each use of the broker (see `Broker.uses`)."""
        return self.broker.uses

    async def failed(self) -> str:
        """Returns the reason when the broker cannot go on."""
        await self._failed.wait()
        return "the session with the metadata store is lost, and zookeeperSessionExpiredPolicy=shutdown"

    def ready_line(self) -> str:
        """The line that is printed on stdout when the broker is ready, as JSON if programs read it."""
        if self._options.ready_json:
            return ready_json(
                self.urls, brokerId=self.broker.broker_id, metadataStoreUrl=SCHEME + self._settings.local_store
            )
        what = f"magnetar {__version__} broker {self.broker.broker_id}"
        return ready_sentence(self.urls, what, f"metadata {self._settings.local_store}")

    async def _start(self) -> None:
        config = load_config(self._options.conf, self._options.overrides, BROKER_KEYS)
        self._settings = settings = cluster_settings(config)
        uri = bookkeeper_uri(config, settings)
        ledgers, wire = ledger_client_settings(config)
        wire = broker_wire(config, wire)
        managed = managed_ledger_settings(config)
        host = config.broker.bind_address
        advertised = advertised_host(config.broker.advertised_address, host)
        named = config.fill(ListenerSettings)
        further = bind_addresses(config.fill(BindSettings), named.names)
        ports = reserve_ports(config, PortChoice(), host, advertised, further)
        self._closing.callback(ports.close)
        listeners = AdvertisedListeners(ports.urls, named)
        sys.setswitchinterval(THREAD_SWITCH_SECONDS)
        telemetry = broker_parts.load_telemetry()

        local = await self._open_store(settings.local_store)
        tell_supervisor(local)
        store: MetadataStore = local
        if settings.configuration_store != settings.local_store:
            store = RoutedStore(local, await self._open_store(settings.configuration_store))
        await self._check_cluster(config, store)
        bookies = local if uri.connect == settings.local_store else await self._open_store(uri.connect)
        await join_cluster(bookies, uri.connect, uri.layout)
        cluster = await BookKeeperCluster.connect(bookies, config=ledgers, wire=wire)
        self._closing.push_async_callback(cluster.close)
        # The id is made of advertisedAddress, even if an internal listener has another address
        # (PulsarService.getBrokerId).
        broker_id = urlsplit(ports.urls.web or ports.urls.web_tls).netloc
        addresses = addresses_of(listeners.internal, listeners.named, broker_id)
        member = ClusterMembership(config, store, addresses)
        self._closing.push_async_callback(member.close)
        own = member.make_ownership
        transactions = config.transactions(is_standalone=False)
        service = await broker_parts.open_topics(
            config, store, cluster.bookkeeper, managed, transactions, own, self._closing
        )
        member.follow_policies(service)
        member.reach_snapshots(service)
        self.broker = broker_parts.make_broker(config, store, service, self._ask_to_stop, member.load.manager)
        self.broker.internal_configuration = internal_configuration(settings)
        self.broker.bookie_disk = partial(ask_disk, cluster)
        link = MetadataLink(local, settings.session_timeout_ms / 1000, asyncio.get_running_loop().time)
        self.broker.metadata_link, self.broker.readiness = link, WriteReadiness((link,))
        await broker_parts.run_transactions(self.broker, self._closing)
        await broker_parts.listen(self.broker, ports, config, self._closing)
        self._closing.push_async_callback(member.leave)
        broker_parts.export_metrics(telemetry, self.broker, self._closing)
        await member.join(self.broker)
        self.urls = ports.urls
        freeze_start()

    async def _open_store(self, url: str) -> ZooKeeperStore:
        """Opens a session, which is closed at the broker's end. Raises MetadataError when ZooKeeper cannot be
        reached."""
        settings = self._settings
        store = await ZooKeeperStore.open(
            url,
            session_timeout_ms=settings.session_timeout_ms,
            call_timeout_seconds=settings.operation_timeout_seconds,
        )
        self._closing.push_async_callback(store.close)
        if settings.zookeeper_session_expired_policy == "shutdown":
            store.on_session(self._session_changed)
        return store

    def _session_changed(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            self._failed.set()

    async def _check_cluster(self, config: ServerConfig, store: MetadataStore) -> None:
        """Checks that the store has the record of this cluster. Raises ClusterError when the record is missing."""
        name = config.broker.cluster_name
        if await store.exists(paths.cluster_path(name)) is None:
            raise ClusterError(
                f"there is no cluster {name!r} at {self._settings.configuration_store}: no {paths.cluster_path(name)}; "
                "make it once with: magnetar initialize-cluster-metadata"
            )


async def ask_disk(cluster: BookKeeperCluster, bookie: str) -> dict[str, int]:
    """Returns the free and the total bytes of a bookie's disks. Raises LookupError when nobody knows the bookie's
    address, and OSError when it does not answer in DISK_ANSWER_SECONDS."""
    async with asyncio.timeout(DISK_ANSWER_SECONDS):
        info = await cluster.wire_channel(bookie).bookie_info()
    return {"freeSpace": info.free_disk_bytes, "totalSpace": info.total_disk_bytes}


def internal_configuration(settings: ClusterSettings) -> dict[str, str | None]:
    """Returns the data about the metadata stores that tools can ask for
    (PulsarService.getInternalConfigurationData)."""
    local, configuration = settings.local_store, settings.configuration_store
    return {
        "zookeeperServers": f"{SCHEME}{local}",
        "configurationStoreServers": f"{SCHEME}{configuration}",
        "metadataStoreUrl": f"{SCHEME}{local}",
        "configurationMetadataStoreUrl": f"{SCHEME}{configuration}",
        "bookkeeperMetadataServiceUri": settings.bookkeeper_metadata_service_uri or None,
    }


def advertised_host(configured: str, bind_address: str) -> str:
    """Returns the host that clients and other brokers connect to, in the form for a URL. This is the configured host,
    or else the address that the broker listens on, or else, for a broker that listens on all addresses, the machine's
    canonical name (ServiceConfigurationUtils.getDefaultOrConfiguredAddress)."""
    host = configured or (socket.getfqdn() if bind_address in EVERY_ADDRESS else bind_address)
    return f"[{host}]" if ":" in host else host
