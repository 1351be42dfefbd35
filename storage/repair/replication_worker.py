"""The replication worker: locks ledgers that are marked as under-replicated, and heals them.

    marked ──► locked by one worker of the cluster ──► copied ──► checked again ──► mark deleted, lock released
                      │                                               │
                      │ its end is open, and a bookie of it is lost   │ something is missing still
                      ▼                                               ▼
       lock kept for the grace period, then the          lock kept for a pause that doubles with each
       ledger is recovered, which ends its writer        failure, then released: any worker may try again

The worker deletes a mark only if the mark still has the version that it had at the time of the lock. Therefore a mark
that an auditor has written again meanwhile stays. A worker keeps the lock during a pause, so that other workers do not
try the same ledger again and again. Source: ReplicationWorker of BookKeeper 4.17.
"""

import asyncio
import logging
from contextlib import suppress

from magnetar.metadata.errors import MetadataError
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.ledger_errors import NoSuchLedger
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.change_signal import ChangeSignal
from magnetar.storage.repair.ledger_checker import LedgerChecker
from magnetar.storage.repair.repair_rules import PASSING_FAILURES, NextStep, next_step
from magnetar.storage.repair.repair_stats import RepairStats
from magnetar.storage.repair.replicator import Replicator
from magnetar.storage.repair.underreplication import LockedLedger, Underreplication
from pulsar_proto.backoff import backoff

log = logging.getLogger(__name__)

HELD_MAX = 1_000
"""How many ledgers one worker keeps locked without working on them; at the limit it locks no further ledgers."""
FAILURES_REMEMBERED_MAX = 10_000
"""The number of ledgers whose failures a worker remembers. At the limit the worker forgets all failures, and the pauses
begin again with the shortest pause."""


class ReplicationWorker:
    """Heals up to `ledgers_at_once` ledgers at the same time. `holder` is the name that stands in the locks."""

    def __init__(
        self,
        cluster: BookKeeperCluster,
        book: Underreplication,
        config: AutoRecoveryConfig,
        *,
        holder: str,
        stats: RepairStats | None = None,
    ) -> None:
        self._stats = stats or RepairStats()
        self._cluster = cluster
        self._book = book
        self._config = config
        self._holder = holder
        self._checker = LedgerChecker(cluster, percentage=config.auditor_ledger_verification_percentage)
        self._replicator = Replicator(cluster, config, self._stats)
        self._changes = ChangeSignal()
        self._failures: dict[int, int] = {}
        self._held: set[asyncio.Task[None]] = set()
        self._locked: dict[int, LockedLedger] = {}
        self._session_is_over = False
        self.healed = 0
        """How many ledgers were healed and their marks deleted."""

    def session_ended(self) -> None:
        """Notes that the ZooKeeper session has expired. All locks went with the session, so the worker releases no
        lock: a lock with an equal name may belong to another worker by now."""
        self._session_is_over = True

    async def run(self) -> None:
        """Heals marked ledgers until this call is cancelled, and releases the worker's locks at the end."""
        cancels = [self._book.watch(self._changes.note), self._cluster.registry.on_change(self._changes.note)]
        workers = [asyncio.create_task(self._work()) for _ in range(self._config.ledgers_at_once)]
        try:
            await asyncio.gather(*workers)
        finally:
            for cancel in cancels:
                cancel()
            tasks = [*workers, *self._held]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.gather(*(self._released(locked) for locked in list(self._locked.values())))

    async def _work(self) -> None:
        pause = self._config.rw_rereplicate_backoff_ms / 1000
        while True:
            seen = self._changes.count
            try:
                locked = await self._next()
            except PASSING_FAILURES as error:
                log.warning("looking for under-replicated ledgers: %s: %s", type(error).__name__, error)
                await asyncio.sleep(pause)
                continue
            if locked is None:
                await self._changes.after(seen, pause)
            else:
                await self._take(locked)

    async def _next(self) -> LockedLedger | None:
        if len(self._held) >= HELD_MAX or not await self._book.is_enabled():
            return None
        return await self._book.lock_any(self._holder, self._cluster.rng)

    async def _take(self, locked: LockedLedger) -> None:
        """Tries once to heal a ledger. If the ledger is not healed, a separate task keeps the lock and goes on with the
        ledger (`_hold`), so that this worker can take another ledger. When this call is cancelled, `run` releases the
        lock."""
        self._locked[locked.ledger_id] = locked
        step = await self._try(locked)
        if step is NextStep.DONE:
            await self._release(locked)
            return
        task = asyncio.create_task(self._hold(locked, step))
        self._held.add(task)
        self._stats.attempts_failed += 1
        self._stats.ledgers_held = len(self._held)
        task.add_done_callback(self._hold_ended)

    def _hold_ended(self, task: asyncio.Task[None]) -> None:
        self._held.discard(task)
        self._stats.ledgers_held = len(self._held)

    async def _try(self, locked: LockedLedger, *, recover: bool = False) -> NextStep:
        """Heals a ledger and deletes its mark if nothing is missing any more; every failure is logged and counts as
        RETRY. With `recover`, a ledger whose writer did not replace a lost bookie is recovered first."""
        ledger_id = locked.ledger_id
        try:
            if recover:
                await self._recover_if_open(ledger_id)
            step = await self._heal(ledger_id)
            if step is NextStep.DONE:
                await self._book.forget(ledger_id, locked.mark_version)
                self._failures.pop(ledger_id, None)
                self.healed += 1
                self._stats.ledgers_replicated += 1
            return step
        except NoSuchLedger:
            log.info("ledger %d was deleted: it needs no copies", ledger_id)
            with suppress(MetadataError):
                await self._book.forget(ledger_id)
            return NextStep.DONE
        except PASSING_FAILURES as error:
            log.warning("ledger %d is not healed yet: %s: %s", ledger_id, type(error).__name__, error)
        except Exception:
            log.exception("ledger %d is not healed", ledger_id)
        return NextStep.RETRY

    async def _heal(self, ledger_id: int) -> NextStep:
        """Copies the missing entries of the closed fragments, checks the ledger again, and returns the next step for
        it."""
        opened = await self._checker.open(ledger_id)
        damaged = await self._checker.check(opened)
        if any(one.fragment.is_closed for one in damaged):
            await self._replicator.heal(opened, damaged)
            opened = await self._checker.open(ledger_id)
            damaged = await self._checker.check(opened)
        return next_step(opened.metadata, damaged, self._cluster.registry.bookies.all)

    async def _hold(self, locked: LockedLedger, step: NextStep) -> None:
        """Keeps the lock of a ledger that could not be healed at once. After the grace period for a writer, this tries
        once more, with recovery. If the second attempt fails too, this keeps the lock for a pause, and leaves the rest
        to the next worker that locks the ledger."""
        if step is NextStep.AWAIT_WRITER:
            await asyncio.sleep(self._config.open_ledger_rereplication_grace_period / 1000)
            step = await self._try(locked, recover=True)
        if step is not NextStep.DONE:
            await asyncio.sleep(self._pause(locked.ledger_id))
        await self._release(locked)

    def _pause(self, ledger_id: int) -> float:
        """Counts one more failure of the ledger, and returns the number of seconds for which the ledger is left
        alone."""
        if len(self._failures) >= FAILURES_REMEMBERED_MAX:
            self._failures.clear()
        failures = self._failures[ledger_id] = self._failures.get(ledger_id, 0) + 1
        first, longest = self._config.rw_rereplicate_backoff_ms, self._config.lock_release_of_failed_ledger_grace_period
        pause = backoff(failures, first, longest) / 1000
        log.info("ledger %d: left alone for %.1f s", ledger_id, pause)
        return pause

    async def _recover_if_open(self, ledger_id: int) -> None:
        """Recovers (fences and closes) an open ledger whose writer has still not replaced a lost bookie. Raises
        LedgerError."""
        metadata = (await self._cluster.driver.read(ledger_id)).metadata
        if metadata.is_closed or not await self._book.is_enabled():
            return
        opened = await self._checker.open(ledger_id)
        damaged = await self._checker.check(opened)
        if next_step(opened.metadata, damaged, self._cluster.registry.bookies.all) is NextStep.AWAIT_WRITER:
            log.info("ledger %d: its writer did not replace a lost bookie in time: recovering it", ledger_id)
            await self._cluster.bookkeeper.open_ledger(ledger_id, password=metadata.password or b"")

    async def _release(self, locked: LockedLedger) -> None:
        """Tries to release a lock until an attempt succeeds, because a remaining lock would keep all workers from the
        ledger as long as the session lives."""
        while True:
            if await self._released(locked):
                return
            await asyncio.sleep(self._config.rw_rereplicate_backoff_ms / 1000)

    async def _released(self, locked: LockedLedger) -> bool:
        """Tries once to release a lock. Returns True when this worker does not hold the lock any more."""
        if locked.ledger_id not in self._locked or self._session_is_over:
            return True
        try:
            await self._book.release(locked)
        except MetadataError as error:
            log.warning("ledger %d: its lock could not be released: %s", locked.ledger_id, error)
            return False
        self._locked.pop(locked.ledger_id, None)
        return True
