"""Builds, wires, starts and stops a standalone server: one process with broker, bookie and embedded metadata.

A start reserves the ports (they are bound and do not listen), locks the data folder, opens metadata and bookie, proves
that a ledger can be written and read, and only then listens. A failure before the lock leaves the folder untouched.
"""

import asyncio
import logging
import random
import sys
from collections.abc import Callable, Collection
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from magnetar import __version__
from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.server.backup.source import BackupSource
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.write_readiness import WriteReadiness
from magnetar.server.config.broker_config import ServerConfig, load_config
from magnetar.server.config.fault_settings import FaultSettings
from magnetar.server.namespaces.broker_addresses import addresses_of
from magnetar.server.namespaces.ownership import SoleOwner
from magnetar.server.network.advertised_listeners import AdvertisedListeners, ListenerSettings
from magnetar.server.network.bind_addresses import BindSettings, bind_addresses
from magnetar.server.network.ports import PortChoice, Urls, reserve_ports
from magnetar.server.process.closing import close_within
from magnetar.server.process.data_folder_lock import DataFolderLock
from magnetar.server.process.garbage_collection import freeze_start
from magnetar.server.process.private_files import keep_from_others
from magnetar.server.process.running import STOP_DEADLINE_SECONDS, THREAD_SWITCH_SECONDS, StartError
from magnetar.server.programs import broker_parts
from magnetar.server.programs.broker_ready_line import ready_json, ready_sentence
from magnetar.server.programs.start_room import start_sentence
from magnetar.server.programs.storage_start import BOOKIE_ID, bookie_of, open_storage
from magnetar.server.topics.broker_service import BrokerService
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_errors import BookieStartError
from magnetar.storage.ledger.bookie_channel import BookieChannel
from magnetar.storage.ledger.client_config import LedgerConfig
from magnetar.storage.ledger.fragment_rules import Members
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError, NotEnoughBookies
from magnetar.storage.ledger.placement_rules import AnyBookies

if TYPE_CHECKING:
    from magnetar.server.faults.injection import FaultInjection
    from magnetar.server.leaks.live_leaks import LiveLeaks
    from magnetar.server.web.calls import Route

log = logging.getLogger(__name__)

LEAKS_FOLDER = "leaks"
"""Where in the data folder the backups of leaks are."""

START_FAULTS = (*broker_parts.START_FAULTS, BookieStartError)
"""Errors that stop a start for a reason outside of this program. The user gets such an error as one sentence."""


@dataclass(frozen=True, slots=True)
class StandaloneOptions:
    """The options of the command line. For an option that is None, the configuration file decides, or else the
    default."""

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
        """`ask_to_stop` is called when an administrator stops the process over REST."""
        self._options = options
        self._ask_to_stop = ask_to_stop
        self._closing = AsyncExitStack()
        self.urls = Urls()
        self.bookie: Bookie
        self.bookkeeper: BookKeeper
        self.service: BrokerService
        self._broker: Broker
        self._readiness = WriteReadiness()
        self._leaks: LiveLeaks | None = None
        self._failed = asyncio.Event()

    async def start(self) -> None:
        """Returns when clients can produce and consume. Raises StartError when the start fails."""
        try:
            await self._start()
        except START_FAULTS as error:
            raise StartError(start_sentence(error, [self._options.data_dir])) from error

    async def stop(self, seconds_max: float = STOP_DEADLINE_SECONDS) -> None:
        """Stops in reverse order of the start, within `seconds_max`."""
        await close_within(self._closing, seconds_max)

    @property
    def broker_url(self) -> str:
        return self.urls.broker

    @property
    def web_url(self) -> str:
        return self.urls.web

    def uses(self) -> int:
        """Returns a number that grows with each use of the server (see `Broker.uses`)."""
        return self._broker.uses

    async def failed(self) -> str:
        """Returns the reason when no write can be served until a restart."""
        await self._failed.wait()
        return f"the server ends, because only a restart tells what is on the disk: {self._readiness.fault}"

    def ready_line(self) -> str:
        """The line that is printed on stdout when the server is ready, as JSON if programs read it."""
        if self._options.ready_json:
            return ready_json(self.urls, dataDir=str(self._options.data_dir))
        return ready_sentence(self.urls, f"magnetar {__version__}", f"data {self._options.data_dir}")

    async def _start(self) -> None:
        config = load_config(self._options.conf, self._options.overrides)
        host = self._options.host or config.broker.bind_address
        advertised = advertised_host(config.broker.advertised_address or host)
        named = config.fill(ListenerSettings)
        further = bind_addresses(config.fill(BindSettings), named.names)
        ports = reserve_ports(config, self._options.port_choice, host, advertised, further)
        self._closing.callback(ports.close)
        listeners = AdvertisedListeners(ports.urls, named)
        lock = DataFolderLock(self._options.data_dir)
        self._closing.callback(lock.release)
        sys.setswitchinterval(THREAD_SWITCH_SECONDS)

        store, self.bookie = await open_storage(config, self._options.data_dir, listeners.internal, self._closing)
        injection = inject_faults(config, self.bookie, self._closing)
        telemetry = broker_parts.load_telemetry()
        self._readiness = WriteReadiness((store, self.bookie), lambda: self.bookie.maintenance.disk_warning)
        store.on_fault = self._look_for_fault
        self.bookie.on_mode_change(lambda mode: self._look_for_fault())
        self.bookkeeper = await self._open_bookkeeper(
            config, store, self.bookie if injection is None else injection.channel
        )
        managed = config.managed_ledgers(bookies=1)
        own_all = partial(SoleOwner, addresses=addresses_of(listeners.internal, listeners.named))
        self.service = await broker_parts.open_topics(
            config,
            store,
            self.bookkeeper,
            managed,
            config.transactions(is_standalone=True),
            own_all,
            self._closing,
            injection,
        )
        await self._prove_storage()

        broker = self._broker = broker_parts.make_broker(config, store, self.service, self._ask_to_stop)
        broker.readiness = self._readiness
        broker.faults = injection
        broker.backup = BackupSource(store, self.bookie, broker.cluster).stream
        await broker_parts.run_transactions(broker, self._closing)
        routes = partial(self._load_routes, broker, config, store)
        await broker_parts.listen(broker, ports, config, self._closing, routes)
        broker_parts.export_metrics(telemetry, broker, self._closing)
        self.urls = ports.urls
        keep_from_others(self._options.data_dir)
        freeze_start()
        if injection is not None:
            self._closing.callback(injection.partition.heal)

    async def _prove_storage(self) -> None:
        """Writes and reads a ledger if the storage takes writes. On a full disk the server starts to serve reads, and
        takes writes when there is room. Raises LedgerError or MetadataError when a write fails for another reason."""
        if self._readiness.hindrance is None:
            try:
                await prove_storage(self.bookkeeper)
            except (LedgerError, MetadataError):
                if self._readiness.hindrance is None or self._readiness.fault is not None:
                    raise
        if self._readiness.hindrance is not None:
            log.warning("only reads are served until there is room: %s", self._readiness.hindrance)

    def _load_routes(self, broker: Broker, config: ServerConfig, store: MetadataStore) -> "tuple[Route, ...]":
        """Returns the routes of the web port. Called on a thread, where what only these calls need is imported."""
        from magnetar.server.programs.standalone_disk import StandaloneDisk

        broker.leaks = partial(self._live_leaks, config, store)
        broker.bookie_disk = StandaloneDisk(self.bookie, bookie_of(config, self._options.data_dir))
        return broker_parts.admin_routes()

    async def _live_leaks(self, config: ServerConfig, store: MetadataStore) -> "LiveLeaks":
        """Returns what finds leaks; the first call has it imported and made, on a thread."""

        def make() -> "LiveLeaks":
            from magnetar.server.programs.standalone_leaks import make_leaks

            folder = self._options.data_dir / LEAKS_FOLDER
            return make_leaks(folder, store, self.bookie, self.bookkeeper, config.fill(LedgerConfig), self.service)

        if self._leaks is None:
            made = await asyncio.to_thread(make)
            self._leaks = self._leaks or made  # Another call may have made it meanwhile.
        return self._leaks

    def _look_for_fault(self) -> None:
        if self._readiness.fault is not None:
            self._failed.set()

    async def _open_bookkeeper(self, config: ServerConfig, store: MetadataStore, channel: BookieChannel) -> BookKeeper:
        """Returns a ledger client that calls the bookie directly, without a socket, by `channel`."""
        if await store.exists(paths.bookie_path(BOOKIE_ID)) is None:
            await store.create(paths.bookie_path(BOOKIE_ID), b"", make_parents=True)
        rng = random.Random()
        placement = OwnBookie(self.bookie, rng)
        bookkeeper = BookKeeper(
            store,
            {BOOKIE_ID: channel}.__getitem__,
            bookies=placement.writable,
            next_ledger_id=LedgerIdGenerator(store).next_id,
            rng=rng,
            placement_of=lambda _: placement,
            config=config.fill(LedgerConfig, skip_given_up_entries=True),
        )
        self._closing.push_async_callback(bookkeeper.close)
        return bookkeeper


class OwnBookie(AnyBookies):
    """The placement of a standalone server, which has one bookie."""

    def __init__(self, bookie: Bookie, rng: random.Random) -> None:
        super().__init__(self.writable, rng)
        self._bookie = bookie

    def writable(self) -> list[str]:
        """Returns the bookie's id while the bookie takes writes."""
        return [BOOKIE_ID] if self._bookie.is_writable else []

    def choose(self, ensemble_size: int, write_quorum: int, avoid: Collection[str]) -> Members:
        """Returns the bookie as an ensemble. Raises NotEnoughBookies with the reason why the bookie takes no writes,
        which producers are told."""
        if self._bookie.hindrance is not None:
            raise NotEnoughBookies(self._bookie.hindrance)
        return super().choose(ensemble_size, write_quorum, avoid)


def inject_faults(config: ServerConfig, bookie: Bookie, closing: AsyncExitStack) -> "FaultInjection | None":
    """Returns the faults that tests may inject, or None unless the configuration allows faults. Their modules are not
    imported then."""
    if not config.fill(FaultSettings).fault_injection_enabled:
        return None
    from magnetar.server.faults.injection import FaultInjection

    injection = FaultInjection(bookie)
    injection.clock.install()
    closing.callback(injection.clock.remove)
    return injection


async def prove_storage(bookkeeper: BookKeeper) -> None:
    """Writes and reads one ledger, so that a server that reports to be ready is ready. Raises LedgerError when the
    ledger cannot be written or read."""
    handle = await bookkeeper.create_ledger()
    await handle.add(b"ready?")
    await handle.read(0, 0)
    await handle.close()
    await bookkeeper.delete_ledger(handle.ledger_id)


def advertised_host(host: str) -> str:
    """Returns the host that clients connect to, in the form for a URL. For a server that listens on all addresses, this
    is the loopback address."""
    if host in ("0.0.0.0", "", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
