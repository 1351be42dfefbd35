"""The parts that a standalone server and a broker of a cluster build in the same way: topics, security, ports.

The functions put the parts that they open onto the caller's exit stack, which closes the parts in the reverse order.
"""

import errno
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from magnetar.metadata.errors import MetadataError
from magnetar.metadata.measured_store import MeasuredStore
from magnetar.metadata.store import MetadataStore
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.changing_settings import hold_settings
from magnetar.server.broker.coordinator_owners import give_owners
from magnetar.server.broker.transactions import make_coordinators
from magnetar.server.config.broker_config import ConfigError, ServerConfig
from magnetar.server.config.bundle_settings import BundleSettings
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.http_settings import WebSettings
from magnetar.server.config.metrics_settings import MetricsSettings
from magnetar.server.config.security_settings import SecuritySettings
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.config.upkeep_settings import UpkeepSettings
from magnetar.server.config.websocket_settings import WebSocketSettings
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.namespaces.ownership import Ownership
from magnetar.server.namespaces.placement import Placement
from magnetar.server.network.port_reservation import port_in_use
from magnetar.server.network.ports import ReservedPorts
from magnetar.server.process.data_folder_lock import AlreadyInUseError
from magnetar.server.protocol.broker_listener import BrokerListener
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.handlers.command_table import commands_of
from magnetar.server.security.security_errors import SecurityConfigError
from magnetar.server.topics.broker_service import BrokerService
from magnetar.server.transactions.known_transactions import TransactionSupport
from magnetar.server.transactions.live_transactions import LiveTransactions
from magnetar.server.upkeep.jobs import BACKLOG_QUOTAS, INACTIVE_TOPICS, jobs_of
from magnetar.server.upkeep.scheduler import Scheduler
from magnetar.server.web.http_listener import WebListener
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.factory import ManagedLedgerFactory
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.errors import PulsarError
from pulsar_proto.names import topic_of_managed_ledger

if TYPE_CHECKING:
    from magnetar.server.faults.injection import FaultInjection
    from magnetar.server.security.security import Security
    from magnetar.server.telemetry.export import Telemetry
    from magnetar.server.web.calls import Route
    from magnetar.server.web.upgrades import Upgrades

START_FAULTS = (AlreadyInUseError, ConfigError, SecurityConfigError, MetadataError, LedgerError, PulsarError, OSError)
"""Errors that stop a broker's start for a reason outside of this program. The user gets such an error as one
sentence."""


async def open_topics(
    config: ServerConfig,
    store: MetadataStore,
    bookkeeper: BookKeeper,
    managed: ManagedLedgerConfig,
    transactions: TransactionSettings,
    make_ownership: Callable[[BundleCache], Ownership],
    closing: AsyncExitStack,
    injection: "FaultInjection | None" = None,
) -> BrokerService:
    """Returns the service that loads topics, with its periodic work running. `make_ownership` makes the object that
    knows which bundles this broker owns. `injection` is told how the periodic work is done at once. Raises PulsarError
    when the metadata store fails, and ConfigError for an invalid configuration."""
    store = MeasuredStore(store)
    factory = ManagedLedgerFactory(store, bookkeeper, managed, clock_ms=wall_clock_ms, label_of=topic_of_managed_ledger)
    closing.push_async_callback(factory.close)
    is_on = transactions.transaction_coordinator_enabled
    support = TransactionSupport(transactions, LiveTransactions()) if is_on else None
    service = BrokerService(
        factory, store, config.fill(TopicSettings), make_ownership, config.fill(BundleSettings), support
    )
    closing.push_async_callback(service.close)
    await service.warm_up()
    upkeep = Scheduler(
        lambda: service.all_topics, jobs_of(config.fill(UpkeepSettings), service), clock_ms=wall_clock_ms
    )
    closing.push_async_callback(upkeep.close)
    upkeep.start()
    if injection is not None:
        injection.run_upkeep = upkeep.run_all
    service.quota_checks = upkeep.round_times.get(BACKLOG_QUOTAS)

    def intervals_follow() -> None:
        seconds = service.settings.broker_delete_inactive_topics_frequency_seconds
        if upkeep.jobs[INACTIVE_TOPICS].interval_seconds != seconds:
            upkeep.set_interval(INACTIVE_TOPICS, seconds)

    service.settings_listeners.append(intervals_follow)
    return service


def make_broker(
    config: ServerConfig,
    store: MetadataStore,
    service: BrokerService,
    ask_to_stop: Callable[[], None],
    placement: Placement | None = None,
) -> Broker:
    """Returns the broker object that the ports use. Without a `placement` the broker is a standalone server. Raises
    ConfigError or SecurityConfigError for an invalid configuration."""
    broker = Broker(
        service,
        config.fill(ConnectionSettings),
        cluster=config.broker.cluster_name,
        security=make_security(config, store, service),
        placement=placement,
        ask_to_stop=ask_to_stop,
    )
    broker.metrics_settings = config.fill(MetricsSettings)
    watch_permissions(broker)
    hold_settings(broker)
    return broker


async def run_transactions(broker: Broker, closing: AsyncExitStack) -> None:
    """Begins to load the transaction coordinators of this broker, unless transactions are switched off. Raises
    PulsarError when the metadata store fails."""
    topics = broker.service.transactions
    if topics is None:
        return
    assert isinstance(topics.support.known, LiveTransactions)
    broker.transactions = make_coordinators(broker, topics.support.settings, topics.support.known)
    closing.push_async_callback(broker.transactions.close)
    await broker.transactions.start()
    if not broker.ownership.is_sole:
        owners = broker.spawn(give_owners(broker, broker.transactions))
        closing.callback(owners.cancel)


def make_security(config: ServerConfig, store: MetadataStore, service: BrokerService) -> "Security | None":
    """Returns the broker's security, or None when authentication is off; the modules of security are not imported then.
    Raises SecurityConfigError for an invalid configuration."""
    settings = config.fill(SecuritySettings)
    if not settings.authentication_enabled:
        return None
    from magnetar.server.security.security import Security, tenant_reader

    return Security(settings, tenant_reader(store), service.policies.namespaces.get)


def watch_permissions(broker: Broker) -> None:
    """Has clients disconnected after each change of permissions that forbids their producers or consumers."""
    if broker.security is None or broker.security.authorizer is None:
        return
    from magnetar.server.upkeep.permission_recheck import PermissionRecheck

    recheck = PermissionRecheck(broker.security.authorizer, broker.service, broker.spawn)
    broker.service.namespace_listeners.append(recheck.namespace_changed)


def admin_routes() -> "tuple[Route, ...]":
    """Returns the routes of the web port. The listener calls this function on a thread, because the import of the
    routes takes as long as the start."""
    from magnetar.server.admin.routes import ROUTES

    return ROUTES


async def listen(
    broker: Broker,
    ports: ReservedPorts,
    config: ServerConfig,
    closing: AsyncExitStack,
    load_routes: "Callable[[], tuple[Route, ...]]" = admin_routes,
) -> None:
    """Applies the configuration that administrators have changed at run time, listens on all ports, and begins to
    import what the web port needs, which `load_routes` does for its calls. Raises MetadataError or PulsarError when the
    metadata store fails, and AlreadyInUseError, which names the port, when another server began to listen on a port
    after it was reserved."""
    await broker.configuration.start()
    closing.callback(broker.configuration.close)
    settings = config.fill(WebSettings)
    web = WebListener(broker, load_routes, settings, websockets(config.fill(WebSocketSettings), settings))
    clients = BrokerListener(ClientTraffic(broker), commands_of(broker.security))
    for listener, listening in ((web, ports.web), (clients, ports.broker)):
        closing.push_async_callback(listener.close)
        for sock, tls, name in listening:
            try:
                await listener.start(sock=sock, tls=tls, listener_name=name)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    raise port_in_use(sock.getsockname()[1]) from None
                raise
    if ports.web:
        web.begin_to_load()


def load_telemetry() -> "type[Telemetry] | None":
    """Returns what exports the metrics by OpenTelemetry, or None unless the environment switches that on, as it does
    for Apache's broker. Programs call this function before their ports open. Raises ConfigError when the packages are
    not installed."""
    if os.environ.get("OTEL_SDK_DISABLED", "true").strip().lower() != "false":
        return None
    try:
        from magnetar.server.telemetry.export import Telemetry
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"OTEL_SDK_DISABLED=false, but there is no module {error.name}; install it with: pip install "
            "'magnetar[otel]'"
        ) from error
    return Telemetry


def export_metrics(telemetry: "type[Telemetry] | None", broker: Broker, closing: AsyncExitStack) -> None:
    """Begins the export of the metrics if it is switched on. Raises ConfigError when the environment asks for what the
    packages do not have."""
    if telemetry is not None:
        closing.push_async_callback(telemetry(broker, os.environ).close)


def websockets(sockets: WebSocketSettings, web: WebSettings) -> "Callable[[Broker], Upgrades] | None":
    """Returns the function that makes the WebSocket service, or None when the service is switched off. The listener
    calls that function on a thread. The modules of the service are imported when a client asks for a socket."""
    if not sockets.web_socket_service_enabled:
        return None

    def load(broker: Broker) -> "Upgrades":
        from magnetar.server.websocket.sessions import SESSIONS
        from magnetar.server.websocket.upgrade import WebSocketService

        return WebSocketService(broker, sockets, web.max_http_server_connections, SESSIONS)

    def load_late(broker: Broker) -> "Upgrades":
        from magnetar.server.web.upgrades import LateUpgrades
        from magnetar.server.websocket.websocket_path_rules import is_socket_path

        return LateUpgrades(is_socket_path, partial(load, broker))

    return load_late


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000
