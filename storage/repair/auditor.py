"""The cluster's auditor notices lost bookies, marks the ledgers of lost bookies as under-replicated, and periodically
checks all ledgers.

The auditor marks ledgers, and the replication workers heal them. A cluster has one auditor. There may be two auditors
for a moment, when the old auditor has lost its session and does not know that yet. Both auditors mark the same ledgers
then, which does no harm. Audits run one after the other, and the long checks of all ledgers run beside the audits. The
decisions are in `lost_bookie_rules`, `repair_rules` and `placement_check_rules`. Source: Auditor,
AuditorBookieCheckTask, AuditorCheckAllLedgersTask and AuditorPlacementPolicyCheckTask of BookKeeper 4.17.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from magnetar.metadata import paths
from magnetar.metadata.store import EventType, RecordEvent
from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.rack_placement_rules import racks_in_record
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.change_signal import ChangeSignal
from magnetar.storage.repair.ledger_checker import LedgerChecker
from magnetar.storage.repair.ledger_index import ledgers_by_bookie, visit_ledgers
from magnetar.storage.repair.lost_bookie_rules import LostBookies
from magnetar.storage.repair.placement_check_rules import badly_placed
from magnetar.storage.repair.repair_rules import PASSING_FAILURES, delay_to_check
from magnetar.storage.repair.repair_stats import RepairStats
from magnetar.storage.repair.underreplication import Underreplication
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records import underreplication_record as records
from pulsar_proto.records.ledger_record import LedgerMetadata

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS = 5.0
"""How long the auditor waits before it repeats an audit or a check that failed."""


class Auditor:
    """The auditor of this process. The process makes a new Auditor each time that its vote becomes the leader."""

    def __init__(
        self,
        cluster: BookKeeperCluster,
        book: Underreplication,
        config: AutoRecoveryConfig,
        *,
        now_ms: Callable[[], int],
        stats: RepairStats | None = None,
    ) -> None:
        self._stats = stats or RepairStats()
        self._cluster = cluster
        self._book = book
        self._config = config
        self._now_ms = now_ms
        self._changes = ChangeSignal()
        self._delay_written = False
        self._loop = asyncio.get_running_loop()
        self.audits = 0
        """How many audits have ended."""
        self.checks = 0
        """How many checks of all ledgers have ended."""

    async def run(self) -> None:
        """Runs the audits and the periodic checks until this call is cancelled."""
        cancels = [
            self._cluster.registry.on_change(self._changes.note),
            self._cluster.store.watch(records.LOST_BOOKIE_RECOVERY_DELAY, self._delay_changed),
            self._cluster.store.watch(records.DISABLE, self._changes.note),
        ]
        interval = self._config.auditor_periodic_check_interval
        placement = self._config.auditor_periodic_placement_policy_check_interval
        tasks = [
            asyncio.create_task(self._audit_on_loss()),
            asyncio.create_task(self._repeat(records.CHECK_ALL_LEDGERS_TIME, interval, self.check_all_ledgers)),
            asyncio.create_task(self._repeat(records.PLACEMENT_CHECK_TIME, placement, self.check_placement)),
        ]
        try:
            await asyncio.gather(*tasks)
        finally:
            for cancel in cancels:
                cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _delay_changed(self, event: RecordEvent) -> None:
        if event.type is not EventType.DELETED:
            self._delay_written = True
            self._changes.note()

    async def _audit_on_loss(self) -> None:
        """Audits whenever `LostBookies` says that an audit is due. The first audit is due at once, because bookies may
        have been lost while the cluster had no auditor."""
        delay = await self._retried(
            lambda: self._book.prepare_recovery_delay(self._config.lost_bookie_recovery_delay), "the recovery delay"
        )
        self._delay_written = False
        lost = LostBookies((), delay)
        now = self._loop.time
        lost.ask(now())
        periodic = self._config.auditor_periodic_bookie_check_interval
        next_periodic = now() + periodic if periodic else None
        while True:
            seen = self._changes.count
            if self._delay_written:
                self._delay_written = False
                written = await self._retried(self._book.recovery_delay, "the recovery delay")
                if written is not None:
                    lost.delay_written(written, now())
            before = set(lost.lost)
            lost.look(self._cluster.registry.bookies.all, now())
            if lost.lost - before:
                log.warning("bookies are lost: %s", ", ".join(sorted(lost.lost - before)))
            if next_periodic is not None and now() >= next_periodic:
                lost.ask(now())
                next_periodic = now() + periodic
            if lost.due is not None and lost.due <= now():
                lost.audited()
                await self._retried(self.audit, "an audit")
                continue
            times = [time for time in (lost.due, next_periodic) if time is not None]
            await self._changes.after(seen, max(0.0, min(times) - now()) if times else None)

    async def audit(self) -> int:
        """Finds the bookies that ledgers' records name and that are not registered, and marks the ledgers of these
        bookies. Returns the number of marked ledgers.

        Waits while auto-recovery is switched off. Raises MetadataError, LedgerError, MalformedRecord.
        """
        await self._await_enabled()
        began_s = self._loop.time()
        of_bookie = await ledgers_by_bookie(self._cluster.store, self._cluster.driver, at_once=self._at_once)
        # The registered bookies are read last: a bookie that came back while the ledgers were read is not lost.
        registered = (await self._cluster.registry.refresh()).all
        missing: dict[int, list[str]] = {}
        for bookie in sorted(of_bookie.keys() - registered):
            log.warning("audit: bookie %s is lost, %d ledgers lack its copies", bookie, len(of_bookie[bookie]))
            for ledger_id in of_bookie[bookie]:
                missing.setdefault(ledger_id, []).append(bookie)
        await self._mark_all(missing)
        self._stats.marked(len(missing))
        self._stats.audit_times.add(self._loop.time() - began_s)
        self.audits += 1
        log.info("audit: %d bookies hold ledgers, %d are registered", len(of_bookie), len(registered))
        return len(missing)

    async def _mark_all(self, missing: dict[int, list[str]]) -> None:
        left = sorted(missing.items(), reverse=True)

        async def work() -> None:
            while left:
                ledger_id, bookies = left.pop()
                await self._book.mark(ledger_id, bookies)

        await asyncio.gather(*(work() for _ in range(min(self._at_once, len(left)))))

    async def check_all_ledgers(self) -> int:
        """Reads a sample of every ledger's entries from each of its bookies, and marks the ledgers that lack copies.
        Returns the number of marked ledgers.

        Waits while auto-recovery is switched off. Raises MetadataError, LedgerError, MalformedRecord.
        """
        await self._await_enabled()
        began_s = self._loop.time()
        checker = LedgerChecker(self._cluster, percentage=self._config.auditor_ledger_verification_percentage)
        marked = 0

        async def visit(metadata: LedgerMetadata) -> None:
            nonlocal marked
            damaged = await checker.check(await checker.open(metadata.ledger_id))
            if damaged:
                marked += 1
                missing = {bookie for one in damaged for bookie in one.missing.values()}
                log.warning("ledger %d lacks copies on %s", metadata.ledger_id, ", ".join(sorted(missing)))
                await self._book.mark(metadata.ledger_id, sorted(missing))

        total = await visit_ledgers(self._cluster.store, self._cluster.driver, visit, at_once=self._at_once)
        await self._book.set_check_time(records.CHECK_ALL_LEDGERS_TIME)
        self.checks += 1
        self._stats.ledgers_checked += total
        self._stats.check_times.add(self._loop.time() - began_s)
        log.info("checked all %d ledgers: %d lack copies", total, marked)
        return marked

    async def check_placement(self) -> int:
        """Logs the closed ledgers that are not spread over enough racks and returns their number; no entry is moved.
        Raises MetadataError, LedgerError, MalformedRecord."""
        record = await self._cluster.store.get(paths.BOOKIE_RACKS)
        try:
            racks = racks_in_record(record.value) if record is not None else {}
        except ValueError as error:
            raise MalformedRecord(f"{paths.BOOKIE_RACKS}: {error}") from None
        found = 0

        async def visit(metadata: LedgerMetadata) -> None:
            nonlocal found
            if metadata.is_closed and badly_placed(metadata, racks, self._config.min_num_racks_per_write_quorum):
                found += 1
                log.info("ledger %d is not spread over racks: %s", metadata.ledger_id, metadata.ensembles)

        total = await visit_ledgers(self._cluster.store, self._cluster.driver, visit, at_once=self._at_once)
        await self._book.set_check_time(records.PLACEMENT_CHECK_TIME)
        log.info("placement check: %d of %d ledgers are not spread over racks", found, total)
        return found

    async def _repeat(self, time_path: str, interval: int, check: Callable[[], Awaitable[int]]) -> None:
        """Runs a check every `interval` seconds (0: never), counted from the time in the check's record at `time_path`.
        The record outlives this auditor, so that the next auditor does not begin the interval anew."""
        if not interval:
            return
        while True:
            last = await self._retried(lambda: self._book.check_time(time_path), "the time of the last check")
            pause = delay_to_check(interval, last, self._now_ms())
            if pause > 0:
                await asyncio.sleep(pause)
                continue
            await self._retried(check, "a check of all ledgers")

    async def _await_enabled(self) -> None:
        """Returns when auto-recovery is switched on."""
        told = False
        while True:
            seen = self._changes.count
            if await self._book.is_enabled():
                return
            if not told:
                log.info("auto-recovery is disabled: audits wait")
                told = True
            await self._changes.after(seen)

    async def _retried(self, do: Callable[[], Awaitable[T]], what: str) -> T:
        """Calls `do` until it succeeds, and returns its result. `what` names the work in the log."""
        while True:
            try:
                return await do()
            except PASSING_FAILURES as error:
                log.warning("%s failed, trying again: %s: %s", what, type(error).__name__, error)
                await asyncio.sleep(RETRY_SECONDS)

    @property
    def _at_once(self) -> int:
        return self._config.auditor_max_number_of_concurrent_open_ledger_operations
