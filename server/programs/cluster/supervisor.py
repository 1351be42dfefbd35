"""Builds, starts, supervises and stops a cluster on one machine (`magnetar cluster`).

A start locks the data folder, decides the layout of the cluster, and starts the metadata, then the bookies, then the
brokers; each kind is started when the previous kind is ready. A child process that dies is started again. The
supervisor learns of a death at once and ends the dead process's ZooKeeper session, so that another broker can own its
topics without waiting for the session timeout.
"""

import asyncio
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from magnetar import __version__
from magnetar.metadata import cluster_setup
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.zookeeper.connect_string import ConnectString
from magnetar.metadata.zookeeper.session_end import end_session
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.server.config.properties_file import parse_properties
from magnetar.server.process.data_folder_lock import AlreadyInUseError, DataFolderLock
from magnetar.server.process.log_lines import TEXT
from magnetar.server.process.own_command import own_command
from magnetar.server.process.process_age import process_age_seconds
from magnetar.server.process.running import StartError, sentence
from magnetar.server.process.supervision import SessionNote, forget_session, session_of_the_dead
from magnetar.server.programs.cluster.child import Child, ChildDiedError
from magnetar.server.programs.cluster.cluster_files import (
    LAYOUT_FILE,
    PROCESSES_FILE,
    free_ports,
    read_layout,
    with_lack_of_room,
    write_json,
)
from magnetar.server.programs.cluster.cluster_rules import (
    BOOKIE,
    BROKER,
    LOOPBACK,
    METADATA,
    ClusterLayoutError,
    ClusterPlan,
    Wishes,
    lay_out,
    name_of,
    ready_document,
)
from pulsar_proto.counted import counted
from pulsar_proto.errors import MalformedRecord

log = logging.getLogger(__name__)

STOP_SECONDS = {BROKER: 10.0, BOOKIE: 4.0, METADATA: 4.0}
"""For each kind of child, in the order of the stop, how long an orderly stop may take before the child is killed. After
a kill the next start replays journals, and nothing acknowledged is lost."""
KILLED_SECONDS = 1.0
"""How long to wait for the end of killed children before they are sent SIGKILL once more."""
SESSION_SECONDS = 60.0
"""How long the supervisor tries to end the session of a dead child. After that time the session's own timeout has ended
the session."""
SESSION_WAIT_SECONDS = 3.0
"""How long the next start of a dead child waits for the end of its former session."""
SESSION_RETRY_SECONDS = 0.25
FORMER_CHILDREN_SECONDS = 5.0
"""How long a start waits until the children of a supervisor that was killed are gone. The kernel kills them."""
FORMER_POLL_SECONDS = 0.02
LIST_RETRY_SECONDS = 1.0
"""How long to wait before the list of processes is written again after it could not be written."""

START_FAULTS = (
    AlreadyInUseError,
    ClusterLayoutError,
    ChildDiedError,
    MetadataError,
    MalformedRecord,
    OSError,
    ValueError,
)
"""Errors that stop a start for a reason outside of this program. The user gets such an error as one sentence."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of the command line."""

    data_dir: Path
    wishes: Wishes = field(default_factory=Wishes)
    host: str = LOOPBACK
    conf: Path | None = None
    overrides: dict[str, str] = field(default_factory=dict)
    bookie_conf: Path | None = None
    bookie_overrides: dict[str, str] = field(default_factory=dict)
    ready_json: bool = False
    log_level: str = "INFO"
    log_format: str = TEXT
    program: tuple[str, ...] = field(default_factory=own_command)
    """The beginning of each child's command line."""


class ClusterApp:
    """One cluster. `start()` is called once, then `stop()` once, also after a start that failed."""

    def __init__(self, options: ClusterOptions) -> None:
        self._options = options
        self._children: dict[str, list[Child]] = {METADATA: [], BOOKIE: [], BROKER: []}
        self._endings: set[asyncio.Task[None]] = set()
        self._lock: DataFolderLock | None = None
        self._plan: ClusterPlan
        self._forced = asyncio.Event()
        self._is_ready = False
        self._list_retry: asyncio.TimerHandle | None = None
        """Set since the list of processes could not be written."""

    async def start(self) -> None:
        """Returns when clients can produce and consume through every broker. Raises StartError when the start fails."""
        try:
            self._lock = DataFolderLock(self._options.data_dir)
            self._plan = self._make_plan()
            await self._start_metadata()
            await self._end_former_sessions()
            await self._start_all(BOOKIE, len(self._plan.layout.bookies), self._plan.bookie_words)
            await self._start_all(BROKER, self._plan.brokers, self._plan.broker_words)
        except START_FAULTS as error:
            raise StartError(with_lack_of_room(sentence(error), self._options.data_dir)) from error
        self._is_ready = True
        self._write_processes()

    async def stop(self) -> None:
        """Stops brokers, bookies and metadata, one kind after the other, each within its STOP_SECONDS. A further Ctrl-C
        or SIGTERM kills the children that still run."""
        self._is_ready = False
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._forced.set)
        for task in self._endings:
            task.cancel()
        for kind, seconds in STOP_SECONDS.items():
            await self._stop_all(kind, seconds)
        if self._lock is not None:
            with suppress(OSError):
                (self._options.data_dir / PROCESSES_FILE).unlink(missing_ok=True)
            self._lock.release()

    def uses(self) -> int:
        """Returns always the same number, because clients use only the children."""
        return 0

    async def failed(self) -> str:
        """Never returns, because a child that cannot run is always started again."""
        await asyncio.get_running_loop().create_future()
        raise AssertionError("nobody completes this future")

    def ready_line(self) -> str:
        """The line that is printed on stdout when the cluster is ready, as JSON if programs read it."""
        document = self._document()
        if self._options.ready_json:
            return json.dumps(document)
        urls = [f"{each['brokerServiceUrl']} {each['webServiceUrl']}" for each in document["brokers"]]
        seconds = process_age_seconds()
        bookies = counted(len(document["bookies"]), "bookie")
        return (
            f"magnetar {__version__} cluster is ready: {', '.join(urls)}; {bookies}; metadata "
            f"{self._plan.metadata_url}; data {self._options.data_dir} ({seconds:.1f} s, pid {os.getpid()})"
        )

    # Starting

    def _make_plan(self) -> ClusterPlan:
        """Decides the layout of the cluster and stores it in the data folder. Raises ClusterLayoutError when the
        command line contradicts the stored layout, and OSError when the folder cannot be used."""
        options = self._options
        ports = free_ports(random.Random())
        known = read_layout(options.data_dir)
        layout = lay_out(known, options.wishes, ports.__next__)
        if layout != known:
            write_json(options.data_dir / LAYOUT_FILE, layout.to_json())
        plan = ClusterPlan(
            options.data_dir,
            layout,
            options.wishes.brokers,
            host=options.host,
            loopback_interface="lo0" if sys.platform == "darwin" else "lo",
            broker_conf=options.conf,
            broker_given=_keys_of(options.conf),
            broker_settings=options.overrides,
            bookie_conf=options.bookie_conf,
            bookie_given=_keys_of(options.bookie_conf),
            bookie_settings=options.bookie_overrides,
            log_level=options.log_level,
            log_format=options.log_format,
        )
        ConnectString.parse(plan.connect)
        return plan

    async def _start_metadata(self) -> None:
        """Starts the metadata server if the cluster has its own, and makes the cluster's records if they are
        missing."""
        plan = self._plan
        if not plan.layout.metadata_url:
            await self._start_all(METADATA, 1, lambda _: plan.metadata_words())
        store = await ZooKeeperStore.open(plan.connect)
        try:
            await cluster_setup.set_up_cluster(store, store, plan.records())
        finally:
            await store.close()

    async def _start_all(self, kind: str, count: int, words: Callable[[int], Sequence[str]]) -> None:
        """Starts the children of a kind at the same time, and returns when all are ready."""
        children = self._children[kind]
        for number in range(count):
            children.append(
                Child(
                    name_of(kind, number),
                    [*self._options.program, *words(number)],
                    self._plan.folder(kind, number),
                    died=self._clear_away,
                    changed=self._write_processes,
                    log_format=self._options.log_format,
                )
            )
        starts = [asyncio.ensure_future(child.start()) for child in children]
        try:
            await asyncio.gather(*starts)
        finally:
            for start in starts:
                start.cancel()
            await asyncio.wait(starts)

    # Sessions of the dead

    async def _end_former_sessions(self) -> None:
        """Ends the sessions that the children of an earlier supervisor left when it was killed. Raises
        AlreadyInUseError when one of those children is still there."""
        plan = self._plan
        counts = {BOOKIE: len(plan.layout.bookies), BROKER: len(plan.layout.brokers)}
        deadline = time.monotonic() + FORMER_CHILDREN_SECONDS
        for path in [plan.folder(kind, each) / "session" for kind, count in counts.items() for each in range(count)]:
            while True:
                try:
                    note = session_of_the_dead(path)
                    break
                except AlreadyInUseError:
                    if time.monotonic() > deadline:
                        raise
                await asyncio.sleep(FORMER_POLL_SECONDS)
            if note is not None:
                await self._end_session(path.parent.name, note)
                forget_session(path)

    async def _clear_away(self, child: Child) -> None:
        """Ends the session of a child that has died. If this takes long, the attempts continue in the background."""
        try:
            note = session_of_the_dead(child.session_file)
        except AlreadyInUseError as error:
            log.warning("the session of %s is left alone: %s", child.name, error)
            return
        if note is None:
            return
        forget_session(child.session_file)
        ending = asyncio.get_running_loop().create_task(self._end_session(child.name, note))
        self._endings.add(ending)
        ending.add_done_callback(self._endings.discard)
        await asyncio.wait((ending,), timeout=SESSION_WAIT_SECONDS)

    async def _end_session(self, name: str, note: SessionNote) -> None:
        deadline = time.monotonic() + SESSION_SECONDS
        while True:
            try:
                if await end_session(self._plan.connect, note.session_id, note.password):
                    log.info("ended the ZooKeeper session 0x%x of %s", note.session_id & (2**64 - 1), name)
                return
            except MetadataError as error:
                if time.monotonic() > deadline:
                    log.warning("the session of %s ends by its timeout: %s", name, error)
                    return
            await asyncio.sleep(SESSION_RETRY_SECONDS)

    # Stopping

    async def _stop_all(self, kind: str, seconds: float) -> None:
        children = self._children[kind]
        if not children:
            return
        for child in children:
            child.ask_to_stop()
        stopped = asyncio.ensure_future(_all(child.stopped() for child in children))
        forced = asyncio.ensure_future(self._forced.wait())
        await asyncio.wait((stopped, forced), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        forced.cancel()
        while not stopped.done():
            late = [child for child in children if not child.is_gone]
            log.warning("killing %s", ", ".join(child.name for child in late))
            for child in late:
                child.kill()
            await asyncio.wait((stopped,), timeout=KILLED_SECONDS)

    # What runs

    def _document(self) -> dict[str, Any]:
        plan = self._plan
        own = self._children[METADATA]
        metadata = {"url": plan.metadata_url, "pid": own[0].ready.get("pid") if own else None}
        return ready_document(
            [child.ready for child in self._children[BROKER]],
            [child.ready for child in self._children[BOOKIE]],
            metadata,
        )

    def _write_processes(self) -> None:
        """Writes the list of processes after each change. A child that is down has the pid null. While the disk is full
        the file keeps its former content, and the attempts continue."""
        if not self._is_ready:
            return
        failed_before, self._list_retry = self._list_retry, None
        if failed_before is not None:
            failed_before.cancel()
        try:
            write_json(self._options.data_dir / PROCESSES_FILE, {**self._document(), "pid": os.getpid()})
        except OSError as error:
            if failed_before is None:
                log.warning("%s cannot be written and is old until it can: %s", PROCESSES_FILE, error)
            self._list_retry = asyncio.get_running_loop().call_later(LIST_RETRY_SECONDS, self._write_processes)


async def _all(waits: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*waits)


def _keys_of(conf: Path | None) -> dict[str, str]:
    """Returns the keys that a configuration file sets, with their values. Raises OSError when the file cannot be
    read."""
    if conf is None:
        return {}
    text = conf.read_text("utf-8", "replace")
    return {key: assignment.value for key, assignment in parse_properties(text, conf.name).items() if assignment.value}
