"""Runs one verb of `magnetar bk`: reads the configuration, connects to the cluster, and reports failures by one
sentence and an exit code."""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from importlib import import_module

from magnetar.metadata.errors import MetadataError
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.config.autorecovery_settings import autorecovery_settings
from magnetar.server.config.bookie_keys import BOOKIE_KEYS
from magnetar.server.config.bookie_process_config import BookieServerConfig
from magnetar.server.config.bookie_settings import zookeeper_of
from magnetar.server.config.broker_config import ConfigError, ServerConfig, load_config
from magnetar.server.network.bookie_tls import bookie_wire
from magnetar.server.process.log_lines import log_to_stderr
from magnetar.server.process.running import loop_factory, sentence
from magnetar.server.programs.bk.verb_output import ToolOutput
from magnetar.storage.bookie.bookie_errors import BookieStartError, EntryLogDamaged, IndexFailure
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.cluster_layout import ClusterError, join_cluster
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.repair.auto_recovery import wall_clock_ms
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.underreplication import ReplicationDisabled, Underreplication
from pulsar_proto.errors import MalformedRecord

CALL_SECONDS = 10.0
"""The seconds after which a call of ZooKeeper fails: a tool must soon report that no server answers."""

INTERRUPTED = 130


class ToolError(Exception):
    """The verb cannot be done. The text is the sentence for the user."""


FAULTS = (
    ToolError,
    ClusterError,
    ConfigError,
    MetadataError,
    MalformedRecord,
    LedgerError,
    ReplicationDisabled,
    BookieStartError,
    EntryLogDamaged,
    IndexFailure,
    OSError,
)


class Tool:
    """The settings, the output and the connections of a verb. A connection is made at its first use."""

    def __init__(self, arguments: argparse.Namespace, stack: AsyncExitStack) -> None:
        self.out = ToolOutput(as_json=arguments.json)
        self._stack = stack
        overrides = dict(arguments.overrides or ())
        if arguments.uri:
            overrides["metadataServiceUri"] = arguments.uri
        self.config: ServerConfig = load_config(arguments.conf, overrides, BOOKIE_KEYS)
        self.process = self.config.fill(BookieServerConfig)
        self.connect = zookeeper_of(self.config, self.process)
        self._store: ZooKeeperStore | None = None
        self._cluster: BookKeeperCluster | None = None

    @property
    def recovery_config(self) -> AutoRecoveryConfig:
        return autorecovery_settings(self.config).recovery

    async def store(self) -> ZooKeeperStore:
        """Returns the connection to ZooKeeper. Raises MetadataError when ZooKeeper cannot be reached."""
        if self._store is None:
            self._store = await ZooKeeperStore.open(
                self.connect, session_timeout_ms=self.process.zk_timeout, call_timeout_seconds=CALL_SECONDS
            )
            self._stack.push_async_callback(self._store.close)
        return self._store

    async def cluster(self) -> BookKeeperCluster:
        """Returns the cluster's ledger client. Raises ClusterError when the records of the cluster cannot be used, and
        MetadataError when ZooKeeper cannot be reached."""
        if self._cluster is None:
            store = await self.store()
            await join_cluster(store, self.connect)
            settings = autorecovery_settings(self.config)
            self._cluster = await BookKeeperCluster.connect(
                store, config=settings.ledger, wire=bookie_wire(self.config, settings.wire)
            )
            self._stack.push_async_callback(self._cluster.close)
        return self._cluster

    async def book(self) -> Underreplication:
        """Returns the records of under-replicated ledgers. Raises the errors of `cluster`."""
        return Underreplication((await self.cluster()).store, now_ms=wall_clock_ms)

    @staticmethod
    def confirm(question: str, *, force: bool) -> None:
        """Asks the user on the terminal for a yes, unless `force` is set. Raises ToolError for any other answer, and
        when there is no terminal."""
        if force:
            return
        if not sys.stdin.isatty():
            raise ToolError(f"{question} Nobody can answer here: give -f to go ahead.")
        print(f"{question} (y/N) ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise ToolError("nothing was done")


def run_verb(arguments: argparse.Namespace) -> int:
    """Runs the verb that the command line names and returns the exit code."""
    log_to_stderr(arguments.log_level)
    module, _, name = arguments.implementation.partition(":")
    verb: Callable[[Tool, argparse.Namespace], Awaitable[int]] = getattr(import_module(f".{module}", __package__), name)

    async def work() -> int:
        async with AsyncExitStack() as stack:
            return await verb(Tool(arguments, stack), arguments)

    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(work())
    except BrokenPipeError:
        raise  # an OSError whose end `magnetar.launcher` knows
    except FAULTS as error:
        print(f"magnetar bk {arguments.verb}: {sentence(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
