"""Checkpoints: each moves one half of the write cache into the entry log and the index, and then moves the mark
forward.

The mark (BookKeeper's LastLogMark) is the position in the journal from which a restart replays.

    loop:           take the mark, swap the halves            (one step: no add comes in between)
    flush thread:   entries ──► entry log, fdatasync ──► index, synced ──► mark, replaced ──► old journals go

A crash may come between any two steps. As long as the mark has not moved, the next start replays the flushed entries
from the journal, and the next checkpoint writes them once more. The mark is safe because of the moment at which it is
taken: everything that the journal holds before the mark is in the half that is being flushed, or was flushed before.
The mark never moves back.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from enum import Enum

from magnetar.storage.bookie.bookie_errors import IndexDamaged, IndexFailure, is_no_room
from magnetar.storage.bookie.bookie_opening import OpenedStorage
from magnetar.storage.bookie.entry_log_writer import PlacedBlock
from magnetar.storage.bookie.last_mark import LastMark, Positions
from magnetar.storage.bookie.ledger_state import LedgerStates
from magnetar.storage.bookie.old_journals import OldJournals
from magnetar.storage.bookie.write_cache import CacheHalf, WriteCache

log = logging.getLogger(__name__)

_RELEASED_AT_ONCE = 1024
"""After freeing this many entries, the flush thread gives up the interpreter lock for a moment."""


class FlushJob:
    """The data that one checkpoint writes. The job is kept until the checkpoint has succeeded. Once `placed` is set,
    the entries are durable in the entry log, and a retry repeats only the later steps."""

    __slots__ = ("half", "index_failed", "mark", "placed", "states")

    def __init__(self, half: CacheHalf, states: list[tuple[int, bytes]], mark: Positions) -> None:
        self.half = half
        self.states = states
        self.mark = mark
        self.placed: list[tuple[int, list[PlacedBlock]]] | None = None
        self.index_failed = False


class Flusher:
    """The steps of a checkpoint that block. All its methods run on the flush thread."""

    def __init__(self, opened: OpenedStorage, old_journals: Sequence[OldJournals]) -> None:
        self._writer = opened.writer
        self._index = opened.index
        self._reader = opened.reader
        self._marks = opened.marks
        self._states = opened.states
        self._old_journals = old_journals
        self.entries_on_disk = 0
        """About how many entries the entry logs have, for metrics; 0 before the first checkpoint of this process."""

    def flush(self, job: FlushJob) -> None:
        """Does all steps of a checkpoint. After a failure, another call with the same job goes on at the step that
        failed. Raises OSError, IndexFailure, IndexDamaged."""
        if job.placed is None:
            job.placed = self._write_entries(job)
        self._write_index(job)
        self._save_mark(job.mark)
        for old, position in zip(self._old_journals, job.mark, strict=True):
            old.drop(position)
        with suppress(IndexFailure):  # The checkpoint itself has succeeded.
            self.entries_on_disk = self._index.estimated_entries(len(self._states))

    def _write_entries(self, job: FlushJob) -> list[tuple[int, list[PlacedBlock]]]:
        placed: list[tuple[int, list[PlacedBlock]]] = []
        generation = sum(position.sequence for position in job.mark)
        try:
            for ledger_id in sorted(job.half.ledgers):
                table = job.half.ledgers[ledger_id].entries
                ids = sorted(table)
                entries = list(map(table.__getitem__, ids))
                placed.append((ledger_id, self._writer.append(generation, ledger_id, ids, entries)))
            self._writer.finish()
        except OSError:
            self._writer.abort()
            raise
        return placed

    def _write_index(self, job: FlushJob) -> None:
        """Writes the places of the entries into the index. After a failed write RocksDB takes no other write until the
        index is opened anew. Opening needs room on the disk, too, so only the next attempt opens the index; until then
        reads go on."""
        assert job.placed is not None
        if job.index_failed:
            self._index.reopen()
        try:
            self._index.apply(job.placed, job.states, self._reader.ids_of)
        except IndexFailure:
            job.index_failed = True
            raise
        self._writer.indexed()

    def renew_mark(self) -> None:
        """Writes the mark again with the same positions, because RocksDB began another manifest when the index was
        opened. Raises OSError, IndexFailure; AssertionError when there is no mark yet."""
        mark = self._marks.last
        assert mark is not None, "the first one comes with a checkpoint"
        self._save_mark(mark.positions)

    def _save_mark(self, positions: Positions) -> None:
        self._marks.save(LastMark(positions, self._index.sequence, self._index.manifest(), self._writer.next_log_id))

    @staticmethod
    def release(half: CacheHalf) -> None:
        """Frees a flushed half in portions, and lets the event loop run in between. Freeing the whole half at once
        would hold the interpreter lock for milliseconds."""
        for ledger in half.ledgers.values():
            entries = ledger.entries
            while entries:
                for _ in range(min(len(entries), _RELEASED_AT_ONCE)):
                    entries.popitem()
                time.sleep(0)


class FlushState(Enum):
    """The states of a `Checkpointer`: IDLE -> FLUSHING -> IDLE | RETRYING | FAILED; RETRYING -> FLUSHING. In RETRYING
    the Checkpointer waits for room on the disk."""

    IDLE = "idle"
    FLUSHING = "flushing"
    RETRYING = "retrying"
    FAILED = "failed"


class Checkpointer:
    """Decides on the loop's thread when to flush, and has at most one flush under way."""

    def __init__(
        self,
        executor: Executor,
        flusher: Flusher,
        cache: WriteCache,
        states: LedgerStates,
        positions: Callable[[], Positions],
        *,
        flush_interval_ms: int,
        on_flushed: Callable[[], None],
        on_failed: Callable[[Exception, bool], None],
    ) -> None:
        """`positions()` returns each journal's position behind its last durable batch. `on_failed(error, fatal)` is
        called when a flush failed. If the failure is not fatal, the disk had no room, and `retry` has to be called when
        there is room again."""
        self._loop = asyncio.get_running_loop()
        self._executor = executor
        self.flusher = flusher
        self._cache = cache
        self._states = states
        self._positions = positions
        self._flush_interval = flush_interval_ms / 1000
        self._on_flushed = on_flushed
        self._on_failed = on_failed
        self._job: FlushJob | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._failure: Exception | None = None
        self.state = FlushState.IDLE
        self.completed = 0

    def is_dirty(self) -> bool:
        return self._cache.active.size > 0 or bool(self._states.changed)

    def touch(self) -> None:
        """Notes that there is something to flush. Unless a timer runs already, this starts one for the flush interval,
        and the next checkpoint begins at its end."""
        if self._timer is None:
            self._timer = self._loop.call_later(self._flush_interval, self._interval_over)

    def start(self) -> bool:
        """Begins a flush of all that is in the cache now. Returns False when a flush is under way or an earlier flush
        failed."""
        if self.state is not FlushState.IDLE:
            return False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        mark = self._positions()
        half = self._cache.swap()
        self._run(FlushJob(half, self._states.take_changed(), mark))
        return True

    def retry(self) -> None:
        """Tries again a flush that failed because the disk had no room."""
        if self.state is FlushState.RETRYING:
            assert self._job is not None
            self._run(self._job)

    async def checkpoint(self) -> None:
        """Flushes, and returns when all that was durable in the journal before the call is in the entry logs and the
        mark is past it. Raises OSError, IndexFailure or IndexDamaged when a flush fails."""
        while self.state is FlushState.FLUSHING:
            await self._finished()
        if self.state is FlushState.FAILED:
            assert self._failure is not None
            raise self._failure
        if self.state is FlushState.RETRYING:
            self.retry()
            await self._finished()
        self.start()
        await self._finished()

    async def _finished(self) -> None:
        """Returns when no flush is under way. Raises the error of a flush that failed."""
        if self.state is FlushState.FLUSHING:
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            await waiter

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _interval_over(self) -> None:
        self._timer = None
        if self.is_dirty() and not self.start():
            self.touch()

    def _run(self, job: FlushJob) -> None:
        self.state = FlushState.FLUSHING
        self._job = job
        future = self._loop.run_in_executor(self._executor, self.flusher.flush, job)
        future.add_done_callback(self._done)

    def _done(self, future: "asyncio.Future[None]") -> None:
        error = future.exception()
        waiters, self._waiters = self._waiters, []
        job = self._job
        assert job is not None
        if error is None:
            self.state = FlushState.IDLE
            self._job = None
            self._cache.flushed()
            self._loop.run_in_executor(self._executor, self.flusher.release, job.half)
            self.completed += 1
        else:
            assert isinstance(error, Exception)
            fatal = not _is_no_room(error)
            self.state = FlushState.FAILED if fatal else FlushState.RETRYING
            self._failure = error
        for waiter in waiters:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)
        if error is None:
            self._on_flushed()
        else:
            self._on_failed(error, self.state is FlushState.FAILED)


def _is_no_room(error: Exception) -> bool:
    """Returns whether a flush failed only because the disk had no room. RocksDB tells this reason only in an error's
    text."""
    if isinstance(error, OSError):
        return is_no_room(error)
    return isinstance(error, IndexFailure | IndexDamaged) and "No space left on device" in str(error)
