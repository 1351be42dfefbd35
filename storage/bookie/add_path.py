"""Takes adds through the bookie, on the loop's thread: check, write cache, journal, and `done` when the add is durable.

The mark (`last_mark`, BookKeeper's LastLogMark) is the position in the journal from which a restart replays.

    add ──► refused? ──► write cache ──► journal's queue ═══ fdatasync, on the journal's thread ═══► committed ──► done
                │             │
                │             └ a checkpoint takes the mark on this same thread
                └ no room: the group waits, and begins again at the check

The steps have the order of BookKeeper's Bookie.addEntry. An entry is in the cache before it is in the journal's queue,
and the loop takes the checkpoint's mark and swaps the halves of the cache in one step. Therefore every entry that
stands in the journal before the mark is in the half that this checkpoint writes, or was written by an earlier
checkpoint. The mark can never pass an entry that the entry logs lack. A ledger's key record goes ahead of its first
entries in the same batch, so replay always finds the key of an entry's ledger.

All adds of one turn of the event loop go to the journal together (`journal_feed`).

While both halves of the cache are full, or the journal's queue is full, groups wait in the order in which they came. A
group that has waited for `dbStorage_maxThrottleTimeMs` fails with ETOOMANYREQUESTS. When adds of `waiting_adds_max_mb`
are waiting, further groups fail with that code at once.
"""

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from magnetar.storage.bookie.add_check_rules import is_well_formed
from magnetar.storage.bookie.bookie_config import BookieConfig
from magnetar.storage.bookie.bookie_latencies import Latencies
from magnetar.storage.bookie.checkpoint import Checkpointer
from magnetar.storage.bookie.disks import BookieMode
from magnetar.storage.bookie.journal import Committed, Journal
from magnetar.storage.bookie.journal_feed import AddDone, AwaitedAdd, JournalFeed
from magnetar.storage.bookie.journal_format import JournalPosition, explicit_lac_record, fence_record, ledger_key_record
from magnetar.storage.bookie.ledger_state import (
    EXPLICIT_LAC_BYTES_MAX,
    EXPLICIT_LAC_BYTES_MIN,
    MASTER_KEY_SIZE_MAX,
    BookieLedgerState,
    LedgerStates,
    explicit_lac_of,
)
from magnetar.storage.bookie.read_ahead import ReadAheadCache
from magnetar.storage.bookie.write_cache import WriteCache
from pulsar_proto.wire.bookie_wire import AddFlags, BookieError, BookieRc

log = logging.getLogger(__name__)

WRITABLE: Final = BookieMode.WRITABLE  # Python looks up a member of an Enum ten times slower than a name of the module.

DELETED_FENCED_MAX = 100_000
"""The bookie remembers this many ledgers that were fenced and then deleted, and refuses their late writers. Beyond this
number it forgets the ledger that was deleted first. Apache's bookie remembers such ledgers for 7 days."""


class WaitingAdds(NamedTuple):
    """A group of adds that waits for room in the cache or in the journal's queue."""

    deadline: float
    size: int
    ledger_id: int
    master_key: bytes
    entry_ids: Sequence[int]
    entries: list[bytes]
    lengths: list[int]
    flags: int
    done: AddDone


class AddPath:
    """Takes adds, fences and explicit LACs. `Bookie` sets `mode`, and calls `start` before anything else."""

    def __init__(
        self, config: BookieConfig, states: LedgerStates, cache: WriteCache, read_ahead: ReadAheadCache
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._states = states
        self._cache = cache
        self._read_ahead = read_ahead
        self._queue_bytes = config.journal_queue_bytes
        self._waiting_bytes_max = config.waiting_adds_bytes
        self._throttle_seconds = config.db_storage_max_throttle_time_ms / 1000
        self._batch_bytes = config.journal_batch_bytes
        self._feeds: list[JournalFeed] = []
        self._checkpointer: Checkpointer
        self.mode = BookieMode.WRITABLE
        self.takes_high_priority = False
        """Whether a read-only bookie still takes the adds of ledger recovery, because its disk has some room left."""
        self.has_refused_recovery = False
        """Whether such an add was refused since the disks were measured."""
        self.positions: list[JournalPosition] = []
        """For each journal, the position after its last durable batch that the loop knows of."""
        self.pending_bytes = 0
        """Bytes of entries that the journals' queues hold, and that are not durable yet."""
        self._waiting: deque[WaitingAdds] = deque()
        self.waiting_bytes = 0
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._fences: dict[int, asyncio.Future[None]] = {}
        self._deleted_fenced: OrderedDict[int, None] = OrderedDict()
        self.on_journal_failure: Callable[[OSError, bool], None] = lambda error, fatal: None
        self.added_entries = 0
        self.added_bytes = 0
        self.rejected_groups = 0
        self.latencies = Latencies()
        """By the time from the arrival in the journal's queue to the answer, the turn of the event loop included."""

    def start(self, journals: Sequence[Journal], checkpointer: Checkpointer) -> None:
        self._feeds = [JournalFeed(journal, self._batch_bytes) for journal in journals]
        self._checkpointer = checkpointer

    def add(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: Sequence[bytes],
        flags: int,
        done: AddDone,
    ) -> None:
        """Adds a group (BookieChannel.add_entries), and calls `done` once the group is durable or refused."""
        state = self._states.get(ledger_id)
        rc: BookieRc | None = None
        # The usual add skips `_refusal`: the ledger is known and not fenced, the key is right, the bookie is writable.
        if state is None or state.fenced or state.master_key != master_key or self.mode is not WRITABLE:
            rc = self._refusal(ledger_id, state, master_key, flags)
        lengths = list(map(len, entries))
        if rc is None and not is_well_formed(ledger_id, entry_ids, entries, lengths):
            rc = BookieRc.EBADREQ
        if rc is not None:
            self._reject(done, entry_ids, rc)
            return
        size = sum(lengths)
        group = entries if type(entries) is list else list(entries)
        if self._waiting or not self._has_room(size):
            self._wait(ledger_id, master_key, entry_ids, group, lengths, size, flags, done)
        else:
            self._store(ledger_id, state, master_key, entry_ids, group, lengths, size, done)

    def _reject(self, done: AddDone, entry_ids: Sequence[int], rc: BookieRc) -> None:
        self.rejected_groups += 1
        self.latencies.add(0.0, len(entry_ids), ok=False)
        self._loop.call_soon(done, entry_ids, int(rc))

    def _refusal(
        self, ledger_id: int, state: BookieLedgerState | None, master_key: bytes, flags: int
    ) -> BookieRc | None:
        """Returns why an add is refused, or None. The order of the checks is that of BookKeeper's bookie
        (WriteEntryProcessor, then BookieImpl.addEntry): read-only, deleted, key, fenced."""
        if self.mode is not BookieMode.WRITABLE:
            if self.mode is not BookieMode.READ_ONLY:
                return BookieRc.EIO
            if not (flags & AddFlags.HIGH_PRIORITY and self.takes_high_priority):
                self.has_refused_recovery |= bool(flags & AddFlags.HIGH_PRIORITY)
                return BookieRc.EREADONLY
        if state is None:
            if ledger_id in self._deleted_fenced and not flags & AddFlags.RECOVERY_ADD:
                return BookieRc.EFENCED
            return BookieRc.EBADREQ if ledger_id < 0 or len(master_key) > MASTER_KEY_SIZE_MAX else None
        if state.master_key is None and flags & AddFlags.RECOVERY_ADD and 0 < len(master_key) <= MASTER_KEY_SIZE_MAX:
            self._states.learn_key(state, master_key)
        elif state.master_key is not None and state.master_key != master_key:
            return BookieRc.EUA
        if state.fenced and not flags & AddFlags.RECOVERY_ADD:
            return BookieRc.EFENCED
        return None

    def _has_room(self, size: int) -> bool:
        """Returns whether a group may be stored now. A full half of the cache starts a checkpoint, which makes room at
        once by swapping the halves, unless an earlier checkpoint is still under way."""
        if self.pending_bytes and self.pending_bytes + size > self._queue_bytes:
            return False
        return self._cache.has_room(size) or self._checkpointer.start()

    def _store(
        self,
        ledger_id: int,
        state: BookieLedgerState | None,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: list[bytes],
        lengths: list[int],
        size: int,
        done: AddDone,
    ) -> None:
        if state is None:
            state = self._states.create(ledger_id, master_key)
            # A recovering client may bring back a copy that this bookie gave up. A ledger that was fenced before stays
            # fenced, so that its old writer is still refused.
            state.fenced = ledger_id in self._deleted_fenced
        self._cache.active.put(ledger_id, entry_ids, entries, size)
        if ledger_id in self._read_ahead:
            self._read_ahead.replaced(ledger_id, min(entry_ids), max(entry_ids))
        self.pending_bytes += size
        feed = self._feeds[ledger_id % len(self._feeds)]
        if state.key_durable:
            feed.add(entries, lengths, size, (), (entry_ids, done, None))
        else:
            controls: tuple[bytes, ...] = (ledger_key_record(ledger_id, master_key),)
            if state.fenced and not state.fence_durable:
                controls += (fence_record(ledger_id),)
            feed.add(entries, lengths, size, controls, (entry_ids, done, state))
        self._checkpointer.touch()

    def committed(self, journal: int, result: Committed) -> None:
        """Answers all groups of one batch of a journal; the batch is durable or has failed. `journal` is the journal's
        index in the configuration."""
        self.positions[journal] = result.position
        self._answer(result, BookieRc.EOK if result.error is None else BookieRc.EIO)
        if result.error is not None:
            self.on_journal_failure(result.error, result.fatal)
        self.latencies.add_batch(result.submitted, time.monotonic(), ok=result.error is None)
        if self._waiting:
            self.admit_waiting()

    def _answer(self, result: Committed, rc: BookieRc) -> None:
        code = int(rc)
        for _, lengths, size, _, group in result.groups:
            self.pending_bytes -= size
            if not code:
                self.added_entries += len(lengths)
                self.added_bytes += size
            adds: list[AwaitedAdd] = group
            for entry_ids, done, state in adds:
                if state is not None and not code:
                    state.key_durable = True
                try:
                    done(entry_ids, code)
                except Exception:
                    log.exception("the callback of an add failed")

    def _wait(
        self,
        ledger_id: int,
        master_key: bytes,
        entry_ids: Sequence[int],
        entries: list[bytes],
        lengths: list[int],
        size: int,
        flags: int,
        done: AddDone,
    ) -> None:
        if self._waiting and self.waiting_bytes + size > self._waiting_bytes_max:
            self._reject(done, entry_ids, BookieRc.ETOOMANYREQUESTS)
            return
        deadline = self._loop.time() + self._throttle_seconds
        self._waiting.append(
            WaitingAdds(deadline, size, ledger_id, master_key, entry_ids, entries, lengths, flags, done)
        )
        self.waiting_bytes += size
        if self._deadline_timer is None:
            self._deadline_timer = self._loop.call_at(deadline, self._deadline_over)

    def admit_waiting(self) -> None:
        """Stores the waiting groups for which there is room now. The bookie calls this when there may be room again or
        its mode changed. Each group is checked again, because its ledger may have been fenced meanwhile."""
        while self._waiting:
            group = self._waiting[0]
            state = self._states.get(group.ledger_id)
            rc = self._refusal(group.ledger_id, state, group.master_key, group.flags)
            if rc is None and not self._has_room(group.size):
                return
            self._waiting.popleft()
            self.waiting_bytes -= group.size
            if rc is not None:
                self._reject(group.done, group.entry_ids, rc)
            else:
                self._store(
                    group.ledger_id,
                    state,
                    group.master_key,
                    group.entry_ids,
                    group.entries,
                    group.lengths,
                    group.size,
                    group.done,
                )

    def _deadline_over(self) -> None:
        self._deadline_timer = None
        now = self._loop.time()
        while self._waiting and self._waiting[0].deadline <= now:
            group = self._waiting.popleft()
            self.waiting_bytes -= group.size
            self._reject(group.done, group.entry_ids, BookieRc.ETOOMANYREQUESTS)
        if self._waiting:
            self._deadline_timer = self._loop.call_at(self._waiting[0].deadline, self._deadline_over)

    @property
    def groups_waiting(self) -> int:
        """How many groups wait for room."""
        return len(self._waiting)

    async def fence(self, ledger_id: int, master_key: bytes) -> None:
        """Fences the ledger, and returns when the fence is durable. An unknown ledger is created. From the call on, all
        adds but those of recovery fail.

        Raises BookieError: EUA for a missing or wrong key, EBADREQ for a negative id or a key that is too long, EIO for
        a failed or closed bookie, and EIO when the record could not be written (the next request tries again).
        """
        state = self._state_for_record(ledger_id, master_key)
        if state.fenced and state.fence_durable:
            return
        future = self._fences.get(ledger_id)
        if future is None:
            future = self._begin_fence(state)
        await asyncio.shield(future)

    def _begin_fence(self, state: BookieLedgerState) -> asyncio.Future[None]:
        future = self._loop.create_future()
        ledger_id = state.ledger_id

        def done(_: Sequence[int], rc: int) -> None:
            del self._fences[ledger_id]
            if rc == BookieRc.EOK:
                state.fence_durable = True
                log.info("ledger %d is fenced", ledger_id)
                future.set_result(None)
            else:
                future.set_exception(BookieError(BookieRc(rc), f"the fence of ledger {ledger_id} is not durable"))
                future.exception()  # asyncio logs an exception that nobody reads

        state.fenced = True
        self._states.changed.add(ledger_id)
        self._fences[ledger_id] = future
        self._write_record(state, fence_record(ledger_id), done)
        return future

    async def write_explicit_lac(self, ledger_id: int, master_key: bytes, packet: bytes) -> None:
        """Stores an explicit LAC (WireBookie.write_explicit_lac). Returns at once if the durable LAC is higher."""
        if not EXPLICIT_LAC_BYTES_MIN <= len(packet) <= EXPLICIT_LAC_BYTES_MAX:
            raise BookieError(BookieRc.EBADREQ, f"an explicit LAC of {len(packet)} bytes")
        if self.mode is BookieMode.READ_ONLY:
            raise BookieError(BookieRc.EREADONLY)
        if ledger_id in self._deleted_fenced and ledger_id not in self._states:
            raise BookieError(BookieRc.EFENCED, f"ledger {ledger_id} was deleted")
        state = self._state_for_record(ledger_id, master_key)
        known = state.explicit_lac
        if known is not None and explicit_lac_of(packet) < explicit_lac_of(known):
            return
        durable: asyncio.Future[int] = self._loop.create_future()

        def done(_: Sequence[int], rc: int) -> None:
            if rc == BookieRc.EOK and state.raise_explicit_lac(packet) and self._states.get(ledger_id) is state:
                self._states.changed.add(ledger_id)
            if not durable.done():
                durable.set_result(rc)

        self._write_record(state, explicit_lac_record(ledger_id, packet), done)
        if (rc := await durable) != BookieRc.EOK:
            raise BookieError(BookieRc(rc), f"the explicit LAC of ledger {ledger_id} is not durable")

    def _state_for_record(self, ledger_id: int, master_key: bytes) -> BookieLedgerState:
        """Returns the state of the ledger that a fence or an explicit LAC names. Creates the state of an unknown
        ledger. Raises BookieError: EUA for a missing or wrong key, EBADREQ, EIO."""
        state = self._states.get(ledger_id)
        known = state.master_key if state is not None else None
        if not master_key or (known is not None and known != master_key):
            raise BookieError(BookieRc.EUA, f"wrong master key for ledger {ledger_id}")
        if ledger_id < 0 or len(master_key) > MASTER_KEY_SIZE_MAX:
            raise BookieError(BookieRc.EBADREQ, f"ledger {ledger_id}, key of {len(master_key)} bytes")
        if self.mode in (BookieMode.FAILED, BookieMode.CLOSED):
            raise BookieError(BookieRc.EIO, f"bookie is {self.mode.value}")
        if state is None:
            return self._states.create(ledger_id, master_key)
        if known is None:
            self._states.learn_key(state, master_key)
            self._checkpointer.touch()
        return state

    def _write_record(self, state: BookieLedgerState, record: bytes, done: AddDone) -> None:
        """Writes a control record of a ledger to its journal; `done((), rc)` is called when it is durable or failed."""
        assert state.master_key is not None, state.ledger_id
        controls = (record,) if state.key_durable else (ledger_key_record(state.ledger_id, state.master_key), record)
        feed = self._feeds[state.ledger_id % len(self._feeds)]
        feed.add([], [], 0, controls, ((), done, state))
        self._checkpointer.touch()

    def ledger_deleted(self, ledger_id: int) -> None:
        """Forgets a deleted ledger. If it was fenced, its id is remembered, so that late writers are refused."""
        state = self._states.remove(ledger_id)
        if state is not None and state.fenced:
            self._deleted_fenced[ledger_id] = None
            while len(self._deleted_fenced) > DELETED_FENCED_MAX:
                self._deleted_fenced.popitem(last=False)

    def close(self) -> None:
        """Refuses the waiting groups, and gives the journals all that were accepted. The caller has set the mode to
        CLOSED before."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self.admit_waiting()
        for feed in self._feeds:
            feed.submit()
