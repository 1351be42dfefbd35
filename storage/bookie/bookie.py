"""One bookie: it opens its folders, connects its parts, and answers the calls of a BookieChannel.

Threads: the event loop's thread owns all state. Each journal has a thread that writes and syncs it, one flush thread
does checkpoints and garbage collection, and a few executor threads read the entry logs. These threads hand their
results to the loop, with one call for a whole group of results.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from magnetar.storage.bookie.add_path import AddPath
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_opening import OpenedStorage, RecoveredStorage, read_storage
from magnetar.storage.bookie.bookie_stats import BookieStats, collect_stats
from magnetar.storage.bookie.checkpoint import Checkpointer, Flusher, FlushState
from magnetar.storage.bookie.disks import BookieMode, DiskRules, DiskUsage, may_change
from magnetar.storage.bookie.durable_file import DurableFile, OpenFile
from magnetar.storage.bookie.garbage_collector import GarbageCollector
from magnetar.storage.bookie.journal import Committed, Journal
from magnetar.storage.bookie.ledger_holds import LedgerHolds
from magnetar.storage.bookie.maintenance import Maintenance
from magnetar.storage.bookie.old_journals import OldJournals
from magnetar.storage.bookie.read_ahead import ReadAheadCache
from magnetar.storage.bookie.read_path import ReadPath
from pulsar_proto.wire.bookie_wire import BookieError, BookieRc, ReadFlags

log = logging.getLogger(__name__)

_LEVELS = {BookieMode.FAILED: logging.ERROR, BookieMode.READ_ONLY: logging.WARNING}
_FENCING = int(ReadFlags.FENCING)  # This flag is an int, because `&` of an IntFlag costs half a microsecond.


class Bookie:
    """One bookie, created by `open`, or by `read` and then `start`. All calls come from the loop's thread."""

    def __init__(
        self,
        config: BookieConfig,
        opened: OpenedStorage,
        flush_executor: ThreadPoolExecutor,
        open_file: OpenFile,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._rules = DiskRules(config)
        self._opened = opened
        self._flush_executor = flush_executor
        self._read_executor = ThreadPoolExecutor(config.num_read_worker_threads, "bookie-read")
        self._mode_reason = ""
        self._listeners: list[Callable[[BookieMode], None]] = []
        self._deletion_listeners: list[Callable[[set[int]], None]] = []
        self._read_ahead = ReadAheadCache(config.read_ahead_cache_bytes)
        self._adds = AddPath(config, opened.states, opened.cache, self._read_ahead)
        self._adds.on_journal_failure = self._storage_failed
        self.add_entries = self._adds.add
        """Adds a group of entries (BookieChannel.add_entries). It is the compiled method itself: with many topics each
        message is a group of its own, and a method of this class around it would not be compiled."""
        self._old_journals = [
            OldJournals(
                directory,
                backups=config.journal_max_backups,
                reuse=config.journal_reuse_files,
                max_spare_bytes=2 * config.journal_file_bytes + config.journal_batch_bytes,
            )
            for directory in opened.directories.journals
        ]
        self._flusher = Flusher(opened, self._old_journals)
        self._checkpointer = Checkpointer(
            flush_executor,
            self._flusher,
            opened.cache,
            opened.states,
            lambda: tuple(self._adds.positions),
            flush_interval_ms=config.flush_interval,
            on_flushed=self._flushed,
            on_failed=self._storage_failed,
        )
        self._reads = ReadPath(
            config,
            self._read_executor,
            opened.states,
            opened.cache,
            self._read_ahead,
            opened.reader,
            lambda: self._checkpointer.completed,
            lambda: sum(journal.batches for journal in self._journals),
        )
        self._journals: list[Journal] = []
        self._collector = GarbageCollector(opened.index, opened.logs, opened.writer, opened.states.__contains__)
        self.holds = LedgerHolds(opened.states, opened.cache, opened.index, flush_executor)
        self.maintenance: Maintenance
        self._maintenance_task: asyncio.Task[None]
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    async def open(
        cls,
        config: BookieConfig,
        *,
        bookie_id: str,
        list_ledgers: Callable[[], Awaitable[set[int]]],
        instance_id: str = "",
        open_file: OpenFile = DurableFile,
        journal_class: type[Journal] = Journal,
    ) -> "Bookie":
        """Calls `read`, then `start`, and returns the open bookie. Raises the errors of `read` and of `start`."""
        recovered = await cls.read(config, bookie_id=bookie_id, instance_id=instance_id)
        return await cls.start(
            config, recovered, list_ledgers=list_ledgers, open_file=open_file, journal_class=journal_class
        )

    @staticmethod
    async def read(config: BookieConfig, *, bookie_id: str, instance_id: str) -> RecoveredStorage:
        """Locks the folders, reads and checks their content, and replays the journal, without a change on disk. The
        caller hands the result to `start`, or releases it.

        Raises OSError, and BookieStartError, whose subclasses name the file and what can be done.
        """
        return await asyncio.to_thread(read_storage, config, bookie_id, instance_id)

    @classmethod
    async def start(
        cls,
        config: BookieConfig,
        recovered: RecoveredStorage,
        *,
        list_ledgers: Callable[[], Awaitable[set[int]]],
        open_file: OpenFile = DurableFile,
        journal_class: type[Journal] = Journal,
    ) -> "Bookie":
        """Opens the recovered storage, which `read` returned, for writing. When this call returns, every acknowledged
        entry can be read.

        `list_ledgers()` returns the ids of all ledgers in the metadata; the collector deletes the ledgers of this
        bookie that are not among them. Simulations pass their own `open_file` and `journal_class`. Raises IndexDamaged,
        DirectoryInUse, OSError, IndexFailure; the folders are released then.
        """
        loop = asyncio.get_running_loop()
        executor = ThreadPoolExecutor(1, "bookie-flush")
        try:
            try:
                opened = await loop.run_in_executor(executor, OpenedStorage, config, recovered, open_file)
            except BaseException:
                recovered.release()
                raise
            try:
                bookie = cls(config, opened, executor, open_file)
                await bookie._begin(config, list_ledgers, open_file, journal_class)
            except BaseException:
                opened.abandon()
                raise
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return bookie

    async def _begin(
        self,
        config: BookieConfig,
        list_ledgers: Callable[[], Awaitable[set[int]]],
        open_file: OpenFile,
        journal_class: type[Journal],
    ) -> None:
        opened = self._opened
        for number, directory in enumerate(opened.directories.journals):
            make_journal = partial(
                journal_class,
                directory,
                opened.journal_ends[number],
                partial(self._hand_over, number),
                max_file_bytes=config.journal_file_bytes,
                max_batch_bytes=config.journal_batch_bytes,
                open_file=open_file,
                old=self._old_journals[number],
            )
            self._journals.append(await self._loop.run_in_executor(self._flush_executor, make_journal))
        self._adds.positions = [journal.start_position for journal in self._journals]
        self._adds.start(self._journals, self._checkpointer)
        self.maintenance = Maintenance(
            config, self, self._flush_executor, self._collector, opened.directories.all, list_ledgers
        )
        if kept := self.kept_ledgers():
            log.warning("%d ledgers are kept, listed or not, the first are %s", len(kept), sorted(kept)[:20])
        if config.force_read_only_bookie:
            self._change_mode(BookieMode.READ_ONLY, "forceReadOnlyBookie=true")
        await self._renew_mark()
        await self.maintenance.check_disks()
        self._maintenance_task = self._loop.create_task(self.maintenance.run())
        if opened.cache.active.size > config.write_cache_half_bytes:
            self._checkpointer.start()
        elif self._checkpointer.is_dirty():
            self._checkpointer.touch()

    async def _renew_mark(self) -> None:
        """Writes the mark, at which the next replay begins, before the bookie takes the first add: by a checkpoint if
        `mark_is_due`. After an error, closes the journals and raises OSError or IndexFailure."""
        try:
            if self._opened.mark_is_due:
                await self._checkpointer.checkpoint()
            else:
                await self._loop.run_in_executor(self._flush_executor, self._flusher.renew_mark)
        except BaseException:
            for journal in self._journals:
                await self._loop.run_in_executor(self._flush_executor, journal.close)
            raise

    def _hand_over(self, journal: int, result: Committed) -> None:
        """Passes the outcome of a journal's last batch to the event loop. The journal's thread calls this method."""
        try:
            self._loop.call_soon_threadsafe(self._adds.committed, journal, result)
        except RuntimeError:
            log.warning("the event loop was closed before the bookie: %d groups go unanswered", len(result.groups))

    async def read_entry(self, ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
        """Returns one entry (BookieChannel.read_entry). Raises BookieError."""
        self._check_open()
        if flags & _FENCING:
            await self._adds.fence(ledger_id, master_key)
            return await self._reads.recovery_entry(ledger_id, entry_id)
        return await self._reads.entry(ledger_id, entry_id)

    async def read_entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Returns consecutive entries (BookieChannel.read_entries). With `max_entries` <= 0 there may be any number."""
        self._check_open()
        return await self._reads.entries(ledger_id, first_entry_id, max_entries, max_bytes)

    async def write_explicit_lac(self, ledger_id: int, master_key: bytes, body: bytes) -> None:
        """Stores the packet of an explicit LAC durably (WireBookie.write_explicit_lac). Raises BookieError."""
        await self._adds.write_explicit_lac(ledger_id, master_key, body)

    def explicit_lac(self, ledger_id: int) -> bytes | None:
        """Returns the durable packet of a ledger's explicit LAC, or None (WireBookie.explicit_lac)."""
        state = self._opened.states.get(ledger_id)
        return None if state is None else state.explicit_lac

    async def entry_id_runs(self, ledger_id: int) -> list[range]:
        """Returns the ids of all entries of a ledger, ascending (WireBookie.entry_id_runs). Raises BookieError."""
        self._check_open()
        return await self._reads.id_runs(ledger_id)

    def on_ledgers_deleted(self, callback: Callable[[set[int]], None]) -> None:
        """Calls `callback(ledger ids)` on the loop whenever ledgers are forgotten, before their space is freed."""
        self._deletion_listeners.append(callback)

    def _check_open(self) -> None:
        if self.mode is BookieMode.CLOSED:
            raise BookieError(BookieRc.EIO, "the bookie is closed")

    @property
    def mode(self) -> BookieMode:
        return self._adds.mode

    @property
    def is_writable(self) -> bool:
        return self._adds.mode is BookieMode.WRITABLE

    @property
    def takes_high_priority_writes(self) -> bool:
        """Whether the bookie takes the adds of recovering clients, and would go on taking them if it turned
        read-only."""
        return self.is_writable or (self.mode is BookieMode.READ_ONLY and self._adds.takes_high_priority)

    @property
    def has_refused_recovery(self) -> bool:
        return self._adds.has_refused_recovery

    @property
    def fault(self) -> str | None:
        """The fault because of which the bookie takes no writes until a restart; None when it has not failed."""
        return f"the bookie failed: {self._mode_reason}" if self.mode is BookieMode.FAILED else None

    @property
    def hindrance(self) -> str | None:
        """The reason why the bookie takes no writes (failed, full disk, closed); None when it takes writes."""
        return None if self.is_writable else f"the bookie is {self.mode.value}: {self._mode_reason}"

    def on_mode_change(self, callback: Callable[[BookieMode], None]) -> Callable[[], None]:
        """Calls `callback(mode)` on the loop at each change of the mode, until the returned function is called."""
        self._listeners.append(callback)
        return lambda: self._listeners.remove(callback)

    async def checkpoint(self) -> None:
        """Moves all that was acknowledged before the call into the entry logs and the index, durably.

        Raises OSError, IndexFailure, IndexDamaged.
        """
        await self._checkpointer.checkpoint()

    async def collect_garbage(self, compaction_threshold: float | None = None) -> None:
        """Frees the space of ledgers that the metadata does not list; see `Maintenance.collect_garbage`."""
        await self.maintenance.collect_garbage(compaction_threshold)

    async def drop_ledgers(self, ledger_ids: set[int]) -> None:
        """Forgets ledgers although the metadata lists them; see `Maintenance.drop_ledgers`."""
        await self.maintenance.drop_ledgers(ledger_ids)

    async def close(self) -> None:
        """Makes all accepted adds durable, flushes them, and releases the folders. A second call has no effect."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._change_mode(BookieMode.CLOSED, "it is being closed")
        self._adds.close()
        self._maintenance_task.cancel()
        await asyncio.gather(self._maintenance_task, return_exceptions=True)
        run = partial(self._loop.run_in_executor, self._flush_executor)
        for journal in self._journals:
            await run(journal.close)
        try:
            await self._checkpointer.checkpoint()
        except Exception as error:
            log.warning("the last checkpoint failed, the next start replays the journal: %s", error)
        self._checkpointer.close()
        await self._reads.drain()
        await run(self._opened.close)
        self._read_executor.shutdown(wait=False)
        self._flush_executor.shutdown(wait=False)

    def stats(self) -> BookieStats:
        """Returns the bookie's counters and sizes at this moment."""
        return collect_stats(
            self._adds,
            self._reads,
            self._journals,
            self._opened,
            self._checkpointer,
            self._collector,
            self._read_ahead,
            self.maintenance,
        )

    def _flushed(self) -> None:
        self._adds.admit_waiting()

    def _storage_failed(self, error: Exception, fatal: bool) -> None:
        """Reacts to a failed write of a journal or a failed checkpoint. `fatal` is False if only room on the disk is
        missing, else True."""
        if fatal:
            self._change_mode(BookieMode.FAILED, f"writing failed: {error}")
        else:
            self._allow_spares(False)
            self._change_mode(BookieMode.READ_ONLY, f"no room: {error}")

    def _allow_spares(self, has_room: bool) -> None:
        """Allows or forbids keeping old journals for reuse: on a full disk they are deleted at once."""
        for old in self._old_journals:
            if old.allow_spares(has_room):
                self._loop.run_in_executor(self._flush_executor, old.release)

    def room_seen(self, usage: DiskUsage) -> None:
        """Turns the bookie read-only when its disk is full, and writable when there is room again. If a checkpoint has
        failed, the bookie repeats it first, and turns writable at the next measurement after its success."""
        self._adds.takes_high_priority = self._rules.takes_high_priority(usage)
        self._adds.has_refused_recovery = False
        self._allow_spares(self._rules.may_keep_spares(usage))
        if self.mode is BookieMode.WRITABLE and self._rules.is_full(usage):
            self._change_mode(BookieMode.READ_ONLY, usage.sentence())
        elif self.mode is BookieMode.READ_ONLY and self._rules.is_usable_again(usage):
            if self._checkpointer.state is FlushState.RETRYING:
                self._checkpointer.retry()
            elif self._checkpointer.state is FlushState.IDLE:
                self._change_mode(BookieMode.WRITABLE, f"{usage.free_bytes >> 20} MB are free")

    def ledger_ids(self) -> set[int]:
        return self._opened.states.ids()

    def kept_ledgers(self) -> set[int]:
        return self._opened.states.kept_ids() | self.holds.spared()

    def forget_ledgers(self, ledger_ids: set[int]) -> None:
        for ledger_id in ledger_ids:
            self._adds.ledger_deleted(ledger_id)
            self._opened.cache.drop(ledger_id)
            self._read_ahead.replaced(ledger_id, -(1 << 63), 1 << 63)
        for callback in self._deletion_listeners:
            callback(ledger_ids)

    def _change_mode(self, mode: BookieMode, why: str) -> None:
        before = self.mode
        if not may_change(before, mode):
            return
        log.log(_LEVELS.get(mode, logging.INFO), "bookie is %s, was %s: %s", mode.value, before.value, why)
        self._adds.mode = mode
        self._mode_reason = why
        self.maintenance.mode_changed()
        self._adds.admit_waiting()
        for listener in list(self._listeners):
            listener(mode)
