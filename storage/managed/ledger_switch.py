"""The steps by which a managed ledger goes from one ledger to the next. `appender` decides when these steps are made.

The old ledger is closed, the new one is made, and then one compare-and-set writes both to the list. A crash before that
write leaves an unused ledger, but never an entry in a ledger that the list does not name.
"""

import logging

from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.ledger_errors import LedgerError, LedgerFenced, MetadataVersion, NoSuchLedger
from magnetar.storage.managed.clocks import Clocks
from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.ledger_writer import LedgerWriter
from magnetar.storage.managed.list_store import ListStore
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from magnetar.storage.managed.managed_ledger_errors import AppendFault, ManagedLedgerError, ManagedLedgerFenced
from magnetar.storage.managed.part_owner import PartOwner
from magnetar.storage.managed.period_buckets import LatencyBuckets

logger = logging.getLogger(__name__)

IDS_TRIED = 100
"""How many ledgers in a row may get an id that is too low before the append fails."""


class LedgerSwitch:
    """Creates, closes and records the ledgers of one managed ledger. `switch_latency` counts how long making and
    recording a ledger takes."""

    __slots__ = ("_began_s", "_bookkeeper", "_clocks", "_label", "_lists", "_owner", "_switch_latency")

    def __init__(
        self,
        label: str,
        lists: ListStore,
        bookkeeper: BookKeeper,
        owner: PartOwner,
        *,
        clocks: Clocks,
        switch_latency: LatencyBuckets,
    ) -> None:
        self._label = label
        self._lists = lists
        self._bookkeeper = bookkeeper
        self._owner = owner
        self._clocks = clocks
        self._switch_latency = switch_latency
        self._began_s = 0.0

    async def create(self, config: ManagedLedgerConfig) -> LedgerWriter:
        """Returns a new ledger whose id is above all others of this managed ledger, because positions are ordered by
        ledger id. Ids are drawn in blocks, so this process may still hold ids that are lower than those of an earlier
        owner; ledgers with such ids are thrown away. Raises AppendFault."""
        self._began_s = self._clocks.monotonic_s()
        for _ in range(IDS_TRIED):
            handle = await self._create(config)
            if handle.ledger_id > self._owner.highest_id():
                return handle
            logger.info("%s: ledger id %d is not above %d", self._label, handle.ledger_id, self._owner.highest_id())
            await handle.abandon()
            self._owner.ledger_closed([handle.ledger_id])
        raise AppendFault(self._label, f"no ledger id above {self._owner.highest_id()} was given")

    async def _create(self, config: ManagedLedgerConfig) -> LedgerWriter:
        ensemble, write, ack = config.quorums
        try:
            return await self._bookkeeper.create_ledger(
                ensemble_size=ensemble, write_quorum=write, ack_quorum=ack, custom_metadata=self._owner.ledger_labels()
            )
        except LedgerError as error:
            raise AppendFault(self._label, f"{type(error).__name__}: {error}") from error

    async def close(self, handle: LedgerWriter) -> None:
        """Closes a ledger whose appends were all answered. Raises AppendFault (the close may be tried again) and
        ManagedLedgerFenced."""
        try:
            await handle.close()
        except (LedgerFenced, MetadataVersion, NoSuchLedger) as error:
            raise ManagedLedgerFenced(self._label, f"another owner closed the ledger: {error}") from error
        except LedgerError as error:
            raise AppendFault(self._label, f"ledger {handle.ledger_id} not closed: {error}") from error
        counted = self._lists.ledgers.current_entries
        assert handle.last_add_confirmed + 1 == counted, (self._label, handle.ledger_id, counted)

    async def write_list(self, leaving: LedgerWriter | None, opened: LedgerWriter | None) -> None:
        """Records that `leaving` is closed and `opened` is current. Raises the errors of `ListStore.change`."""
        garbage = self._empty(leaving)
        now_ms = self._clocks.wall_ms()

        def edit(ledgers: LedgerList) -> None:
            if leaving is not None:
                ledgers.close_current(now_ms)
            if opened is not None:
                ledgers.add(opened.ledger_id)

        try:
            await self._lists.change(edit)
        except ManagedLedgerError:
            if opened is not None:
                # The write may have arrived all the same. That does no harm: the ledger is empty, and the next process
                # that opens the managed ledger goes on when it does not find this ledger.
                await opened.abandon()
                self._owner.ledger_closed([opened.ledger_id])
            raise
        if opened is not None:
            self._switch_latency.add(self._clocks.monotonic_s() - self._began_s, 1)
            logger.info("%s: writing to ledger %d", self._label, opened.ledger_id)
        if leaving is not None:
            self._owner.ledger_closed(garbage)

    async def write_end(self, leaving: LedgerWriter | None) -> None:
        """Records that `leaving` is closed and that no other ledger will follow. Raises the errors of
        `ListStore.change`."""
        end, garbage, now_ms = self._lists.ledgers.last_confirmed, self._empty(leaving), self._clocks.wall_ms()

        def edit(ledgers: LedgerList) -> None:
            if leaving is not None:
                ledgers.close_current(now_ms)

        await self._lists.change(edit, terminated=end)
        logger.info("%s: terminated at %s", self._label, end)
        if leaving is not None:
            self._owner.ledger_closed(garbage)

    def _empty(self, leaving: LedgerWriter | None) -> list[int]:
        return [leaving.ledger_id] if leaving is not None and self._lists.ledgers.current_entries == 0 else []
