"""Builds, starts and stops auto-recovery in a process of its own (`magnetar autorecovery`)."""

import asyncio
import json
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from magnetar import __version__
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.config.autorecovery_settings import AUTORECOVERY_KEYS, autorecovery_settings
from magnetar.server.config.bookie_process_config import BookieServerConfig
from magnetar.server.config.bookie_settings import service_uri
from magnetar.server.config.broker_config import ConfigError, load_config
from magnetar.server.network.bookie_tls import bookie_wire
from magnetar.server.network.port_reservation import reserve_port
from magnetar.server.process.process_age import process_age_seconds
from magnetar.server.process.running import StartError, sentence
from magnetar.server.programs.bookie.bookie_identity import IdentityError, identity_of
from magnetar.server.programs.bookie.http_address import http_address
from magnetar.server.web.aiohttp_import import import_aiohttp_web
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.cluster_layout import ClusterError, join_cluster
from magnetar.storage.repair.auto_recovery import AutoRecovery
from pulsar_proto.errors import MalformedRecord

START_FAULTS = (ConfigError, ClusterError, IdentityError, MetadataError, MalformedRecord, OSError)
"""Errors that stop a start for a reason outside of this program. The user gets such an error as one sentence."""


@dataclass(frozen=True, slots=True)
class AutoRecoveryOptions:
    """The options of the command line."""

    conf: Path | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    ready_json: bool = False


class AutoRecoveryApp:
    """Auto-recovery as a process. `start()` is called once, then `stop()` once, also after a start that failed."""

    def __init__(self, options: AutoRecoveryOptions) -> None:
        self._options = options
        self._closing = AsyncExitStack()
        self.bookie_id = ""
        self.http_port: int | None = None
        """The port of /heartbeat and /metrics; None when it is switched off."""

    async def start(self) -> None:
        """Returns when this process replicates under-replicated ledgers and is a candidate for auditor. Raises
        StartError when the start fails."""
        try:
            config = load_config(self._options.conf, self._options.overrides, AUTORECOVERY_KEYS)
            process = config.fill(BookieServerConfig)
            settings = autorecovery_settings(config)
            http_sock = self._reserve_http_port(process)
            uri = service_uri(config, process)
            self.bookie_id = identity_of(process, process.bookie_port).bookie_id
            store = await ZooKeeperStore.open(uri.connect, session_timeout_ms=process.zk_timeout)
            self._closing.push_async_callback(store.close)
            await join_cluster(store, uri.connect, uri.layout)
            cluster = await BookKeeperCluster.connect(
                store, config=settings.ledger, wire=bookie_wire(config, settings.wire)
            )
            self._closing.push_async_callback(cluster.close)
            recovery = AutoRecovery(cluster, settings.recovery, self.bookie_id)
            self._closing.push_async_callback(recovery.stop)
            await recovery.start()
            if http_sock is not None:
                await self._listen(http_sock, recovery)
        except START_FAULTS as error:
            raise StartError(sentence(error)) from error

    def uses(self) -> int:
        """Returns always the same number, because nobody waits for this process."""
        return 0

    def _reserve_http_port(self, process: BookieServerConfig) -> socket.socket | None:
        """Reserves the port of httpServerPort or, by the rule that bookies obey, of the metrics alone. Returns None if
        neither is switched on."""
        address = http_address(process)
        if address is None:
            return None
        sock = reserve_port(*address)
        self._closing.callback(sock.close)
        self.http_port = sock.getsockname()[1]
        return sock

    async def _listen(self, sock: socket.socket, recovery: AutoRecovery) -> None:
        import_aiohttp_web()
        from magnetar.server.programs.bookie.recovery_http import (
            RecoveryHttp,  # aiohttp takes ten megabytes, which a process without an HTTP port does not need.
        )

        http = RecoveryHttp(recovery)
        await http.start(sock=sock)
        self._closing.push_async_callback(http.close)

    async def stop(self) -> None:
        await self._closing.aclose()

    async def failed(self) -> str:
        """Waits for a failure that must end the process. Auto-recovery has no such failure, so this call never returns:
        after the loss of its session auto-recovery waits for a new session, and while the cluster does not answer it
        waits for the cluster."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody completes this future")

    def ready_line(self) -> str:
        """The line that is printed on stdout when auto-recovery is at work, as JSON if programs read it."""
        if self._options.ready_json:
            return json.dumps(
                {"bookieId": self.bookie_id, "httpPort": self.http_port, "pid": os.getpid(), "version": __version__}
            )
        seconds = process_age_seconds()
        return f"magnetar {__version__} autorecovery {self.bookie_id} is ready ({seconds:.1f} s, pid {os.getpid()})"
