"""Deletes the ledgers that are no longer needed: it removes them from the list first, and then deletes them."""

import asyncio
import logging
from collections.abc import Callable

from magnetar.storage.managed.keeping_rules import KeptLedger, Trim, choose_trim, explained
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.ledger_reaper import LedgerReaper
from magnetar.storage.managed.list_store import ListStore
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from magnetar.storage.managed.metadata_access import MetadataAccess
from magnetar.storage.managed.part_owner import PartOwner

logger = logging.getLogger(__name__)


class Trimmer:
    """Trims one managed ledger."""

    __slots__ = ("_access", "_clock_ms", "_closed", "_label", "_lists", "_owner", "_reaper", "_running", "config")

    def __init__(
        self,
        label: str,
        lists: ListStore,
        reaper: LedgerReaper,
        config: ManagedLedgerConfig,
        access: MetadataAccess,
        owner: PartOwner,
        *,
        clock_ms: Callable[[], int],
    ) -> None:
        self._label = label
        self._lists = lists
        self._reaper = reaper
        self._access = access
        self._owner = owner
        self._clock_ms = clock_ms
        self._running: asyncio.Task[None] | None = None
        self._closed = False
        self.config = config

    def choose(self) -> Trim:
        """Returns the ledgers that would be deleted now, and the reason why the others are kept."""
        lists, needs = self._lists, self._owner.needs()
        return choose_trim(self.config, lists.ledgers, needs, self._clock_ms(), terminated=lists.terminated)

    def explain(self) -> list[KeptLedger]:
        """Returns the ledgers with what keeps them now (`keeping_rules.explained`). Nothing keeps the ledgers that
        `choose` names."""
        lists = self._lists
        return explained(self.config, lists.ledgers, self._owner.needs(), self._clock_ms(), terminated=lists.terminated)

    def request(self) -> None:
        """Trims in the background if there is anything to trim."""
        is_idle = self._running is None and not self._closed
        if is_idle and self._lists.ledgers.infos and self.choose().ledger_ids:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def idle(self) -> None:
        """Returns when no trim is under way."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def settled(self) -> None:
        """Waits until no trim is under way, and until it is certain that no failed trim has changed the stored list.
        From then on a restart finds the same list. Raises MetaStoreFault, ManagedLedgerFenced."""
        await self.idle()
        while self._lists.in_doubt:
            await self._lists.change()
            await self.idle()

    async def close(self) -> None:
        """Prevents further trims, and waits for the end of the trim that is under way."""
        self._closed = True
        await self.idle()

    async def _run(self) -> None:
        try:
            while not self._closed and (ledger_ids := self.choose().ledger_ids):
                if not await self._access.answers():
                    return  # the next call of `request` tries again; `ManagedLedger.maintain` calls it
                doomed = frozenset(ledger_ids)

                def edit(ledgers: LedgerList, doomed: frozenset[int] = doomed) -> None:
                    ledgers.remove(doomed)

                await self._lists.change(edit)
                logger.info("%s: trimmed ledgers %s", self._label, list(ledger_ids))
                self._owner.trimmed(ledger_ids)
                self._reaper.bury(ledger_ids, self._label)
        except ManagedLedgerError as error:
            logger.warning("%s: not trimmed: %s", self._label, error)
            if not error.retriable:
                self._owner.fence(error)
        finally:
            self._running = None
