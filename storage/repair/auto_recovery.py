"""Auto-recovery in one process takes part in the auditor's election and heals ledgers, until it is stopped.

When the ZooKeeper session expires, the process's vote and locks go with it. The election and the replication worker are
then cancelled, and begin again in the next session. This restart is safe because each step of both can be broken off
and repeated. Apache's daemon ends its process instead. Source: AutoRecoveryMain of BookKeeper 4.17.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import CancelWatch, SessionEvent
from magnetar.metadata.zookeeper.zookeeper_store import ZooKeeperStore
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.repair.auditor import Auditor
from magnetar.storage.repair.auditor_election import AuditorElection
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.repair_stats import RepairStats
from magnetar.storage.repair.replication_worker import ReplicationWorker
from magnetar.storage.repair.underreplication import Underreplication
from pulsar_proto.errors import MalformedRecord

log = logging.getLogger(__name__)

RESTART_SECONDS = 1.0
"""How long the election or the worker waits after a failure before it begins again, so that a metadata store that is
down is not flooded with requests."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class AutoRecovery:
    """The election and the replication worker of one process. The cluster object and the metadata store belong to the
    caller; inside a bookie the store uses the bookie's own ZooKeeper session."""

    def __init__(
        self,
        cluster: BookKeeperCluster,
        config: AutoRecoveryConfig,
        bookie_id: str,
        *,
        now_ms: Callable[[], int] = wall_clock_ms,
    ) -> None:
        """`bookie_id` is the name that stands in the vote and in the locks."""
        self._cluster = cluster
        self._config = config
        self._bookie_id = bookie_id
        self._now_ms = now_ms
        self._book = Underreplication(cluster.store, now_ms=now_ms)
        self.stats = RepairStats()
        self._tasks: list[asyncio.Task[None]] = []
        self._cancel_session: CancelWatch | None = None
        self._election: AuditorElection | None = None
        self.worker: ReplicationWorker | None = None
        self.auditor: Auditor | None = None
        """The auditor while this process is the cluster's auditor, else None."""

    async def start(self) -> None:
        """Starts the election and the worker. May be called once only. Raises MetadataError, and MalformedRecord when
        the under-replication records have a layout that is not known."""
        await self._book.prepare()
        if isinstance(self._cluster.store, ZooKeeperStore):
            self._cancel_session = self._cluster.store.on_session(self._on_session)
        self._begin()

    async def stop(self) -> None:
        """Ends the election and the worker, which delete the vote and the locks. A second call has no effect."""
        if self._cancel_session is not None:
            self._cancel_session()
        tasks, self._tasks = self._tasks, []
        await _end(tasks)

    def _on_session(self, event: SessionEvent) -> None:
        if event is SessionEvent.EXPIRED:
            log.warning("auto-recovery of %s: the ZooKeeper session is lost, stopping until the next", self._bookie_id)
            if self._election is not None:
                self._election.session_ended()
            if self.worker is not None:
                self.worker.session_ended()
            for task in self._tasks:
                task.cancel()
        elif event is SessionEvent.NEW_SESSION:
            former, self._tasks = self._tasks, []
            self._begin(former)

    def _begin(self, former: list[asyncio.Task[None]] | None = None) -> None:
        self._tasks = [
            asyncio.create_task(self._keep_up(part, name, former or []))
            for part, name in ((self._stand, "the auditor's election"), (self._heal, "the replication worker"))
        ]

    async def _keep_up(
        self, part: Callable[[], Coroutine[Any, Any, None]], name: str, former: list[asyncio.Task[None]]
    ) -> None:
        """Runs `part` (the election or the worker) for ever, and starts it again after every failure. First ends the
        tasks in `former`, which belong to the previous session."""
        await _end(former)
        while True:
            try:
                await part()
            except (MetadataError, MalformedRecord, OSError) as error:
                log.warning("%s failed, beginning again: %s: %s", name, type(error).__name__, error)
            except Exception:
                log.exception("%s failed, beginning again", name)
            await asyncio.sleep(RESTART_SECONDS)

    async def _stand(self) -> None:
        self._election = AuditorElection(self._cluster.store, self._bookie_id, self._audit)
        await self._election.run()

    async def _audit(self) -> None:
        self.auditor = Auditor(self._cluster, self._book, self._config, now_ms=self._now_ms, stats=self.stats)
        try:
            await self.auditor.run()
        finally:
            self.auditor = None

    async def _heal(self) -> None:
        self.worker = ReplicationWorker(
            self._cluster, self._book, self._config, holder=self._bookie_id, stats=self.stats
        )
        await self.worker.run()


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancels the tasks and returns when they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
