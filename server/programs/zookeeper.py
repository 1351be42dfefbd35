"""Builds, starts and stops a ZooKeeper server of one node (`magnetar zookeeper`)."""

import asyncio
import json
import logging
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from magnetar import __version__
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.zookeeper_server.zookeeper_server import ZooKeeperServer
from magnetar.server.config.zookeeper_settings import ZooKeeperConfigError, load_zookeeper_config
from magnetar.server.network.port_reservation import port_in_use, reserve_port
from magnetar.server.process.closing import close_within
from magnetar.server.process.data_folder_lock import AlreadyInUseError, DataFolderLock
from magnetar.server.process.descriptors import DESCRIPTORS
from magnetar.server.process.garbage_collection import freeze_start
from magnetar.server.process.process_age import process_age_seconds
from magnetar.server.process.running import STOP_DEADLINE_SECONDS, THREAD_SWITCH_SECONDS, StartError, sentence
from magnetar.storage.bookie.reserve import Reserve
from pulsar_proto.counted import counted

log = logging.getLogger(__name__)

RESERVE_LOOK_SECONDS = 5.0
"""How often the server looks whether there is room for a reserve that is missing or was given up."""

START_FAULTS = (AlreadyInUseError, ZooKeeperConfigError, MetadataError, OSError)
"""Errors that stop a start for a reason outside of this program. The user gets such an error as one sentence."""


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """The options of the command line."""

    conf: Path | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    ready_json: bool = False


class ZooKeeperApp:
    """The server as a process. `start()` is called once, then `stop()` once, also after a start that failed."""

    def __init__(self, options: ZooKeeperOptions) -> None:
        self._options = options
        self._closing = AsyncExitStack()
        self._failed = asyncio.Event()
        self._failure = ""
        self.host = ""
        self.port = 0
        self.server: ZooKeeperServer

    async def start(self) -> None:
        """Returns when the server serves clients. Raises StartError when the start fails."""
        try:
            await self._start()
        except START_FAULTS as error:
            raise StartError(sentence(error)) from error

    async def stop(self) -> None:
        """Answers the requests that are under way and closes the file, within STOP_DEADLINE_SECONDS. Sessions
        survive."""
        await close_within(self._closing, STOP_DEADLINE_SECONDS)

    def uses(self) -> int:
        """Returns a number that grows with each change. Reads do not count, which cannot be told from the pings of
        clients by their number."""
        return self.server.processor.zxid

    async def failed(self) -> str:
        """Returns the reason when nothing can be written until a restart."""
        await self._failed.wait()
        return f"the server ends, because only a restart tells what is on the disk: {self._failure}"

    def ready_line(self) -> str:
        """The line that is printed on stdout when the server serves, as JSON if programs read it."""
        url = f"{self.host}:{self.port}"
        if self._options.ready_json:
            return json.dumps(
                {
                    "url": f"zk:{url}",
                    "clientPort": self.port,
                    "dataDir": self.server.journal.folder,
                    "pid": os.getpid(),
                    "version": __version__,
                }
            )
        seconds = process_age_seconds()
        records = counted(self.server.processor.tree.size, "record")
        return f"magnetar {__version__} zookeeper is ready: {url}, {records} ({seconds:.1f} s, pid {os.getpid()})"

    async def _start(self) -> None:
        config = load_zookeeper_config(self._options.conf, self._options.overrides)
        sock = reserve_port(config.host, config.port)
        self._closing.callback(sock.close)
        self.port = sock.getsockname()[1]
        self.host = _dialled(config.host)
        folder = Path(config.data_dir).absolute()
        lock = DataFolderLock(folder)
        self._closing.callback(lock.release)
        os.makedirs(config.witness_dir, exist_ok=True)
        sys.setswitchinterval(THREAD_SWITCH_SECONDS)
        self.server = await ZooKeeperServer.open(
            os.fspath(folder),
            config.settings,
            witness_folder=os.path.abspath(config.witness_dir),
            accepted_generation=config.accepted_generation,
        )
        self._closing.push_async_callback(self.server.close)
        self.server.journal.on_fault = self._fail
        reserve = Reserve((os.fspath(folder), os.path.abspath(config.witness_dir)))
        self.server.journal.make_room = reserve.release
        keeping = asyncio.get_running_loop().create_task(_keep(reserve))
        self._closing.callback(keeping.cancel)
        try:
            await self.server.start(sock, has_room=DESCRIPTORS.has_room)
        except OSError as error:
            raise port_in_use(self.port) from error
        freeze_start()

    def _fail(self, reason: str) -> None:
        self._failure = self._failure or reason
        self._failed.set()


async def _keep(reserve: Reserve) -> None:
    """Allocates the reserve whenever it is missing and there is room for it. Never returns."""
    while True:
        try:
            await asyncio.to_thread(reserve.restore)
        except OSError as error:
            log.warning("the disk cannot be measured: %s", error)
        await asyncio.sleep(RESERVE_LOOK_SECONDS)


def _dialled(host: str) -> str:
    """Returns the host that clients connect to. For a server that listens on all addresses, this is the loopback
    address."""
    if host in ("0.0.0.0", "::"):
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
