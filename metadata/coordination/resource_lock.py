"""One lock of this process, from the moment when a caller wants the lock until the lock is released or lost.

Operations of one lock run one after the other. A watch of the record reports what other sessions do. Each event that
puts the lock in doubt leads to a check, which reads the record, and makes the record again if it is gone. While the
store cannot be reached, the holder goes on as if it held the lock (ResourceLockImpl.silentRevalidateOnce): the data is
protected by the fencing of ledgers, not by locks.
"""

import asyncio
import logging
from collections.abc import Callable

from magnetar.metadata.coordination.lock_errors import LockBusyError, LockNotHeldError
from magnetar.metadata.coordination.lock_rules import (
    MOVES,
    RETRY_FIRST_SECONDS,
    RETRY_SECONDS_MAX,
    LockState,
    SameValue,
    casts_doubt,
    may_delete,
    must_check,
)
from magnetar.metadata.coordination.own_record import create_own, delete_found, take_record
from magnetar.metadata.errors import BadVersionError, MetadataError, NoNodeError, OutcomeUnknownError, StoreClosedError
from magnetar.metadata.store import CancelWatch, MetadataStore, RecordEvent, SessionEvent, Stat
from pulsar_proto.backoff import backoff

log = logging.getLogger(__name__)

LostCallback = Callable[[], None]


class ResourceLock:
    """A lock that `LockManager.acquire` returned. All calls are made on the loop's thread."""

    def __init__(
        self, store: MetadataStore, path: str, value: bytes, is_same: SameValue, on_end: Callable[[], None]
    ) -> None:
        """`on_end` is called once, when the lock is lost or released."""
        self._store = store
        self.path = path
        self.value = value
        """The value that this process last wrote to the record."""
        self._is_same = is_same
        self._on_end = on_end
        self.state = LockState.ACQUIRING
        self._version = 0
        self._turn = asyncio.Lock()
        self._doubted = False
        """Whether an event has put the lock in doubt, so that the record has to be read."""
        self._failures = 0
        """How many checks in a row failed because the store failed."""
        self._checking: asyncio.Task[None] | None = None
        self._cut_short = asyncio.Event()
        """Ends the pause before the next check."""
        self._lost_callbacks: dict[object, LostCallback] = {}
        self._cancel_watch: CancelWatch | None = None

    @property
    def is_held(self) -> bool:
        """Whether this process may act as the holder, as far as it knows now."""
        return self.state is LockState.HELD

    def on_lost(self, callback: LostCallback) -> CancelWatch:
        """Calls `callback` once, on the loop, when another process has got the lock; at once if the lock is lost
        already. A release does not call `callback`. Returns the function that removes the callback."""
        if self.state is LockState.LOST:
            callback()
            return lambda: None
        key = object()
        self._lost_callbacks[key] = callback

        def cancel() -> None:
            self._lost_callbacks.pop(key, None)

        return cancel

    async def update(self, value: bytes) -> None:
        """Changes the record's value. Raises LockNotHeldError when the lock was lost or released before, LockBusyError
        when the lock turns out to be lost, and MetadataError when the store fails; it is then unknown whether the value
        was written."""
        async with self._turn:
            self._require_held()
            try:
                stat = await self._store.put(self.path, value, self._version)
            except (BadVersionError, NoNodeError, OutcomeUnknownError):
                await self._take(value)
                return
            if stat.owner != self._store.session_id:
                # The session ended meanwhile, and the record that somebody else made has the same version by chance.
                # The owner of that record hears of the change, and writes its own value again.
                if self.is_held:
                    self._end(LockState.LOST)
                raise LockBusyError(self.path)
            self._took(value, stat)

    async def release(self) -> None:
        """Deletes the record. Has no effect when the lock was lost or released before.

        From the call on, the lock is not held. Raises MetadataError when the store fails; the record is then deleted as
        soon as the store answers.
        """
        if self.state is LockState.HELD:
            self._become(LockState.RELEASING)
        if self.state is LockState.RELEASING:
            async with self._turn:
                if self.state is LockState.RELEASING:
                    try:
                        await self._delete()
                    except StoreClosedError:
                        self._end(LockState.RELEASED)  # the session is over, and the record with it
                    except BaseException:
                        self._doubt()
                        raise

    # The methods that LockManager calls

    async def acquire(self) -> None:
        """Takes the lock. Raises LockBusyError when another process holds the lock, and MetadataError when the store
        fails. A record that was created although the store failed is deleted as soon as the store answers."""
        async with self._turn:
            try:
                self._cancel_watch = self._store.watch(self.path, self._heard)
                stat = await create_own(self._store, self.path, self.value)
                if stat is None or stat.owner != self._store.session_id:
                    stat = await take_record(self._store, self.path, self.value, self._is_same)
            except LockBusyError:
                self._end(LockState.LOST)
                raise
            except BaseException:
                self._become(LockState.RELEASING)  # the record may have been created although the call failed
                self._doubt()
                raise
            self._become(LockState.HELD)
            self._took(self.value, stat)
        if self._doubted:
            self._doubt()

    async def acquired(self) -> bool:
        """Waits for another caller's `acquire`; returns whether the lock is held."""
        async with self._turn:
            return self.is_held

    def session_changed(self, event: SessionEvent) -> None:
        if must_check(event, has_failed=self._failures > 0):
            self._failures = 0
            self._doubt()

    async def abandon(self) -> None:
        """Ends the lock and leaves its record to be removed with the session."""
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        if self.is_held:
            self._become(LockState.RELEASING)
        if self.state is LockState.RELEASING:
            self._end(LockState.RELEASED)

    # Checks

    def _heard(self, event: RecordEvent) -> None:
        if casts_doubt(event.type):
            self._doubt()

    def _doubt(self) -> None:
        """Has the record read soon. When `acquire` is under way, the record is read after `acquire` is done."""
        if self.state in (LockState.LOST, LockState.RELEASED):
            return
        self._doubted = True
        self._cut_short.set()
        if self._checking is None and self.state is not LockState.ACQUIRING:
            self._checking = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        try:
            while self._doubted:
                self._cut_short.clear()
                try:
                    async with self._turn:
                        self._doubted = False
                        await self._check_now()
                    self._failures = 0
                except StoreClosedError:
                    return
                except LockBusyError:
                    pass  # the lock is lost, and the callbacks were called
                except MetadataError as error:
                    await self._pause(error)
        finally:
            self._checking = None

    async def _check_now(self) -> None:
        if self.state is LockState.HELD:
            await self._take(self.value)
        elif self.state is LockState.RELEASING:
            await self._delete()

    async def _pause(self, error: MetadataError) -> None:
        if self.state not in (LockState.HELD, LockState.RELEASING):
            return
        self._doubted = True
        self._failures += 1
        seconds = backoff(self._failures, RETRY_FIRST_SECONDS, RETRY_SECONDS_MAX)
        log.warning("the lock %s could not be checked, again in %.1f s at most: %s", self.path, seconds, error)
        try:
            async with asyncio.timeout(seconds):
                await self._cut_short.wait()
        except TimeoutError:
            pass

    async def _take(self, value: bytes) -> None:
        """Makes sure that the record belongs to the present session and has this value. Raises LockBusyError when the
        lock is lost."""
        try:
            stat = await take_record(self._store, self.path, value, self._is_same)
        except LockBusyError:
            if self.state is LockState.HELD:
                log.info("the lock %s is lost: somebody else holds it", self.path)
                self._end(LockState.LOST)
            raise
        self._took(value, stat)

    async def _delete(self) -> None:
        found = await self._store.get(self.path)
        while found is not None and may_delete(found, self._store.session_id):
            if await delete_found(self._store, self.path, found):
                break
            found = await self._store.get(self.path)
        self._end(LockState.RELEASED)

    # State

    def _took(self, value: bytes, stat: Stat) -> None:
        self.value = value
        self._version = stat.version

    def _require_held(self) -> None:
        if self.state is not LockState.HELD:
            raise LockNotHeldError(self.path, self.state.value)

    def _become(self, state: LockState) -> None:
        assert state in MOVES[self.state], f"{self.path}: {self.state.value} cannot become {state.value}"
        self.state = state

    def _end(self, state: LockState) -> None:
        self._become(state)
        self._doubted = False
        if self._cancel_watch is not None:
            self._cancel_watch()
        self._on_end()
        callbacks, self._lost_callbacks = list(self._lost_callbacks.values()), {}
        if state is LockState.LOST:
            for callback in callbacks:
                try:
                    callback()
                except Exception:
                    log.exception("%s: a callback failed on the loss of the lock", self.path)
