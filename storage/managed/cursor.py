"""A subscription's place in a managed ledger: what it acknowledged, and when that becomes durable.

Acknowledging is synchronous and only changes memory. A durable cursor is stored in the background: at once while the
rate limit allows, otherwise by the factory's tick when nothing changed for `QUIET_FLUSH_SECONDS`; at once, too, when
somebody waits (`persisted`), and on close. One store operation at a time; changes that come meanwhile are stored
together by the next one.

Source: ManagedCursorImpl; facts 6.3. Beyond Apache: acknowledgements of single batch indexes are stored like others,
and what was changed last does not wait for a minute (facts 14, 11.7).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from pyroaring import BitMap

from magnetar.storage.managed import ack_holes
from magnetar.storage.managed.ack_state import AckRange, AckState
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.cursor_store import CursorStore
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.managed_ledger_errors import CursorFault, ManagedLedgerError
from magnetar.storage.managed.persist_waiters import PersistDone, PersistWaiters, outcome_of
from magnetar.storage.managed.rate_limit import RateLimit
from pulsar_proto.ids import EARLIEST, LATEST, Position

logger = logging.getLogger(__name__)

QUIET_FLUSH_SECONDS = 0.5
"""Changes are stored when none followed for so long; with the tick's period this stays within a second."""

RETRY_SECONDS = 1.0
"""After a failure, the next try of the background (a waiter tries at once)."""

IN_DOUBT = -1
"""No revision: what is stored is not known to be what memory holds."""

REPLICATED = "pulsar.replicated.subscription"
"""The position property that says that the subscription's state is replicated; it outlives a reset."""

REST_TIMES = 4
"""A large state takes a while to store: so many times as long it is not stored again while it goes on changing."""


class Cursor:
    """`properties` are the subscription's own; `position_properties` were given with the last mark-delete (snapshots of
    deduplication, the compacted ledger). All calls on the loop's thread.

    `on_dirty(cursor)`: there is something for the tick. `on_crossed()`: the mark-delete went to another ledger.
    `on_fenced(error)`: the cursor's node belongs to somebody else. `trim_ended()` returns when no trim is under way or
    in doubt: it is awaited before the cursor is moved back.
    """

    def __init__(
        self,
        name: str,
        ledgers: LedgerList,
        acks: AckState,
        store: CursorStore | None,
        *,
        rate_limit: float,
        clocks: Clocks,
        on_dirty: Callable[["Cursor"], None],
        on_crossed: Callable[[], None],
        on_fenced: Callable[[ManagedLedgerError], None],
        trim_ended: Callable[[], Awaitable[None]],
        position_properties: Mapping[str, int] | None = None,
    ) -> None:
        self.name = name
        self._properties = dict(position_properties or {})
        """Always the same dictionary: the store reads it together with `_acks` when it comes to write."""
        self._ledgers = ledgers
        self._acks = acks
        self._store = store
        self._limit = RateLimit(rate_limit)
        self._clocks = clocks
        self._on_dirty = on_dirty
        self._on_crossed = on_crossed
        self._on_fenced = on_fenced
        self._trim_ended = trim_ended
        self._stored_revision = acks.revision
        self._changed_s = 0.0
        self._retry_at_s = 0.0
        self._flushing: asyncio.Task[None] | None = None
        self._moving: AckState | None = None
        self._waiters = PersistWaiters(name)
        self._closed = False
        self.last_active_ms = clocks.wall_ms() if store is None else store.last_active_ms
        """When it was used last (ManagedCursorImpl.getLastActive)."""

    # ---- questions

    @property
    def durable(self) -> bool:
        return self._store is not None

    @property
    def properties(self) -> Mapping[str, str]:
        return {} if self._store is None else self._store.cursor_properties

    @property
    def position_properties(self) -> Mapping[str, int]:
        return self._properties

    @property
    def mark_delete(self) -> Position:
        return self._acks.mark_delete

    @property
    def needed_from(self) -> Position:
        """The log must stay from here on: the mark-delete, or where a reset that is being stored leads."""
        mark_delete = self._acks.mark_delete
        return mark_delete if self._moving is None else min(mark_delete, self._moving.mark_delete)

    @property
    def ledger_id(self) -> int:
        """The cursor ledger, -1 without one."""
        return -1 if self._store is None else self._store.ledger_id

    @property
    def ledger_switched_ms(self) -> int:
        """When the cursor went to its ledger, or was opened."""
        return self.last_active_ms if self._store is None else self._store.ledger_switched_ms

    @property
    def backlog(self) -> int:
        """Entries not acknowledged, from positions and ledger lengths."""
        return self._ledgers.entries_between(self._acks.mark_delete, LATEST) - self._acks.acked_beyond

    @property
    def backlog_size(self) -> int:
        """Estimated payload bytes after the mark-delete."""
        return self._ledgers.size_after(self._acks.mark_delete)

    @property
    def number_of_holes(self) -> int:
        """Acknowledged ranges beyond the mark-delete."""
        return self._acks.number_of_ranges

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes that are not stored."""
        return self._store is not None and self._acks.revision != self._stored_revision

    def holes(self, at_most: int) -> list[AckRange]:
        """The first acknowledged ranges beyond the mark-delete, for stats."""
        return list(islice(self._acks.ranges(), at_most))

    def unacked_ranges(self, at_most: int) -> list[AckRange]:
        """The first ranges that are not acknowledged although later entries are, for stats."""
        return ack_holes.first_ranges(self._acks, self._ledgers, at_most)

    def holes_before(self, position: Position) -> Iterator[tuple[int, BitMap]]:
        """(ledger, entries) that are not acknowledged although later ones are, as far as they are before `position`."""
        return ack_holes.holes(self._acks, self._ledgers, position)

    @property
    def entries_in_holes(self) -> int:
        """Not acknowledged, but later ones are."""
        last = ack_holes.last_acked(self._acks)
        if last is None:
            return 0
        return self._ledgers.entries_between(self._acks.mark_delete, last) - self._acks.acked_beyond

    @property
    def resets(self) -> int:
        """How often it was moved, back or forth."""
        return self._acks.resets

    def is_acked(self, ledger_id: int, entry_id: int) -> bool:
        return self._acks.is_acked(ledger_id, entry_id)

    def next_unacked(self, position: Position) -> Position:
        """The first entry at or after `position` that is not acknowledged; may be beyond the last entry."""
        return self._acks.next_unacked(position)

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]:
        """The parts of these entries that are not acknowledged, as (first entry id, count)."""
        return self._acks.unacked_runs(ledger_id, first, count)

    def unacked_among(self, ledger_id: int, entries: BitMap) -> int:
        """How many of `entries` are not acknowledged."""
        return self._acks.unacked_among(ledger_id, entries)

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None:
        """Words for MESSAGE.ack_set, None when no index of the entry is acknowledged."""
        return self._acks.ack_set_of(ledger_id, entry_id)

    # ---- changes

    def ack(self, positions: Iterable[tuple[int, int, Sequence[int] | None]]) -> int:
        """Individual acknowledgements, ack sets as on the wire. Returns how many entries became acknowledged whole."""
        acks = self._acks
        revision, ledger_id = acks.revision, acks.mark_delete.ledger_id
        count = acks.ack(positions)
        if acks.revision != revision:
            self._changed(ledger_id)
        return count

    def ack_cumulative(
        self,
        ledger_id: int,
        entry_id: int,
        ack_set: Sequence[int] | None = None,
        properties: Mapping[str, int] | None = None,
    ) -> bool:
        """Everything up to and including the entry (of it, the indexes that the ack set says). `properties` replace
        `position_properties`. False when it is nothing new or no such entry exists."""
        before = self._acks.mark_delete.ledger_id
        if not self._acks.ack_cumulative(ledger_id, entry_id, ack_set):
            return False
        if properties is not None:
            self._put(properties)
        self._changed(before)
        return True

    async def reset(self, position: Position, ack_set: Sequence[int] | None = None) -> None:
        """Back or forth: the next entry is the first one at or after `position` (EARLIEST, LATEST included), with an
        ack set only the indexes that it names. Returns when that is durable. Raises ManagedLedgerError; then nothing
        has moved."""
        await self._flush_ended()
        if self._closed:
            raise CursorFault(self.name, "the cursor is closed")
        self._flushing = asyncio.get_running_loop().create_task(self._move(position, ack_set))
        await asyncio.shield(self._flushing)

    async def _move(self, position: Position, ack_set: Sequence[int] | None) -> None:
        """Stores the new place before anybody sees it."""
        try:
            await self._trim_ended()
            moved = self._moving = AckState(self._ledgers, EARLIEST)
            moved.reset(self._ledgers.start_of(position), ack_set)
            properties = {key: kept for key, kept in self._properties.items() if key == REPLICATED}
            self.touch(self._clocks.wall_ms())
            if self._store is not None:
                await self._store.persist(moved, properties)
        except Exception as error:
            # An answer may be lost after the new place was stored: the old one is stored again.
            self._stored_revision = IN_DOUBT
            self._on_dirty(self)
            if isinstance(error, ManagedLedgerError) and not error.retriable:
                self._on_fenced(error)
            raise
        else:
            self._put(properties)
            self._become(moved)
        finally:
            self._moving = self._flushing = None
            if self._waiters and not self._closed:
                self._start_flush()

    def _become(self, moved: AckState) -> None:
        """What was acknowledged or trimmed while it was stored is no part of `moved`."""
        before = self._acks
        moved.resets = before.resets + 1
        moved.revision = before.revision + 1
        self._acks, self._stored_revision = moved, moved.revision
        self.forget_before(self._ledgers.first_position.ledger_id)
        if moved.mark_delete.ledger_id != before.mark_delete.ledger_id:
            self._on_crossed()
        self._release(None)

    def forget_before(self, ledger_id: int) -> None:
        """Ledgers before `ledger_id` were deleted."""
        before, revision = self._acks.mark_delete.ledger_id, self._acks.revision
        self._acks.forget_before(ledger_id)
        if self._acks.revision != revision:
            self._changed(before)

    def put_position_property(self, name: str, value: int | None) -> None:
        """One of `position_properties`, None takes it away. Stored like an acknowledgement."""
        if self._properties.get(name) != value:
            others = {key: kept for key, kept in self._properties.items() if key != name}
            self._put(others if value is None else {**others, name: value})
            self._acks.revision += 1
            self._changed(self._acks.mark_delete.ledger_id)

    def _put(self, properties: Mapping[str, int]) -> None:
        self._properties.clear()
        self._properties.update(properties)

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        """Replaces the subscription's properties, durably. Raises CursorFault."""
        if self._store is not None:
            await self._store.set_cursor_properties(self._acks, self._properties, properties)

    def touch(self, now_ms: int) -> None:
        """It is in use. Stored with the next change of the node."""
        self.last_active_ms = now_ms
        if self._store is not None:
            self._store.last_active_ms = now_ms

    def _changed(self, ledger_before: int) -> None:
        if self._acks.mark_delete.ledger_id != ledger_before:
            self._on_crossed()
        if self._store is None or self._closed:
            return
        self._changed_s = now_s = self._clocks.monotonic_s()
        self.touch(self._clocks.wall_ms())
        self._on_dirty(self)
        if self._flushing is None and now_s >= self._retry_at_s and self._limit.take(now_s):
            self._start_flush()

    # ---- storing

    async def persisted(self) -> None:
        """Returns when everything acknowledged so far is durable. Raises CursorFault, ManagedLedgerFenced."""
        await outcome_of(self.when_persisted)

    def when_persisted(self, callback: PersistDone) -> None:
        """`persisted` without a coroutine: calls back once, maybe at once, with None or the error."""
        if not self.is_dirty:
            callback(None)
        elif self._closed:
            callback(CursorFault(self.name, "the cursor is closed"))
        else:
            self._waiters.add(self._acks.revision, callback)
            if self._flushing is None:
                self._start_flush()

    def flush_if_due(self, now_s: float) -> bool:
        """For the tick, at a time of the monotonic clock. False: nothing is left to store."""
        if not self.is_dirty or self._closed:
            return False
        quiet = now_s - self._changed_s >= QUIET_FLUSH_SECONDS
        if self._flushing is None and now_s >= self._retry_at_s and (quiet or self._limit.take(now_s)):
            self._start_flush()
        return True

    async def close(self) -> None:
        """Stores what is not stored and frees the cursor ledger. Raises CursorFault when that failed; the cursor is
        closed all the same. Idempotent."""
        if self._closed or self._store is None:
            return
        self._closed = True
        await self._flush_ended()
        try:
            await self._store.close(self._acks, self._properties, changed=self.is_dirty)
            self._stored_revision = self._acks.revision
        except ManagedLedgerError as error:
            self._release(error)
            raise
        self._release(None)

    def stop(self, error: ManagedLedgerError) -> None:
        """Nothing is stored any more, because somebody else owns what is stored. Waiters get `error`."""
        self._closed = True
        self._release(error)

    async def delete(self) -> None:
        """Deletes what is stored. Raises MetaStoreFault."""
        was_closed, self._closed = self._closed, True
        await self._flush_ended()
        if self._store is not None:
            try:
                await self._store.delete()
            except ManagedLedgerError:
                self._closed = was_closed
                raise
        self._release(CursorFault(self.name, "the cursor was deleted"))

    async def _flush_ended(self) -> None:
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    def _start_flush(self) -> None:
        self._flushing = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        """Stores the current state; again while somebody waits for a later one."""
        assert self._store is not None
        try:
            while True:
                revision, began_s = self._acks.revision, self._clocks.monotonic_s()
                await self._store.persist(self._acks, self._properties)
                self._stored_revision = revision
                now_s = self._clocks.monotonic_s()
                self._limit.rest(now_s + REST_TIMES * (now_s - began_s))
                self._retry_at_s = 0.0
                self._release(None)
                if not self._waiters or self._closed:
                    return
        except ManagedLedgerError as error:
            logger.warning("cursor %s: position %s not stored: %s", self.name, self._acks.mark_delete, error)
            self._retry_at_s = self._clocks.monotonic_s() + RETRY_SECONDS
            self._release(error)
            if not error.retriable:
                self._on_fenced(error)
        except Exception:
            logger.exception("cursor %s: position %s not stored", self.name, self._acks.mark_delete)
            self._retry_at_s = self._clocks.monotonic_s() + RETRY_SECONDS
            self._release(CursorFault(self.name, "internal error, see the log"))
        finally:
            self._flushing = None

    def _release(self, error: ManagedLedgerError | None) -> None:
        self._waiters.release(self._stored_revision, error)
