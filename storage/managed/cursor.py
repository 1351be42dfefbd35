"""A subscription's place in a managed ledger: which entries it has acknowledged, and when that becomes durable.

Acknowledging is synchronous and only changes memory. A durable cursor is stored in the background: at once while the
rate limit allows, otherwise by the factory's tick when nothing changed for `QUIET_FLUSH_SECONDS`; and at once when a
caller waits (`persisted`), and on close. One store operation runs at a time, and the next one stores all changes that
came meanwhile. docs/CURSORS.md describes the stored form.

Source: ManagedCursorImpl. Two things differ from Apache's: acknowledgements of single batch indexes are stored like all
others, and the last changes are stored within a second instead of up to a minute later (docs/CURSORS.md, "When it is
stored").
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.ack_state import AckState
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.cursor_store import CursorStore
from magnetar.storage.managed.cursor_view import CursorView
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.managed_ledger_errors import CursorFault, ManagedLedgerError
from magnetar.storage.managed.part_owner import CursorOwner
from magnetar.storage.managed.persist_waiters import PersistDone, PersistWaiters, outcome_of
from magnetar.storage.managed.rate_limit import RateLimit
from pulsar_proto.ids import EARLIEST, Position

logger = logging.getLogger(__name__)

QUIET_FLUSH_SECONDS = 0.5
"""Changes are stored when no other change has followed for this long. Together with the period of the factory's timer,
a change is stored within a second."""

RETRY_SECONDS = 1.0
"""The time after which a failed store operation is tried again in the background. A caller that waits for the store
causes an attempt at once."""

IN_DOUBT = -1
"""A stored revision that equals no other: it is unknown whether the stored state is the one in memory."""

REPLICATED = "pulsar.replicated.subscription"
"""The position property that marks a subscription whose state is replicated. A reset keeps it."""

REST_TIMES = 4
"""How long the cursor pauses after storing a state, as a multiple of the time that storing took."""


class Cursor(CursorView):
    """One subscription's cursor. `properties` are the subscription's own properties; `position_properties` came with
    the last mark-delete (snapshots of deduplication, the id of the compacted ledger). All calls are on the loop's
    thread.

    `on_dirty(cursor)` is called when there is something for the tick to store. The cursor awaits its owner's
    `trim_ended` before it is moved back.
    """

    __slots__ = (
        "_changed_s",
        "_clocks",
        "_closed",
        "_flushing",
        "_label",
        "_limit",
        "_moving",
        "_on_dirty",
        "_owner",
        "_properties",
        "_retry_at_s",
        "_store",
        "_stored_revision",
        "_waiters",
        "last_active_ms",
        "name",
    )

    def __init__(
        self,
        name: str,
        label: str,
        ledgers: LedgerList,
        acks: AckState,
        store: CursorStore | None,
        *,
        rate_limit: float,
        clocks: Clocks,
        on_dirty: Callable[["Cursor"], None],
        owner: CursorOwner,
        position_properties: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(ledgers, acks)
        self.name = name
        self._label = label
        self._properties = dict(position_properties or {})
        """Always the same dictionary, because the store reads it together with `_acks` at the moment when it writes."""
        self._store = store
        self._limit = RateLimit(rate_limit)
        self._clocks = clocks
        self._on_dirty = on_dirty
        self._owner = owner
        self._stored_revision = acks.revision
        self._changed_s = 0.0
        self._retry_at_s = 0.0
        self._flushing: asyncio.Future[None] | None = None
        """The store operation that is under way; None when there is none."""
        self._moving: AckState | None = None
        self._waiters = PersistWaiters(label)
        self._closed = False
        self.last_active_ms = clocks.wall_ms() if store is None else store.last_active_ms
        """When the cursor was used last (ManagedCursorImpl.getLastActive)."""

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
    def needed_from(self) -> Position:
        """Returns the position from which the log must be kept: the mark-delete, or the target of a reset that is being
        stored, if that is earlier."""
        mark_delete = self._acks.mark_delete
        return mark_delete if self._moving is None else min(mark_delete, self._moving.mark_delete)

    @property
    def ledger_id(self) -> int:
        """The id of the cursor ledger, -1 when there is none."""
        return -1 if self._store is None else self._store.ledger_id

    @property
    def ledger_last_entry(self) -> int:
        """The last confirmed entry of the cursor ledger since the cursor was opened, -1 when there is none."""
        return -1 if self._store is None else self._store.ledger_last_entry

    @property
    def ledger_switched_ms(self) -> int:
        """When the cursor began to use its present ledger, or was opened."""
        return self.last_active_ms if self._store is None else self._store.ledger_switched_ms

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes that are not stored."""
        return self._store is not None and self._acks.revision != self._stored_revision

    # ---- changes

    def ack(self, positions: Iterable[tuple[int, int, Sequence[int] | None]]) -> int:
        """Acknowledges single entries, or the batch indexes that their ack sets clear (PIP-54). Returns how many
        entries became acknowledged as a whole."""
        acks = self._acks
        revision, ledger_id = acks.revision, acks.ledger_id
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
        """Acknowledges the entry and all entries before it. If there is an ack set, only the batch indexes that the set
        clears are acknowledged in the entry itself; the entries before it are still acknowledged as a whole. Returns
        False when everything is acknowledged already or there is no such entry. Otherwise `properties`, if they are
        given, replace `position_properties`."""
        before = self._acks.ledger_id
        if not self._acks.ack_cumulative(ledger_id, entry_id, ack_set):
            return False
        if properties is not None:
            self._put(properties)
        self._changed(before)
        return True

    async def reset(self, position: Position, ack_set: Sequence[int] | None = None) -> None:
        """Moves the cursor back or forth: the next entry is the first one at or after `position`, which may be EARLIEST
        or LATEST. With an ack set, the entry at `position` is delivered without the batch indexes that the set clears.
        Returns when the move is durable. If it raises ManagedLedgerError, nothing has moved."""
        await self._flush_ended()
        if self._closed:
            raise CursorFault(self._label, "the cursor is closed")
        self._flushing = asyncio.get_running_loop().create_task(self._move(position, ack_set))
        await asyncio.shield(self._flushing)

    async def _move(self, position: Position, ack_set: Sequence[int] | None) -> None:
        """Stores the new position before it becomes visible in memory."""
        try:
            await self._owner.trim_ended()
            moved = self._moving = AckState(self._ledgers, EARLIEST)
            moved.reset(self._ledgers.start_of(position), ack_set)
            properties = {key: kept for key, kept in self._properties.items() if key == REPLICATED}
            self.touch(self._clocks.wall_ms())
            if self._store is not None:
                await self._store.persist(moved, properties)
        except Exception as error:
            # The new position may be stored although the answer was lost, so the old one has to be stored again.
            self._stored_revision = IN_DOUBT
            self._on_dirty(self)
            if isinstance(error, ManagedLedgerError) and not error.retriable:
                self._owner.fence(error)
            raise
        else:
            self._put(properties)
            self._become(moved)
        finally:
            self._moving = self._flushing = None
            if self._waiters and not self._closed:
                self._start_flush()

    def _become(self, moved: AckState) -> None:
        """Makes `moved` the current state, once it is stored. If ledgers were deleted while it was being stored,
        forgets their acknowledgements. Drops acknowledgements that came during that time."""
        before = self._acks
        moved.resets = before.resets + 1
        moved.revision = before.revision + 1
        self._acks, self._stored_revision = moved, moved.revision
        self.forget_before(self._ledgers.first_position.ledger_id)
        if moved.mark_delete.ledger_id != before.mark_delete.ledger_id:
            self._owner.request_trim()
        self._release(None)

    def forget_before(self, ledger_id: int) -> None:
        """Called when the ledgers before `ledger_id` were deleted: forgets their acknowledgements, which may move the
        mark-delete (`AckState.forget_before`)."""
        before, revision = self._acks.ledger_id, self._acks.revision
        self._acks.forget_before(ledger_id)
        if self._acks.revision != revision:
            self._changed(before)

    def put_position_property(self, name: str, value: int | None) -> None:
        """Sets one of `position_properties`, or removes the property when `value` is None. The change is stored like an
        acknowledgement."""
        if self._properties.get(name) != value:
            others = {key: kept for key, kept in self._properties.items() if key != name}
            self._put(others if value is None else {**others, name: value})
            self._acks.revision += 1
            self._changed(self._acks.ledger_id)

    def _put(self, properties: Mapping[str, int]) -> None:
        self._properties.clear()
        self._properties.update(properties)

    async def set_properties(self, properties: Mapping[str, str]) -> None:
        """Replaces the subscription's properties durably. Raises CursorFault, ManagedLedgerFenced."""
        if self._store is not None:
            await self._store.set_cursor_properties(self._acks, self._properties, properties)

    def touch(self, now_ms: int) -> None:
        """Notes that the cursor is in use. The time is stored with the next change of the node."""
        self.last_active_ms = now_ms
        if self._store is not None:
            self._store.last_active_ms = now_ms

    def _changed(self, ledger_before: int) -> None:
        if self._acks.ledger_id != ledger_before:
            self._owner.request_trim()
        if self._store is None or self._closed:
            return
        self._changed_s = now_s = self._clocks.monotonic_s()
        self.touch(self._clocks.wall_ms())
        self._on_dirty(self)
        if self._flushing is None and now_s >= self._retry_at_s and self._limit.take(now_s):
            self._start_flush()

    # ---- storing

    async def persisted(self) -> None:
        """Returns when all acknowledgements made so far are durable. Raises CursorFault, ManagedLedgerFenced."""
        await outcome_of(self.when_persisted)

    def when_persisted(self, callback: PersistDone) -> None:
        """Calls `callback` once, perhaps at once: with None when all acknowledgements made so far are durable, or with
        the error. Needs no coroutine, unlike `persisted`."""
        if not self.is_dirty:
            callback(None)
        elif self._closed:
            callback(CursorFault(self._label, "the cursor is closed"))
        else:
            self._waiters.add(self._acks.revision, callback)
            if self._flushing is None:
                self._start_flush()

    def flush_if_due(self, now_s: float) -> bool:
        """Called by the tick with the time of the monotonic clock: stores changes that are due. Returns False when
        nothing is left to store."""
        if not self.is_dirty or self._closed:
            return False
        quiet = now_s - self._changed_s >= QUIET_FLUSH_SECONDS
        if self._flushing is None and now_s >= self._retry_at_s and (quiet or self._limit.take(now_s)):
            self._start_flush()
        return True

    async def close(self) -> None:
        """Stores all changes and frees the cursor ledger. Raises CursorFault or ManagedLedgerFenced when that failed;
        the cursor is closed in any case. Idempotent."""
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
        """Ends storing, because the stored state belongs to another owner now. Waiting callers get `error`."""
        self._closed = True
        self._release(error)

    async def delete(self) -> None:
        """Deletes the stored state. Raises MetaStoreFault."""
        was_closed, self._closed = self._closed, True
        await self._flush_ended()
        if self._store is not None:
            try:
                await self._store.delete()
            except ManagedLedgerError:
                self._closed = was_closed
                raise
        self._release(CursorFault(self._label, "the cursor was deleted"))

    async def _flush_ended(self) -> None:
        while self._flushing is not None:
            await asyncio.wait([self._flushing])

    def _start_flush(self) -> None:
        """Stores the state that the cursor will have at the end of this turn of the event loop."""
        self._flushing = ended = asyncio.get_running_loop().create_future()
        ended.get_loop().call_soon(self._begin_flush, ended)

    def _begin_flush(self, ended: "asyncio.Future[None]") -> None:
        """Stores the current state, by one append or by a task. `ended` is done when the append has ended."""
        assert self._store is not None
        revision, began_s = self._acks.revision, self._clocks.monotonic_s()

        def appended(error: LedgerError | None) -> None:
            self._flushing = None
            if error is not None:
                self._flushing = asyncio.get_running_loop().create_task(self._flush(error))
            else:
                self._stored(revision, began_s)
                if self._waiters and not self._closed and self._flushing is None:
                    self._start_flush()
            ended.set_result(None)

        try:
            begun = self._store.append_now(self._acks, self._properties, appended)
        except Exception:  # `_flush` meets it again, and tells those who wait
            begun = False
        if not begun:
            self._flushing = asyncio.get_running_loop().create_task(self._flush(None))
            ended.set_result(None)

    def _stored(self, revision: int, began_s: float) -> None:
        """Called when the state of that revision is durable. `began_s` is when storing it began."""
        self._stored_revision = revision
        now_s = self._clocks.monotonic_s()
        self._limit.rest(now_s + REST_TIMES * (now_s - began_s))
        self._retry_at_s = 0.0
        self._release(None)

    async def _flush(self, failed: LedgerError | None) -> None:
        """Stores the current state, and repeats that while a caller waits for a later state. `failed` is the error of
        an append that was to store it."""
        assert self._store is not None
        try:
            while True:
                revision, began_s = self._acks.revision, self._clocks.monotonic_s()
                await self._store.persist(self._acks, self._properties, failed)
                self._stored(revision, began_s)
                if not self._waiters or self._closed:
                    return
                failed = None
        except ManagedLedgerError as error:
            logger.warning("%s: position %s not stored: %s", self._label, self._acks.mark_delete, error)
            self._retry_at_s = self._clocks.monotonic_s() + RETRY_SECONDS
            self._release(error)
            if not error.retriable:
                self._owner.fence(error)
        except Exception:
            logger.exception("%s: position %s not stored", self._label, self._acks.mark_delete)
            self._retry_at_s = self._clocks.monotonic_s() + RETRY_SECONDS
            self._release(CursorFault(self._label, "internal error, see the log"))
        finally:
            self._flushing = None

    def _release(self, error: ManagedLedgerError | None) -> None:
        self._waiters.release(self._stored_revision, error)
