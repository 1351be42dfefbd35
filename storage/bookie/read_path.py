"""Takes reads through the bookie: write cache, read-ahead cache, then the entry logs on an executor's thread.

While an executor reads the logs, the loop goes on: a checkpoint may move entries from the cache to the logs, an entry
may be added again, a ledger may be deleted. Therefore the result is compared with the cache once more, and entries that
were read before a checkpoint ended are not kept for later reads.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_errors import EntryLogDamaged, IndexFailure
from magnetar.storage.bookie.bookie_latencies import Latencies
from magnetar.storage.bookie.entry_log_reader import EntryLogReader
from magnetar.storage.bookie.index_runs import ranges_of, union_of
from magnetar.storage.bookie.ledger_state import LedgerStates
from magnetar.storage.bookie.prompt_threads import PromptThreads
from magnetar.storage.bookie.read_ahead import ReadAheadCache, within_bytes
from magnetar.storage.bookie.write_cache import WriteCache
from pulsar_proto.latency_summary import LatencySummary
from pulsar_proto.wire.bookie_wire import LAST_ENTRY, BookieError, BookieRc, EntryDamaged

log = logging.getLogger(__name__)

T = TypeVar("T")

_WAITING_SHARE = 10
"""The limit of waiting reads, as a multiple of the limit of reads under way."""

DAMAGE_TOLD_MAX = 1_000
"""How many damaged places are remembered, so that each place is logged once. At the limit all places are forgotten, and
may be logged again."""


class ReadPath:
    """Reads entries. All methods raise BookieError: ENOLEDGER, ENOENTRY, ETOOMANYREQUESTS, and EIO for damage (which is
    logged with file and offset), for an error of the disk or of RocksDB, and while the bookie is being closed."""

    def __init__(
        self,
        config: BookieConfig,
        executor: Executor,
        states: LedgerStates,
        cache: WriteCache,
        read_ahead: ReadAheadCache,
        reader: EntryLogReader,
        flushes: Callable[[], int],
        batches: Callable[[], int],
    ) -> None:
        """`flushes()` returns how many checkpoints have ended. Entries that were read from a log before a checkpoint
        ended may be outdated after it. `batches()` returns how many batches the journals have written."""
        self._executor = executor
        self._states = states
        self._cache = cache
        self._read_ahead = read_ahead
        self._reader = reader
        self._flushes = flushes
        self._batches = batches
        self._read_ahead_bytes = config.read_ahead_bytes
        self._slots = asyncio.Semaphore(config.max_pending_read_requests)
        self._waiting_max = _WAITING_SHARE * config.max_pending_read_requests
        self._wait_seconds = config.db_storage_max_throttle_time_ms / 1000
        self._waiting = 0
        self._is_draining = False
        self._pending: set[asyncio.Future[Any]] = set()
        self._prompt_threads = PromptThreads()
        self._damage_told: set[str] = set()
        self.cache_hits = 0
        self.cache_misses = 0
        self.read_bytes = 0
        self.latencies = Latencies()
        """The entries by the time that their read took."""
        self.batch_sizes = LatencySummary()
        """The reads from the logs by the number of entries that they found, in thousands in place of seconds."""

    @property
    def in_progress(self) -> int:
        """How many reads are with the reading threads."""
        return len(self._pending)

    @property
    def waiting(self) -> int:
        """How many reads wait for a reading thread."""
        return self._waiting

    async def entry(self, ledger_id: int, entry_id: int) -> bytes:
        """Returns one entry (see `_entry`) and counts the read."""
        began_s = time.monotonic()
        try:
            entry = await self._entry(ledger_id, entry_id)
        except BookieError:
            self.latencies.add(time.monotonic() - began_s, 1, ok=False)
            raise
        self.read_bytes += len(entry)
        self.latencies.add(time.monotonic() - began_s, 1, ok=True)
        return entry

    async def entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Returns consecutive entries (see `_entries`) and counts the read."""
        began_s = time.monotonic()
        try:
            found = await self._entries(ledger_id, first_entry_id, max_entries, max_bytes)
        except BookieError:
            self.latencies.add(time.monotonic() - began_s, 1, ok=False)
            raise
        self.read_bytes += sum(map(len, found))
        self.latencies.add(time.monotonic() - began_s, len(found), ok=True)
        return found

    async def _entry(self, ledger_id: int, entry_id: int) -> bytes:
        """Returns one entry; an id of -1 asks for the entry with the highest id. When the read-ahead cache holds the
        previous entry, a client seems to read in order, so the following entries are read, too."""
        self._check_ledger(ledger_id)
        if entry_id == LAST_ENTRY:
            entry_id = await self._last_entry_id(ledger_id)
        entry = self._cache.get(ledger_id, entry_id)
        if entry is None:
            entry = self._read_ahead.get(ledger_id, entry_id)
        if entry is not None:
            self.cache_hits += 1
            return entry
        goes_on = self._read_ahead.get(ledger_id, entry_id - 1) is not None
        found = await self._stored(ledger_id, entry_id, self._read_ahead_bytes if goes_on else 0)
        return found[0]

    async def recovery_entry(self, ledger_id: int, entry_id: int) -> bytes:
        """Returns one entry for a client that recovers the ledger. Such a client takes ENOENTRY for the end of the
        ledger. Therefore a missing entry of a ledger in limbo (`ledger_state`) that has later entries is
        EUNKNOWNLEDGERSTATE."""
        try:
            return await self.entry(ledger_id, entry_id)
        except BookieError as error:
            state = self._states.get(ledger_id)
            if error.rc is not BookieRc.ENOENTRY or state is None or not state.limbo or entry_id == LAST_ENTRY:
                raise
            if entry_id > await self._last_entry_id(ledger_id):
                raise
            what = f"entry {entry_id} of ledger {ledger_id} may have been in the part of the journal that was given up"
            raise BookieError(BookieRc.EUNKNOWNLEDGERSTATE, what) from None

    async def _entries(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Returns consecutive entries from `first_entry_id` on: at least one, and more only within `max_bytes`. A
        `max_entries` of 0 or less means that their number has no limit."""
        self._check_ledger(ledger_id)
        if max_entries <= 0:
            max_entries = 1 << 31
        found = self._cached(ledger_id, first_entry_id, max_entries, max_bytes)
        if not found:
            span = max(self._read_ahead_bytes, max_bytes) if max_entries > 1 else 0
            found = await self._stored(ledger_id, first_entry_id, min(span, 2 * self._read_ahead_bytes))
        return within_bytes(found[:max_entries], max_bytes)

    async def id_runs(self, ledger_id: int) -> list[range]:
        """Returns the ids of all entries of a ledger, ascending. The cache is asked before and after the logs, since a
        checkpoint may move entries from the cache to the logs meanwhile."""
        self._check_ledger(ledger_id)
        before = ranges_of(self._cache.entry_ids(ledger_id))
        stored = await self._on_disk(self._reader.id_runs, ledger_id)
        return union_of([*before, *stored, *ranges_of(self._cache.entry_ids(ledger_id))])

    def _check_ledger(self, ledger_id: int) -> None:
        if ledger_id not in self._states:
            raise BookieError(BookieRc.ENOLEDGER, f"ledger {ledger_id}")

    def _cached(self, ledger_id: int, first: int, max_entries: int, max_bytes: int) -> list[bytes]:
        found = self._cache.run(ledger_id, first, max_entries, max_bytes)
        if not found and ledger_id in self._read_ahead:
            found = self._read_ahead.run(ledger_id, first, max_entries, max_bytes)
        if found:
            self.cache_hits += 1
        return found

    async def _stored(self, ledger_id: int, first_entry_id: int, span_bytes: int) -> list[bytes]:
        """Reads entries from the logs. Puts the entries that were read in advance into the read-ahead cache."""
        self.cache_misses += 1
        self._prompt_threads.reading(self._batches())
        flushes = self._flushes()
        found = await self._on_disk(self._reader.read, ledger_id, first_entry_id, span_bytes)
        self.batch_sizes.add(len(found) / 1000)
        if not found:
            # The entry may have been added, or moved to the logs, while the thread read the disk.
            found = self._cached(ledger_id, first_entry_id, 1, 0)
            if not found and flushes != self._flushes():
                found = await self._on_disk(self._reader.read, ledger_id, first_entry_id, span_bytes)
            if not found:
                raise BookieError(BookieRc.ENOENTRY, f"entry {first_entry_id} of ledger {ledger_id}")
            return found
        if self._cache.touches(ledger_id, first_entry_id, first_entry_id + len(found) - 1):
            newer = [self._cache.get(ledger_id, first_entry_id + i) for i in range(len(found))]
            return [entry if entry is not None else stored for entry, stored in zip(newer, found, strict=True)]
        if flushes == self._flushes() and ledger_id in self._states:
            self._read_ahead.put(ledger_id, first_entry_id, found)
        return found

    async def _last_entry_id(self, ledger_id: int) -> int:
        """Returns the highest entry id of a ledger. The cache is asked before and after the logs, because meanwhile
        entries may move from the cache to the logs, and new entries may come."""
        before = self._cache.last_entry_id(ledger_id)
        stored = await self._on_disk(self._reader.last_entry_id, ledger_id)
        known = [i for i in (before, stored, self._cache.last_entry_id(ledger_id)) if i is not None]
        if not known:
            raise BookieError(BookieRc.ENOENTRY, f"ledger {ledger_id} is empty")
        return max(known)

    async def _on_disk(self, function: Callable[..., T], ledger_id: int, *args: int) -> T:
        """Calls a function of the reader on an executor's thread, when a slot is free. When the caller is cancelled,
        the read goes on, and its slot becomes free only when the thread is done."""
        if self._slots.locked():
            await self._wait_for_slot()
        else:
            await self._slots.acquire()
        if self._is_draining:
            self._slots.release()
            raise BookieError(BookieRc.EIO, "the bookie is being closed")
        future = asyncio.get_running_loop().run_in_executor(self._executor, function, ledger_id, *args)
        self._pending.add(future)
        try:
            return await asyncio.shield(future)
        except EntryLogDamaged as error:
            self._tell_damage(str(error), ledger_id)
            raise EntryDamaged(str(error)) from None
        except (IndexFailure, OSError) as error:
            log.error("reading ledger %d entry %s failed: %s", ledger_id, args[0] if args else "last", error)
            raise BookieError(BookieRc.EIO, str(error)) from None
        finally:
            future.add_done_callback(self._read_over)

    async def _wait_for_slot(self) -> None:
        """Waits for a slot, in the order of the calls. Raises BookieError (ETOOMANYREQUESTS) when too many reads wait
        already, or when it takes too long."""
        if self._waiting >= self._waiting_max:
            raise BookieError(BookieRc.ETOOMANYREQUESTS, f"{self._waiting} reads wait for others")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise BookieError(BookieRc.ETOOMANYREQUESTS, f"waited {self._wait_seconds} s for other reads") from None
        finally:
            self._waiting -= 1

    def _tell_damage(self, what: str, ledger_id: int) -> None:
        """Logs a damaged place, but only once, because clients ask for the entries at this place again and again."""
        if len(self._damage_told) >= DAMAGE_TOLD_MAX:
            self._damage_told.clear()
        if what not in self._damage_told:
            self._damage_told.add(what)
            log.error("entries of ledger %d cannot be read: %s", ledger_id, what)

    def _read_over(self, future: asyncio.Future[Any]) -> None:
        self._slots.release()
        self._pending.discard(future)
        if not future.cancelled():
            future.exception()  # asyncio logs an exception that nobody reads

    async def drain(self) -> None:
        """Fails the reads that wait for a slot, and returns when no read uses the files any more."""
        self._is_draining = True
        self._prompt_threads.close()
        if self._pending:
            await asyncio.wait(self._pending)
