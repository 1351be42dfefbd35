"""Builds, starts and stops one bookie of a cluster: storage, port, and its records in ZooKeeper.

A start reserves the port (it is bound and does not listen), opens the session, compares the cookies, opens the folders,
replays the journal, listens, and registers the bookie, in this order. So the port is open only when every acknowledged
entry can be read, and the cluster learns of the bookie only when the port is open.
"""

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

from magnetar import __version__
from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.zookeeper.service_uri import ServiceUri
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.config.autorecovery_settings import AutoRecoverySettings, autorecovery_settings
from magnetar.server.config.bookie_keys import BOOKIE_KEYS
from magnetar.server.config.bookie_process_config import BookieServerConfig
from magnetar.server.config.bookie_settings import DAMAGE_ADVICE, service_uri, storage_config
from magnetar.server.config.bookie_tls_settings import BookieTls
from magnetar.server.config.broker_config import ConfigError, load_config
from magnetar.server.network.bookie_tls import bookie_port_tls, bookie_wire
from magnetar.server.network.port_reservation import port_in_use, reserve_port
from magnetar.server.process.closing import close_within
from magnetar.server.process.data_folder_lock import AlreadyInUseError
from magnetar.server.process.descriptors import DESCRIPTORS
from magnetar.server.process.garbage_collection import freeze_start
from magnetar.server.process.process_age import process_age_seconds
from magnetar.server.process.running import STOP_DEADLINE_SECONDS, THREAD_SWITCH_SECONDS, StartError
from magnetar.server.process.supervision import tell_supervisor
from magnetar.server.programs.bookie.bookie_identity import BookieIdentity, IdentityError, bind_hosts, identity_of
from magnetar.server.programs.bookie.cluster_records import ClusterCookie
from magnetar.server.programs.bookie.http_address import http_address
from magnetar.server.programs.bookie.listed_ledgers import ListedLedgers
from magnetar.server.programs.bookie.over_replicated import OverReplicatedLedgers
from magnetar.server.programs.bookie.registration import Registration
from magnetar.server.programs.bookie.registration_rules import Wanted
from magnetar.server.programs.start_room import start_sentence
from magnetar.server.web.aiohttp_import import import_aiohttp_web
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import BookieStartError, Skippable
from magnetar.storage.bookie.disks import BookieMode, DiskSpace
from magnetar.storage.bookie.wire_limits import WireLimits
from magnetar.storage.bookie.wire_server import BookieWireServer
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.cluster_layout import ClusterError, instance_of, join_cluster
from magnetar.storage.repair.auto_recovery import AutoRecovery
from pulsar_proto.errors import MalformedRecord

log = logging.getLogger(__name__)

PART_OF_STOP_SECONDS = 0.3
FORMER_SESSIONS_WAITED_FOR = 3
"""A start waits this many session timeouts for the end of the bookie's former session. ZooKeeper may have granted the
former session a longer timeout, and restarts the timeout when ZooKeeper's leader changes."""

START_FAULTS = (
    AlreadyInUseError,
    ConfigError,
    ClusterError,
    IdentityError,
    BookieStartError,
    MetadataError,
    MalformedRecord,
    OSError,
)
"""Errors that stop a start for a reason outside of this program. The user gets such an error as one sentence."""


@dataclass(frozen=True, slots=True)
class BookieOptions:
    """The options of the command line."""

    conf: Path | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    ready_json: bool = False


class BookieApp:
    """One bookie as a process. `start()` is called once, then `stop()` once, also after a start that failed."""

    def __init__(self, options: BookieOptions) -> None:
        self._options = options
        self._closing = AsyncExitStack()
        self._failed = asyncio.Event()
        self._failure = ""
        self._read_only_mode_enabled = True
        self._directories: tuple[str, ...] = ()
        self._instance = ""
        self._registration: Registration | None = None
        self.http_port: int | None = None
        self.bookie: Bookie
        self.wire: BookieWireServer
        self.disk_space: DiskSpace
        self.ledger_directories: tuple[str, ...] = ()
        self.recovery: AutoRecovery | None = None
        self.store: ZooKeeperStore
        self.identity: BookieIdentity

    async def start(self) -> None:
        """Returns when the bookie is registered. Raises StartError when the start fails."""
        try:
            await self._start()
        except Skippable as error:
            raise StartError(f"{error.finding}. {DAMAGE_ADVICE}") from error
        except START_FAULTS as error:
            raise StartError(start_sentence(error, self._directories)) from error

    async def stop(self) -> None:
        """Stops in reverse order of the start, within STOP_DEADLINE_SECONDS. The record in ZooKeeper is deleted
        first."""
        if self._registration is not None:
            self._closing.push_async_callback(self._registration.close)
        await close_within(self._closing, STOP_DEADLINE_SECONDS)

    def uses(self) -> int:
        """Returns a number that grows with each entry that is added or read."""
        stats = self.bookie.stats()
        return stats.added_bytes + stats.read_bytes

    async def failed(self) -> str:
        """Returns the reason when the bookie cannot go on."""
        await self._failed.wait()
        return self._failure

    @property
    def registered_as(self) -> Wanted | None:
        """The mode in which the cluster's records list this bookie, or None while it is not registered."""
        return self._registration.registered_as if self._registration is not None else None

    @property
    def awaits_former_session(self) -> bool:
        """Whether the start waits until ZooKeeper ends the session that this bookie had before."""
        return self._registration is not None and self._registration.awaits_former_session

    def ready_line(self) -> str:
        """The line that is printed on stdout when the bookie is registered, as JSON if programs read it."""
        identity = self.identity
        mode = self.bookie.mode.value
        if self._options.ready_json:
            return json.dumps(
                {
                    "bookieId": identity.bookie_id,
                    "host": identity.host,
                    "port": identity.port,
                    "httpPort": self.http_port,
                    "mode": mode,
                    "pid": os.getpid(),
                    "version": __version__,
                }
            )
        seconds = process_age_seconds()
        return (
            f"magnetar {__version__} bookie {identity.bookie_id} is ready: {identity.host}:{identity.port} {mode} "
            f"({seconds:.1f} s, pid {os.getpid()})"
        )

    async def _start(self) -> None:
        config = load_config(self._options.conf, self._options.overrides, BOOKIE_KEYS)
        process = config.fill(BookieServerConfig)
        uri = service_uri(config, process)
        storage = storage_config(config, process)
        self._directories = (*storage.journal_directories, *storage.ledger_directories)
        self._read_only_mode_enabled = process.read_only_mode_enabled
        self._tls = bookie_port_tls(config.fill(BookieTls))
        sock = self._reserve_port(process)
        http_sock = self._reserve_http_port(process)
        self.identity = identity_of(process, sock.getsockname()[1])
        sys.setswitchinterval(THREAD_SWITCH_SECONDS)

        self.store = await ZooKeeperStore.open(uri.connect, session_timeout_ms=process.zk_timeout)
        self._closing.push_async_callback(self.store.close)
        tell_supervisor(self.store)
        await self._open_storage(storage, uri)
        await self._listen(sock, WireLimits(packet_bytes_max=process.netty_max_frame_size_bytes))
        if http_sock is not None:
            await self._listen_http(http_sock, metrics_only=not process.http_server_enabled)
        await self._register(process)
        self._start_looks(process)
        if process.auto_recovery_daemon_enabled:
            settings = autorecovery_settings(config)
            wire = bookie_wire(config, settings.wire)
            await self._start_auto_recovery(replace(settings, wire=wire))
        freeze_start()

    def _reserve_port(self, process: BookieServerConfig) -> socket.socket:
        hosts = bind_hosts(process)
        for host in hosts:
            try:
                sock = reserve_port(host, process.bookie_port)
            except OSError:
                if host == hosts[-1]:
                    raise
                continue  # This machine has no IPv6.
            self._closing.callback(sock.close)
            return sock
        raise AssertionError("there is at least one")

    def _reserve_http_port(self, process: BookieServerConfig) -> socket.socket | None:
        """Reserves the port for all pages, or the port for /metrics alone. Returns None if neither port is switched
        on."""
        address = http_address(process)
        if address is None:
            return None
        sock = reserve_port(*address)
        self._closing.callback(sock.close)
        self.http_port = sock.getsockname()[1]
        return sock

    async def _open_storage(self, config: BookieConfig, uri: ServiceUri) -> None:
        self._instance = await join_cluster(self.store, uri.connect, uri.layout)
        cookie = ClusterCookie(self.store, config, self.identity.bookie_id, self._instance)
        await cookie.check()
        self.bookie = await Bookie.open(
            config,
            bookie_id=self.identity.bookie_id,
            instance_id=self._instance,
            list_ledgers=ListedLedgers(self.store, lambda: self.bookie, self._sync),
        )
        self._closing.push_async_callback(self.bookie.close)
        self._closing.callback(self.bookie.on_mode_change(self._mode_changed))
        self._mode_changed(self.bookie.mode)
        await cookie.write()
        self.disk_space = DiskSpace(config.ledger_directories)
        self.ledger_directories = tuple(map(str, config.ledger_directories))

    async def _listen(self, sock: socket.socket, limits: WireLimits) -> None:
        self.wire = BookieWireServer(
            self.bookie, disk_space=self.disk_space, limits=limits, has_room=DESCRIPTORS.has_room, tls=self._tls
        )
        self.bookie.on_ledgers_deleted(self.wire.ledgers_deleted)
        try:
            await self.wire.start(sock=sock)
        except OSError as error:
            raise port_in_use(self.identity.port) from error
        self._closing.push_async_callback(self.wire.close)

    async def _listen_http(self, sock: socket.socket, *, metrics_only: bool) -> None:
        import_aiohttp_web()
        from magnetar.server.programs.bookie.bookie_http import (
            BookieHttp,  # aiohttp takes ten megabytes, which a bookie without an HTTP port does not need.
        )

        http = BookieHttp(self, metrics_only=metrics_only)
        try:
            await http.start(sock=sock)
        except OSError as error:
            raise port_in_use(sock.getsockname()[1]) from error
        self._closing.push_async_callback(http.close)

    async def _register(self, process: BookieServerConfig) -> None:
        """Makes the bookie's record. Raises StartError when the bookie's former session does not end, and MetadataError
        when ZooKeeper cannot be reached."""
        info = self.identity.service_info(
            self.http_port if process.http_server_enabled else None, has_tls=self._tls is not None
        )
        registration = Registration(self.store, self.identity.bookie_id, info, self._wanted())
        self._registration = registration
        registration.start()
        seconds = process.zk_timeout * FORMER_SESSIONS_WAITED_FOR / 1000
        try:
            async with asyncio.timeout(seconds):
                await registration.registered()
        except TimeoutError:
            if not registration.awaits_former_session:
                raise StartError(f"could not register in ZooKeeper within {seconds:.0f} s") from None
            raise StartError(
                f"bookie {self.identity.bookie_id} is still registered by another session after {seconds:.0f} s: "
                "is another process of it running?"
            ) from None

    async def _start_auto_recovery(self, settings: AutoRecoverySettings) -> None:
        """Starts auto-recovery in the bookie's own session. Raises MetadataError when ZooKeeper cannot be reached, and
        MalformedRecord for a record that cannot be parsed."""
        cluster = await BookKeeperCluster.connect(self.store, config=settings.ledger, wire=settings.wire)
        self._closing.push_async_callback(soon, cluster.close)
        recovery = AutoRecovery(cluster, settings.recovery, self.identity.bookie_id)
        self._closing.push_async_callback(soon, recovery.stop)
        await recovery.start()
        self.recovery = recovery

    def _start_looks(self, process: BookieServerConfig) -> None:
        """Starts the periodic deletion of over-replicated ledgers. The storage itself starts its garbage collection."""
        looks = OverReplicatedLedgers(self.store, self._sync, self.bookie, self.identity.bookie_id)
        seconds = process.gc_overreplicated_ledger_wait_time / 1000
        task = asyncio.get_running_loop().create_task(looks.run(seconds))
        self._closing.push_async_callback(cancelled, task)

    def _wanted(self) -> Wanted:
        return Wanted.WRITABLE if self.bookie.is_writable else Wanted.READ_ONLY

    def _mode_changed(self, mode: BookieMode) -> None:
        if mode is BookieMode.FAILED:
            self._fail("a write of the journal or of an entry log failed, see the log; a restart replays the journal")
        elif mode is BookieMode.READ_ONLY and not self._read_only_mode_enabled:
            self._fail("it cannot take writes, and readOnlyModeEnabled=false")
        elif mode is not BookieMode.CLOSED and self._registration is not None:
            self._registration.want(self._wanted())

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or f"bookie {self.identity.bookie_id} ends: {reason}"
        self._failed.set()

    async def _sync(self) -> None:
        """Makes sure that the records in ZooKeeper are current and belong to this bookie's cluster, before anything is
        deleted because of them. A ZooKeeper server that lags behind must not hide a new ledger, and another cluster at
        the same address must not be mistaken for the bookie's own. Raises ClusterError for another cluster, and
        MetadataError when ZooKeeper cannot be reached."""
        await self.store.sync()
        instance = await self.store.get(paths.INSTANCE_ID)
        if instance is None or instance_of(instance) != self._instance:
            raise ClusterError(f"ZooKeeper holds another cluster than {self._instance}: nothing is deleted")


async def soon(stop: Callable[[], Awaitable[None]]) -> None:
    """Calls `stop`, which stops auto-recovery or its connection to the cluster, and may wait for ZooKeeper. Gives up
    after PART_OF_STOP_SECONDS, so that the bookie has time to flush its data."""
    try:
        async with asyncio.timeout(PART_OF_STOP_SECONDS):
            await stop()
    except TimeoutError:
        log.info("auto-recovery did not end in %s s; its records end with the session", PART_OF_STOP_SECONDS)


async def cancelled(task: "asyncio.Task[None]") -> None:
    """Cancels the task and returns when it has ended."""
    task.cancel()
    await asyncio.wait((task,))
