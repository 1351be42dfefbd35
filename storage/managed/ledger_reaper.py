"""Deletes ledgers that have left every list. Nothing refers to such ledgers, so a failure only delays freeing their
space.

If the process crashes after a ledger left its list and before it is deleted, the ledger is never deleted, as with
Apache's broker.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import NamedTuple

from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchLedger

logger = logging.getLogger(__name__)

GRAVES_MAX = 100_000
"""How many ledgers may wait to be deleted. Any further ledger is named in the log and forgotten."""

PARALLEL = 64
"""How many deletions are under way at once. The metadata writes of these deletions share a commit."""


class _Grave(NamedTuple):
    """Whose ledger waits to be deleted, for the log and for people who ask."""

    owner: str
    use: str

    def __str__(self) -> str:
        return f"{self.owner} {self.use}" if self.use else self.owner


class LedgerReaper:
    """Deletes ledgers in the background. One object serves the process."""

    def __init__(self, bookkeeper: BookKeeper) -> None:
        self._bookkeeper = bookkeeper
        self._graves: dict[int, _Grave] = {}
        self._digging: asyncio.Task[None] | None = None

    @property
    def waiting(self) -> int:
        """How many ledgers are not deleted yet."""
        return len(self._graves)

    def waiting_of(self, owner: str) -> list[int]:
        """Returns the ledgers of `owner`, whatever they were used for, that are not deleted yet."""
        return [ledger_id for ledger_id, grave in self._graves.items() if grave.owner == owner]

    def is_waiting(self, ledger_id: int) -> bool:
        """Whether the ledger is not deleted yet."""
        return ledger_id in self._graves

    def bury(self, ledger_ids: Iterable[int], owner: str, use: str = "") -> None:
        """Deletes the ledgers in the background. `retry` repeats deletions that failed. `owner` is the label of the
        managed ledger whose ledgers they were, and `use` says which part of it used them, unless they held its entries.
        """
        grave = _Grave(owner, use)
        for ledger_id in ledger_ids:
            if len(self._graves) >= GRAVES_MAX:
                logger.warning("too many ledgers to delete, ledger %d of %s is left behind", ledger_id, grave)
            else:
                self._graves[ledger_id] = grave
        self.retry()

    def retry(self) -> None:
        """Begins to delete the waiting ledgers, unless deletions are under way."""
        if self._graves and self._digging is None:
            self._digging = asyncio.get_running_loop().create_task(self._dig())

    async def idle(self) -> None:
        """Returns when nothing is being deleted."""
        while self._digging is not None:
            await asyncio.wait([self._digging])

    async def _dig(self) -> None:
        try:
            tried: set[int] = set()
            while batch := [ledger_id for ledger_id in self._graves if ledger_id not in tried][:PARALLEL]:
                tried.update(batch)
                await asyncio.gather(*map(self._delete, batch))
        finally:
            self._digging = None

    async def _delete(self, ledger_id: int) -> None:
        grave = self._graves[ledger_id]
        try:
            await self._bookkeeper.delete_ledger(ledger_id)
        except NoSuchLedger:
            logger.info("ledger %d of %s was deleted before", ledger_id, grave)
        except LedgerError as error:
            logger.warning("ledger %d of %s is not deleted yet: %s: %s", ledger_id, grave, type(error).__name__, error)
            return
        else:
            logger.info("ledger %d of %s deleted", ledger_id, grave)
        self._graves.pop(ledger_id, None)
