"""The periodic work of a bookie: it measures the room on its disks and collects garbage."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from typing import Protocol, TypeVar

from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import EntryLogDamaged, IndexFailure
from magnetar.storage.bookie.disks import BookieMode, DiskRules, DiskUsage, measure
from magnetar.storage.bookie.entry_log_format import FILE_HEADER_SIZE
from magnetar.storage.bookie.garbage_collector import GarbageCollector, LogUsage, logs_to_compact
from magnetar.storage.bookie.reserve import Reserve

log = logging.getLogger(__name__)

T = TypeVar("T")
_PROBE_SECONDS = 1.0
"""The time between two measurements of a read-only bookie's disks, so that it soon notices that there is room again."""


class MaintainedBookie(Protocol):
    """Maintenance uses the `Bookie` through this interface."""

    @property
    def mode(self) -> BookieMode: ...

    @property
    def has_refused_recovery(self) -> bool:
        """Whether an add of ledger recovery was refused since the last measurement, because the disk is full."""

    def room_seen(self, usage: DiskUsage) -> None:
        """Takes a measurement of the disks. `Maintenance` calls this method after every measurement."""

    def ledger_ids(self) -> set[int]:
        """Returns the ids of all ledgers in this bookie."""

    def kept_ledgers(self) -> set[int]:
        """Returns the ids of the ledgers that stay even if the metadata does not list them."""

    def forget_ledgers(self, ledger_ids: set[int]) -> None:
        """Forgets ledgers that were deleted in the metadata: from now on no read or add may find them."""


class Maintenance:
    """Measures the disks of one bookie and collects its garbage. The bookie runs `run` as a task for all its life; the
    other methods may be called at any time."""

    def __init__(
        self,
        config: BookieConfig,
        owner: MaintainedBookie,
        executor: Executor,
        collector: GarbageCollector,
        directories: Sequence[str],
        list_ledgers: Callable[[], Awaitable[set[int]]],
    ) -> None:
        self._owner = owner
        self._executor = executor
        self._collector = collector
        self._directories = directories
        self._list_ledgers = list_ledgers
        self._rules = DiskRules(config)
        self._reserve = Reserve(directories)
        self._disk_interval = config.disk_check_interval / 1000
        self._gc_interval = config.gc_wait_time / 1000
        self._rate = config.compaction_rate_by_bytes
        self._minor = (config.minor_compaction_threshold, config.minor_compaction_interval)
        self._major = (config.major_compaction_threshold, config.major_compaction_interval)
        self._minor_at = self._major_at = time.monotonic()
        self._mode_changed = asyncio.Event()
        self._collecting = asyncio.Lock()
        self.measure: Callable[[Sequence[str]], DiskUsage] = measure
        """Measures the room on the disks of some folders. Raises OSError."""
        self.usage: DiskUsage | None = None
        self.disk_warning: str | None = None
        """What an operator has to know about a disk that is nearly full; None while there is room enough, and when the
        disk is full."""
        self.ledgers_deleted = 0
        """How many ledgers were forgotten since the start."""
        self.minor_compactions = 0
        self.major_compactions = 0

    def mode_changed(self) -> None:
        """Wakes `run`, because the interval depends on the mode, and because `run` ends in the mode CLOSED."""
        self._mode_changed.set()

    async def run(self) -> None:
        """Checks the disks and collects garbage until the bookie is closed."""
        next_collection = time.monotonic() + self._gc_interval
        while self._owner.mode is not BookieMode.CLOSED:
            interval = self._disk_interval
            if self._owner.mode is BookieMode.READ_ONLY:
                interval = min(interval, _PROBE_SECONDS)
            try:
                async with asyncio.timeout(min(interval, self._gc_interval)):
                    await self._mode_changed.wait()
            except TimeoutError:
                await self.check_disks()
            self._mode_changed.clear()
            if time.monotonic() >= next_collection:
                await self._collect_quietly()
                next_collection = time.monotonic() + self._gc_interval

    async def measure_disks_by(self, measure: Callable[[Sequence[str]], DiskUsage]) -> None:
        """Has the disks measured by another function from now on, and checks them."""
        self.measure = measure
        await self.check_disks()

    async def check_disks(self) -> None:
        """Measures the disks and tells the bookie. A folder that cannot be measured counts as full."""
        try:
            self.usage = await self._on_thread(self._measure_with_reserve)
        except OSError as error:
            log.warning("disk check failed: %s", error)
            self.usage = DiskUsage(0, 1.0)
        had_warning, self.disk_warning = self.disk_warning is not None, self._rules.warning(self.usage)
        if self.disk_warning is not None and not had_warning:
            log.warning("room on the disk gets short: %s", self.disk_warning)
        self._owner.room_seen(self.usage)

    def _measure_with_reserve(self) -> DiskUsage:
        """Restores the reserve if there is room for it, and then measures the disks. If recovery needs room, and the
        reserve is enough for it, the reserve is given up: a topic whose broker has died is readable only when the end
        of its last ledger is recovered. Raises OSError."""
        is_whole = self._reserve.restore()
        usage = self.measure(self._directories)
        if self._owner.has_refused_recovery and not self._rules.takes_high_priority(usage):
            with_reserve = usage._replace(free_bytes=usage.free_bytes + self._reserve.held_bytes())
            if self._rules.takes_high_priority(with_reserve) and self._reserve.release():
                return self.measure(self._directories)._replace(reserve_is_whole=False)
        return usage._replace(reserve_is_whole=is_whole)

    async def _collect_quietly(self) -> None:
        try:
            await self.collect_garbage()
        except Exception as error:
            log.warning("garbage collection broke off, it will be tried again: %r", error)

    async def collect_garbage(self, compaction_threshold: float | None = None) -> None:
        """Forgets the ledgers that the metadata does not list, except those that are kept. After that, deletes the logs
        without live ledgers, and compacts the logs whose live share is below `compaction_threshold` (None: the
        threshold that the schedule asks for; 0: no compaction).

        The local ledgers are listed before those of the metadata. A ledger is in the metadata before it is in a bookie,
        so a ledger that is created meanwhile is in both lists or in the second only. Raises OSError, IndexFailure, and
        the errors of `list_ledgers`.
        """
        async with self._collecting:
            if self._owner.mode is BookieMode.FAILED:
                return
            local = self._owner.ledger_ids()
            doomed = local - await self._list_ledgers() - self._owner.kept_ledgers() if local else set()
            if doomed:
                await self._drop(doomed)
                log.info("garbage collection: %d ledgers were deleted, %d remain", len(doomed), len(local - doomed))
            threshold = self._due_threshold() if compaction_threshold is None else compaction_threshold
            usages = await self._on_thread(self._collector.delete_dead_logs, threshold)
            for usage in logs_to_compact(usages, threshold):
                await self._compact(usage)

    async def drop_ledgers(self, ledger_ids: set[int]) -> None:
        """Forgets ledgers, durably, although the metadata lists them. The caller knows that other bookies have all
        copies. Raises IndexFailure."""
        async with self._collecting:
            await self._drop(ledger_ids & self._owner.ledger_ids())

    async def _drop(self, ledger_ids: set[int]) -> None:
        self._owner.forget_ledgers(ledger_ids)
        self.ledgers_deleted += len(ledger_ids)
        await self._on_thread(self._collector.forget, sorted(ledger_ids))

    def _due_threshold(self) -> float:
        """Returns the threshold of the compaction that is due, or 0 when no compaction is due. Major compaction needs
        room for its copies, so it pauses on a disk that fills up."""
        now = time.monotonic()
        threshold = 0.0
        if now - self._minor_at >= self._minor[1]:
            self._minor_at = now
            self.minor_compactions += 1
            threshold = self._minor[0]
        if now - self._major_at >= self._major[1] and (self.usage is None or self._rules.may_compact(self.usage)):
            self._major_at = now
            self.major_compactions += 1
            threshold = max(threshold, self._major[0])
        return threshold

    async def _compact(self, usage: LogUsage) -> None:
        offset: int | None = FILE_HEADER_SIZE
        try:
            while offset is not None:
                if self._owner.mode is not BookieMode.WRITABLE:
                    return
                before, copied = offset, self._collector.compacted_bytes
                offset = await self._on_thread(self._collector.compact_step, usage.log_id, offset)
                if offset == before:
                    return
                await asyncio.sleep((self._collector.compacted_bytes - copied) / self._rate)
        except EntryLogDamaged:
            return
        except (OSError, IndexFailure) as error:
            log.warning("compaction of entry log %08x broke off, it will be tried again: %s", usage.log_id, error)

    async def _on_thread(self, function: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, function, *args)
