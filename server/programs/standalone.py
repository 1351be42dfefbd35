"""Builds, wires, starts and stops a standalone server: one process with broker, bookie and embedded metadata.

A start reserves the ports (they are bound and do not listen), locks the data folder, opens metadata and bookie, proves
that a ledger can be written and read, and only then listens. A failure before the lock leaves the folder untouched.
"""

import asyncio
import errno
import gc
import json
import logging
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar import __version__
from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.write_readiness import WriteReadiness
from magnetar.server.config.broker_config import ConfigError, ServerConfig, load_config
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.http_settings import WebSettings
from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.config.upkeep_settings import UpkeepSettings
from magnetar.server.config.websocket_settings import WebSocketSettings
from magnetar.server.network.advertised_listeners import AdvertisedListeners, ListenerSettings
from magnetar.server.network.port_reservation import port_in_use
from magnetar.server.network.ports import PortChoice, ReservedPorts, Urls, reserve_ports
from magnetar.server.process.data_folder_lock import AlreadyInUseError, DataFolderLock
from magnetar.server.process.private_files import keep_from_others
from magnetar.server.process.running import STOP_DEADLINE_SECONDS, THREAD_SWITCH_SECONDS, StartError, sentence
from magnetar.server.programs.storage_start import BOOKIE_ID, open_storage
from magnetar.server.protocol.broker_listener import BrokerListener
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.handlers.command_table import commands_of
from magnetar.server.security.security_errors import SecurityConfigError
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.upkeep.jobs import jobs_of
from magnetar.server.upkeep.scheduler import Scheduler
from magnetar.server.web.http_listener import WebListener
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_errors import BookieStartError
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.factory import ManagedLedgerFactory
from pulsar_proto.errors import PulsarError

if TYPE_CHECKING:
    from magnetar.server.security.security import Security
    from magnetar.server.web.calls import Route
    from magnetar.server.web.upgrades import Upgrades

log = logging.getLogger(__name__)

START_FAULTS = (
    AlreadyInUseError,
    ConfigError,
    SecurityConfigError,
    BookieStartError,
    MetadataError,
    LedgerError,
    PulsarError,
    OSError,
)
"""Errors that stop a start for a reason outside of this program. The user is told them in one sentence."""


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    """The options of the command line. None means that the configuration file decides, or else the default."""

    data_dir: Path
    host: str | None = None
    broker_port: int | None = None
    broker_port_tls: int | None = None
    web_port: int | None = None
    web_port_tls: int | None = None
    conf: Path | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    ready_json: bool = False

    @property
    def port_choice(self) -> PortChoice:
        return PortChoice(self.broker_port, self.broker_port_tls, self.web_port, self.web_port_tls)


class Standalone:
    """One server. `start()` is called once, then `stop()` once, also after a start that failed."""

    def __init__(self, options: StandaloneOptions, ask_to_stop: Callable[[], None] = lambda: None) -> None:
        """`ask_to_stop` is called when an administrator asks over REST for the end of the process."""
        self._options = options
        self._ask_to_stop = ask_to_stop
        self._began = time.monotonic()
        self._closing = AsyncExitStack()
        self.urls = Urls()
        self.bookie: Bookie
        self._readiness = WriteReadiness()
        self._failed = asyncio.Event()

    async def start(self) -> None:
        """Returns when clients can produce and consume. Raises StartError."""
        try:
            await self._start()
        except START_FAULTS as error:
            raise StartError(sentence(error)) from error

    async def stop(self) -> None:
        """Stops in reverse order of the start, within STOP_DEADLINE_SECONDS."""
        try:
            async with asyncio.timeout(STOP_DEADLINE_SECONDS):
                await self._closing.aclose()
        except TimeoutError:
            log.warning("cut off a stop of more than %s s; nothing acknowledged is lost", STOP_DEADLINE_SECONDS)

    @property
    def broker_url(self) -> str:
        return self.urls.broker

    @property
    def web_url(self) -> str:
        return self.urls.web

    async def failed(self) -> str:
        """Returns the reason when no write can be served until a restart."""
        await self._failed.wait()
        return f"the server ends, because only a restart tells what is on the disk: {self._readiness.fault}"

    def ready_line(self) -> str:
        """The line that is printed on stdout when the server is ready, as JSON if programs read it."""
        if self._options.ready_json:
            urls = self.urls
            tls = {"brokerServiceUrlTls": urls.broker_tls, "webServiceUrlTls": urls.web_tls}
            return json.dumps(
                {
                    "brokerServiceUrl": urls.broker,
                    "webServiceUrl": urls.web,
                    **{name: url for name, url in tls.items() if url},
                    "dataDir": str(self._options.data_dir),
                    "pid": os.getpid(),
                    "version": __version__,
                }
            )
        seconds = time.monotonic() - self._began
        listed = " ".join(url for url in self.urls if url)
        return (
            f"magnetar {__version__} is ready: {listed} data {self._options.data_dir} "
            f"({seconds:.1f} s, pid {os.getpid()})"
        )

    async def _start(self) -> None:
        config = load_config(self._options.conf, self._options.overrides)
        host = self._options.host or config.broker.bind_address
        advertised = advertised_host(config.broker.advertised_address or host)
        ports = reserve_ports(config, self._options.port_choice, host, advertised)
        self._closing.callback(ports.close)
        listeners = AdvertisedListeners(ports.urls, config.fill(ListenerSettings))
        lock = DataFolderLock(self._options.data_dir)
        self._closing.callback(lock.release)
        sys.setswitchinterval(THREAD_SWITCH_SECONDS)

        store, self.bookie = await open_storage(config, self._options.data_dir, listeners.internal, self._closing)
        self._readiness = WriteReadiness((store, self.bookie))
        store.on_fault = self._look_for_fault
        self.bookie.on_mode_change(lambda mode: self._look_for_fault())
        bookkeeper = await self._open_bookkeeper(config, store)
        service = await self._open_broker(config, store, bookkeeper)
        await prove_storage(bookkeeper)

        broker = Broker(
            service,
            config.fill(ConnectionSettings),
            cluster=config.broker.cluster_name,
            security=make_security(config, store, service),
            ask_to_stop=self._ask_to_stop,
        )
        watch_permissions(broker)
        broker.listeners = listeners
        broker.readiness = self._readiness
        await self._listen(broker, ports, config.fill(WebSettings), config.fill(WebSocketSettings))
        self.urls = ports.urls
        keep_from_others(self._options.data_dir)
        # What is alive now lives as long as the process. Python's collector need not look at it again.
        gc.collect()
        gc.freeze()

    def _look_for_fault(self) -> None:
        if self._readiness.fault is not None:
            self._failed.set()

    async def _open_bookkeeper(self, config: ServerConfig, store: MetadataStore) -> BookKeeper:
        """Returns a ledger client that reaches the bookie by a call, without a socket."""
        if await store.exists(paths.bookie_path(BOOKIE_ID)) is None:
            await store.create(paths.bookie_path(BOOKIE_ID), b"", make_parents=True)
        bookkeeper = BookKeeper(
            store,
            {BOOKIE_ID: self.bookie}.__getitem__,
            bookies=lambda: [BOOKIE_ID] if self.bookie.is_writable else [],
            next_ledger_id=LedgerIdGenerator(store).next_id,
            rng=random.Random(),
            config=config.fill(LedgerConfig, skip_given_up_entries=True),
        )
        self._closing.push_async_callback(bookkeeper.close)
        return bookkeeper

    async def _open_broker(self, config: ServerConfig, store: MetadataStore, bookkeeper: BookKeeper) -> BrokerService:
        factory = ManagedLedgerFactory(store, bookkeeper, config.managed_ledgers(bookies=1), clock_ms=wall_clock_ms)
        self._closing.push_async_callback(factory.close)
        service = BrokerService(factory, store, config.fill(TopicSettings))
        self._closing.push_async_callback(service.close)
        await service.warm_up()
        upkeep = Scheduler(
            lambda: service.all_topics, jobs_of(config.fill(UpkeepSettings), service), clock_ms=wall_clock_ms
        )
        self._closing.push_async_callback(upkeep.close)
        upkeep.start()
        return service

    async def _listen(
        self, broker: Broker, ports: ReservedPorts, settings: WebSettings, sockets: WebSocketSettings
    ) -> None:
        """Listens on all ports, as the last step of the start. Raises AlreadyInUseError, which names the port, when
        another server began to listen on it after it was reserved."""
        web = WebListener(broker, admin_routes, settings, websockets(sockets, settings))
        clients = BrokerListener(ClientTraffic(broker), commands_of(broker.security))
        for listener, listening in ((web, ports.web), (clients, ports.broker)):
            self._closing.push_async_callback(listener.close)
            for sock, tls in listening:
                try:
                    await listener.start(sock=sock, tls=tls)
                except OSError as error:
                    if error.errno == errno.EADDRINUSE:
                        raise port_in_use(sock.getsockname()[1]) from None
                    raise


def admin_routes() -> "tuple[Route, ...]":
    """Returns the calls of the web port. The listener asks for them when the first HTTP client connects, on a thread,
    because their import takes time and memory."""
    from magnetar.server.admin.routes import ROUTES

    return ROUTES


def websockets(sockets: WebSocketSettings, web: WebSettings) -> "Callable[[Broker], Upgrades] | None":
    """Returns the function that makes the WebSocket service, or None when the service is switched off. Its modules are
    imported when the first HTTP client connects."""
    if not sockets.web_socket_service_enabled:
        return None

    def load(broker: Broker) -> "Upgrades":
        from magnetar.server.websocket.sessions import SESSIONS
        from magnetar.server.websocket.upgrade import WebSocketService

        return WebSocketService(broker, sockets, web.max_http_server_connections, SESSIONS)

    return load


def make_security(config: ServerConfig, store: MetadataStore, service: BrokerService) -> "Security | None":
    """Returns the broker's security, or None when authentication is off: its modules are then not even imported. Raises
    SecurityConfigError."""
    settings = config.fill(SecuritySettings)
    if not settings.authentication_enabled:
        return None
    from magnetar.server.security.security import Security, tenant_reader

    return Security(settings, tenant_reader(store), service.policies.namespaces.get)


def watch_permissions(broker: Broker) -> None:
    """Makes changes of permissions disconnect clients whose producers or consumers are no longer allowed."""
    if broker.security is None or broker.security.authorizer is None:
        return
    from magnetar.server.upkeep.permission_recheck import PermissionRecheck

    recheck = PermissionRecheck(broker.security.authorizer, broker.service, broker.spawn)
    broker.service.namespace_listeners.append(recheck.namespace_changed)


async def prove_storage(bookkeeper: BookKeeper) -> None:
    """Writes and reads one ledger, so that a server is ready when it says so. Raises LedgerError."""
    handle = await bookkeeper.create_ledger()
    await handle.add(b"ready?")
    await handle.read(0, 0)
    await handle.close()
    await bookkeeper.delete_ledger(handle.ledger_id)


def advertised_host(host: str) -> str:
    """Returns the host that clients dial, as it stands in a URL. For an address that means "all", that is the loopback
    address."""
    if host in ("0.0.0.0", "", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
