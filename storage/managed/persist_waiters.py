"""Callbacks that wait until the acknowledgements of a cursor are durable."""

import asyncio
import logging
from collections.abc import Callable

from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError

logger = logging.getLogger(__name__)

PersistDone = Callable[[ManagedLedgerError | None], None]
"""A callback. It is called with None when the changes are stored, otherwise with the error."""


class PersistWaiters:
    """Callbacks, each with the revision of the acknowledgements that it waits for."""

    __slots__ = ("_label", "_waiting")

    def __init__(self, label: str) -> None:
        self._label = label
        self._waiting: list[tuple[int, PersistDone]] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, revision: int, callback: PersistDone) -> None:
        self._waiting.append((revision, callback))

    def release(self, stored_revision: int, error: ManagedLedgerError | None) -> None:
        """Calls the callbacks whose changes are stored, or all callbacks when there is an error."""
        waiting = self._waiting
        if not waiting:
            return
        if error is not None:
            self._waiting = []
        else:
            self._waiting = [each for each in waiting if each[0] > stored_revision]
            waiting = [each for each in waiting if each[0] <= stored_revision]
        for _, callback in waiting:
            try:
                callback(error)
            except Exception:
                logger.exception("%s: a callback failed", self._label)


async def outcome_of(begin: Callable[[PersistDone], None]) -> None:
    """Calls `begin` with a callback and waits until the callback is called. Raises the error that the callback gets."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def finish(error: ManagedLedgerError | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    begin(finish)
    await done
