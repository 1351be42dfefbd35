"""The replication worker: takes marked ledgers, one lock each, and heals them until they lack nothing.

The way of a ledger: marked → locked by one worker of the cluster → healed → looked at again → the mark deleted in the
version that was locked, the lock released. What cannot be healed keeps its lock for a while, so that no worker storms
it: a failed ledger longer each time, one whose end is open for the grace period, after which it is recovered (that
fences its writer). Source: ReplicationWorker of BookKeeper 4.17 (facts 7).
"""

import asyncio
import logging
from contextlib import suppress

from magnetar.metadata.errors import MetadataError
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchLedger
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.change_signal import Changes
from magnetar.storage.repair.checker import LedgerChecker
from magnetar.storage.repair.repair_rules import Next, next_step, pause_after_failures
from magnetar.storage.repair.replicator import Replicator
from magnetar.storage.repair.underreplication import Locked, Underreplication
from pulsar_proto.errors import MalformedRecord

log = logging.getLogger(__name__)

HELD_MAX = 1_000
"""Ledgers that one worker keeps locked without healing them now; beyond, it takes no further ones."""
FAILURES_REMEMBERED_MAX = 10_000
"""Ledgers whose failures are counted; beyond, their pauses begin anew."""

Failure = (LedgerError, MetadataError, MalformedRecord, OSError)


class ReplicationWorker:
    """`run` works until it is cancelled. `holder` stands in the locks."""

    def __init__(
        self, cluster: BookKeeperCluster, book: Underreplication, config: AutoRecoveryConfig, *, holder: str
    ) -> None:
        self._cluster = cluster
        self._book = book
        self._config = config
        self._holder = holder
        self._checker = LedgerChecker(cluster, percentage=config.auditor_ledger_verification_percentage)
        self._replicator = Replicator(cluster, config)
        self._changes = Changes()
        self._failures: dict[int, int] = {}
        self._held: set[asyncio.Task[None]] = set()
        self._locked: dict[int, Locked] = {}
        self._session_is_over = False
        self.healed = 0
        """Ledgers whose marks were taken away."""

    def session_ended(self) -> None:
        """All locks went away with the session: none is released any more, it may be another worker's by now."""
        self._session_is_over = True

    async def run(self) -> None:
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
            except Failure as error:
                log.warning("looking for under-replicated ledgers: %s: %s", type(error).__name__, error)
                await asyncio.sleep(pause)
                continue
            if locked is None:
                await self._changes.after(seen, pause)
            else:
                await self._take(locked)

    async def _next(self) -> Locked | None:
        if len(self._held) >= HELD_MAX or not await self._book.is_enabled():
            return None
        return await self._book.lock_any(self._holder, self._cluster.rng)

    async def _take(self, locked: Locked) -> None:
        """Heals once; what is not done then goes on beside, under the lock. Cancelled, it leaves the lock to `run`."""
        self._locked[locked.ledger_id] = locked
        step = await self._try(locked)
        if step is Next.DONE:
            await self._release(locked)
            return
        task = asyncio.create_task(self._hold(locked, step))
        self._held.add(task)
        task.add_done_callback(self._held.discard)

    async def _try(self, locked: Locked, *, recover: bool = False) -> Next:
        ledger_id = locked.ledger_id
        try:
            if recover:
                await self._recover_if_open(ledger_id)
            step = await self._heal(ledger_id)
            if step is Next.DONE:
                await self._book.forget(ledger_id, locked.mark_version)
                self._failures.pop(ledger_id, None)
                self.healed += 1
            return step
        except NoSuchLedger:
            log.info("ledger %d was deleted: it needs no copies", ledger_id)
            with suppress(MetadataError):
                await self._book.forget(ledger_id)
            return Next.DONE
        except Failure as error:
            log.warning("ledger %d is not healed yet: %s: %s", ledger_id, type(error).__name__, error)
        except Exception:
            log.exception("ledger %d is not healed", ledger_id)
        return Next.RETRY

    async def _heal(self, ledger_id: int) -> Next:
        opened = await self._checker.open(ledger_id)
        damaged = await self._checker.check(opened)
        if any(one.part.is_closed for one in damaged):
            await self._replicator.heal(opened, damaged)
            opened = await self._checker.open(ledger_id)
            damaged = await self._checker.check(opened)
        return next_step(opened.metadata, damaged, self._cluster.registry.bookies.all)

    async def _hold(self, locked: Locked, step: Next) -> None:
        """The lock is kept until the ledger is healed, or has waited long enough for the next worker's try."""
        if step is Next.AWAIT_WRITER:
            await asyncio.sleep(self._config.open_ledger_rereplication_grace_period / 1000)
            step = await self._try(locked, recover=True)
        if step is not Next.DONE:
            await asyncio.sleep(self._pause(locked.ledger_id))
        await self._release(locked)

    def _pause(self, ledger_id: int) -> float:
        if len(self._failures) >= FAILURES_REMEMBERED_MAX:
            self._failures.clear()
        failures = self._failures[ledger_id] = self._failures.get(ledger_id, 0) + 1
        first, longest = self._config.rw_rereplicate_backoff_ms, self._config.lock_release_of_failed_ledger_grace_period
        pause = pause_after_failures(failures, first, longest)
        log.info("ledger %d: left alone for %.1f s", ledger_id, pause)
        return pause

    async def _recover_if_open(self, ledger_id: int) -> None:
        """Closes a ledger whose end still lacks a bookie. Raises LedgerError."""
        metadata = (await self._cluster.driver.read(ledger_id)).metadata
        if metadata.is_closed or not await self._book.is_enabled():
            return
        opened = await self._checker.open(ledger_id)
        damaged = await self._checker.check(opened)
        if next_step(opened.metadata, damaged, self._cluster.registry.bookies.all) is Next.AWAIT_WRITER:
            log.info("ledger %d: its writer did not replace a lost bookie in time: recovering it", ledger_id)
            await self._cluster.bookkeeper.open_ledger(ledger_id, password=metadata.password or b"")

    async def _release(self, locked: Locked) -> None:
        """Tries until it is done: a lock that stays would keep all workers from the ledger while the session lives."""
        while True:
            if await self._released(locked):
                return
            await asyncio.sleep(self._config.rw_rereplicate_backoff_ms / 1000)

    async def _released(self, locked: Locked) -> bool:
        if locked.ledger_id not in self._locked or self._session_is_over:
            return True
        try:
            await self._book.release(locked)
        except MetadataError as error:
            log.warning("ledger %d: its lock could not be released: %s", locked.ledger_id, error)
            return False
        self._locked.pop(locked.ledger_id, None)
        return True
