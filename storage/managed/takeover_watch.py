"""Notices that another owner has taken over an open managed ledger, even if this process does not write to it.

A process that opens a managed ledger writes its list (`ledger_opening`), and a process that deletes a managed ledger
deletes the list's record. So one recursive watch over all lists tells of every takeover, however many managed ledgers
are open, and an idle managed ledger costs nothing. An event names the record but not its writer. An owner's own write
causes exactly one event, so the events are counted: as long as there are as many of them as writes, nobody else has
written, and the store need not be asked. Otherwise the record's version says whether another owner wrote. The watch
only makes a takeover known soon. The data is protected by the version, on which every write of the list depends, and by
the fence of the ledger.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from magnetar.metadata.paths import MANAGED_LEDGERS
from magnetar.metadata.store import CancelWatch, EventType, MetadataStore, RecordEvent
from magnetar.storage.managed.managed_ledger_errors import MetaStoreFault

logger = logging.getLogger(__name__)

CHECKED_AT_ONCE = 64
"""How many records' versions are asked for in parallel."""

RETRY_SECONDS = 1.0
"""How long the watch waits before it repeats a failed question to the metadata store. It repeats the question until the
store answers."""


LINK_IS_BACK = RecordEvent(EventType.CHANGED, MANAGED_LEDGERS)
"""The event that stands for every change while the connection to the metadata store was lost."""


class Owned(Protocol):
    """An open managed ledger that can find out whether another owner has written its list."""

    def changes_seen(self, changes: int | None) -> bool:
        """Notes that `changes` further changes of the list's record were seen; None says that changes may have been
        overlooked. Returns whether `check_ownership` has to be called, because another owner may have made one of
        the changes."""

    async def check_ownership(self) -> None:
        """Fences the managed ledger when its list was written or deleted by another owner. Raises MetaStoreFault."""


class TakeoverWatch:
    """Watches the managed ledgers in `owned`, by name. Lives on the event loop's thread."""

    def __init__(self, metadata: MetadataStore, owned: Mapping[str, Owned]) -> None:
        self._metadata = metadata
        self._owned = owned
        self._cancel: CancelWatch | None = None
        self._opening: dict[str, int | None] = {}
        """The managed ledgers that are being opened, and how many changes of their records were seen meanwhile; None
        when changes may have been overlooked."""
        self._suspects: dict[str, None] = {}
        self._checking: asyncio.Task[None] | None = None
        self._unknown: dict[str, None] = {}
        """Managed ledgers whose owner could not be determined at the last check."""
        self._retry: asyncio.TimerHandle | None = None

    def opening(self, name: str) -> None:
        """Called before the list of a managed ledger is read. `opened` or `not_opened` follows."""
        if self._cancel is None:
            self._cancel = self._metadata.watch(MANAGED_LEDGERS, self._on_event, recursive=True)
        self._opening[name] = 0

    def not_opened(self, name: str) -> None:
        """Called when an opening has failed. Has no effect after `opened`."""
        self._opening.pop(name, None)

    def opened(self, name: str) -> None:
        """Called when a managed ledger has been added to `owned`. Its ownership is checked now if another owner may
        have written its list while it was being opened."""
        if self._owned[name].changes_seen(self._opening.pop(name, None)):
            self._suspect(name)

    async def close(self) -> None:
        """Ends the watch, and the pending questions to the metadata store."""
        if self._cancel is not None:
            self._cancel()
            self._cancel = None
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])
        self._unknown.clear()
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None

    def _on_event(self, event: RecordEvent) -> None:
        if event == LINK_IS_BACK:
            self._opening = dict.fromkeys(self._opening)
            for name, owned in self._owned.items():
                owned.changes_seen(None)
                self._suspect(name)
            return
        if event.type is EventType.CHILDREN_CHANGED:
            return
        name = event.path[len(MANAGED_LEDGERS) + 1 :]
        seen = self._opening.get(name)
        if seen is not None:
            self._opening[name] = seen + 1
        known = self._owned.get(name)
        if known is not None and known.changes_seen(1):
            self._suspect(name)

    def _suspect(self, name: str) -> None:
        self._suspects[name] = None
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check())

    async def _check(self) -> None:
        try:
            while self._suspects:
                names = list(self._suspects)[:CHECKED_AT_ONCE]
                for name in names:
                    del self._suspects[name]
                await asyncio.gather(*map(self._check_one, names))
        finally:
            self._checking = None

    async def _check_one(self, name: str) -> None:
        owned = self._owned.get(name)
        if owned is not None:
            try:
                await owned.check_ownership()
            except MetaStoreFault as error:
                if name not in self._unknown:
                    logger.warning("unknown whether another owner wrote the list of ledgers, asking again: %s", error)
                    self._unknown[name] = None
                self._ask_later()
                return
        self._unknown.pop(name, None)

    def _ask_later(self) -> None:
        if self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(RETRY_SECONDS, self._ask_again)

    def _ask_again(self) -> None:
        self._retry = None
        for name in self._unknown:
            self._suspect(name)
