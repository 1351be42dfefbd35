"""What a bookie does by the clock: looks at the disks' room and collects garbage."""

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

log = logging.getLogger(__name__)

T = TypeVar("T")
_PROBE_SECONDS = 1.0
"""A read-only bookie looks this often whether there is room again."""


class MaintainedBookie(Protocol):
    """What maintenance asks of the bookie."""

    @property
    def mode(self) -> BookieMode: ...

    def room_seen(self, usage: DiskUsage) -> None:
        """Called with every measurement."""

    def ledger_ids(self) -> set[int]:
        """All ledgers that are here."""

    def kept_ledgers(self) -> set[int]:
        """Those that stay whatever the metadata lists."""

    def forget_ledgers(self, ledger_ids: set[int]) -> None:
        """The ledgers are gone from the metadata: no call may find them any more."""


class Maintenance:
    """`run` is a task for the bookie's life; `check_disks` and `collect_garbage` may be called besides."""

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
        self._disk_interval = config.disk_check_interval / 1000
        self._gc_interval = config.gc_wait_time / 1000
        self._rate = config.compaction_rate_by_bytes
        self._minor = (config.minor_compaction_threshold, config.minor_compaction_interval)
        self._major = (config.major_compaction_threshold, config.major_compaction_interval)
        self._minor_at = self._major_at = time.monotonic()
        self._mode_changed = asyncio.Event()
        self._collecting = asyncio.Lock()
        self.usage: DiskUsage | None = None

    def mode_changed(self) -> None:
        self._mode_changed.set()

    async def run(self) -> None:
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

    async def check_disks(self) -> None:
        """Measures and tells the owner. A folder that cannot be measured counts as full."""
        try:
            self.usage = await self._on_thread(measure, self._directories)
        except OSError as error:
            log.warning("disk check failed: %s", error)
            self.usage = DiskUsage(0, 1.0)
        self._owner.room_seen(self.usage)

    async def _collect_quietly(self) -> None:
        try:
            await self.collect_garbage()
        except Exception as error:
            log.warning("garbage collection broke off, it will be tried again: %r", error)

    async def collect_garbage(self, compaction_threshold: float | None = None) -> None:
        """Forgets ledgers that the metadata does not list, but those that are kept; deletes logs without live ones, and
        compacts logs whose live share is below `compaction_threshold` (None: as the schedule says; 0: none).

        Local ledgers are listed first: one that is created meanwhile is in the metadata before it is here. Raises
        whatever `list_ledgers` raises, OSError, IndexFailure.
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
        """Forgets ledgers that others have all copies of, durably. Raises IndexFailure."""
        async with self._collecting:
            await self._drop(ledger_ids & self._owner.ledger_ids())

    async def _drop(self, ledger_ids: set[int]) -> None:
        self._owner.forget_ledgers(ledger_ids)
        await self._on_thread(self._collector.forget, sorted(ledger_ids))

    def _due_threshold(self) -> float:
        """Major compaction needs room for its copies and pauses on a disk that fills up."""
        now = time.monotonic()
        threshold = 0.0
        if now - self._minor_at >= self._minor[1]:
            self._minor_at = now
            threshold = self._minor[0]
        if now - self._major_at >= self._major[1] and (self.usage is None or self._rules.may_compact(self.usage)):
            self._major_at = now
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
