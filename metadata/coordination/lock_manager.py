"""The locks that this process holds: ephemeral records, as Apache's brokers make them (LockManagerImpl).

A broker holds one lock for its registration and one lock for each bundle that the broker owns.
"""

import asyncio
import logging

from magnetar.metadata.coordination.lock_rules import LockState, SameValue
from magnetar.metadata.coordination.own_record import same_bytes
from magnetar.metadata.coordination.resource_lock import ResourceLock
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import CancelWatch, MetadataStore, SessionEvent

log = logging.getLogger(__name__)

RELEASED_AT_ONCE = 64
"""How many locks `close` releases in parallel."""

CLOSE_SECONDS_MAX = 5.0
"""How long `close` waits for the store."""


class LockManager:
    """Acquires locks and keeps them for as long as nobody else gets them. All calls are made on the loop's thread."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._locks: dict[str, ResourceLock] = {}
        self._cancel_session: CancelWatch | None = None

    async def acquire(self, path: str, value: bytes, *, is_same: SameValue = same_bytes) -> ResourceLock:
        """Returns the held lock. When this process holds the lock already, returns the existing ResourceLock after
        changing its value.

        `is_same` returns whether a value found in another session's record names this very holder. If so, the holder
        was restarted, and its old record is replaced. Raises LockBusyError when somebody else holds the lock, and
        MetadataError when the store fails.
        """
        if self._cancel_session is None:
            self._cancel_session = self._store.on_session(self._session_changed)
        while True:
            known = self._locks.get(path)
            if known is None:
                break
            if known.state is LockState.RELEASING:
                await known.release()
            elif await known.acquired():
                if known.value != value:
                    await known.update(value)
                return known
        lock = ResourceLock(self._store, path, value, is_same, lambda: self._ended(path))
        self._locks[path] = lock
        await lock.acquire()
        return lock

    def held(self, path: str) -> ResourceLock | None:
        """Returns the lock if this process holds it, as far as it knows now."""
        lock = self._locks.get(path)
        return lock if lock is not None and lock.is_held else None

    async def close(self) -> None:
        """Releases all locks. A lock that could not be released within CLOSE_SECONDS_MAX ends with the session."""
        limit = asyncio.Semaphore(RELEASED_AT_ONCE)

        async def release(lock: ResourceLock) -> None:
            async with limit:
                try:
                    await lock.release()
                except MetadataError as error:
                    log.warning("a lock is left to the end of the session: %s", error)

        if self._store.is_connected:
            try:
                async with asyncio.timeout(CLOSE_SECONDS_MAX):
                    await asyncio.gather(*map(release, list(self._locks.values())))
            except TimeoutError:
                log.warning("%d locks are left to the end of the session: the store is silent", len(self._locks))
        for lock in list(self._locks.values()):
            await lock.abandon()
        self._locks.clear()
        if self._cancel_session is not None:
            self._cancel_session()
            self._cancel_session = None

    def _session_changed(self, event: SessionEvent) -> None:
        for lock in list(self._locks.values()):
            lock.session_changed(event)

    def _ended(self, path: str) -> None:
        self._locks.pop(path, None)
