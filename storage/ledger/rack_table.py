"""Knows in which rack each bookie is, and follows the record `/bookies`, which the operator writes.

Source: BookieRackAffinityMapping of Pulsar.
"""

import asyncio
import logging

from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import CancelWatch, MetadataStore, RecordEvent
from magnetar.storage.ledger.rack_placement_rules import DEFAULT_RACK, groups_in_record, racks_in_record

log = logging.getLogger(__name__)


class RackTable:
    """The racks of the bookies, as last read from the record. Without a record every bookie stands in the default rack.
    When the record cannot be read, the last known racks stay."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._racks: dict[str, str] = {}
        self._groups: dict[str, frozenset[str]] = {}
        self._cancel_watch: CancelWatch | None = None
        self._look: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Watches the record and reads it once. Raises MetadataError."""
        self._cancel_watch = self._store.watch(paths.BOOKIE_RACKS, self._heard)
        await self._refresh()

    async def stop(self) -> None:
        """Ends watching. Idempotent."""
        if self._cancel_watch is not None:
            self._cancel_watch()
        if self._look is not None:
            self._look.cancel()
            await asyncio.wait([self._look])

    def rack_of(self, bookie_id: str) -> str:
        return self._racks.get(bookie_id, DEFAULT_RACK)

    def groups(self) -> dict[str, frozenset[str]]:
        """Returns the groups of bookies by name."""
        return self._groups

    def _heard(self, _: RecordEvent) -> None:
        if self._look is not None:
            self._look.cancel()
        self._look = asyncio.create_task(self._try_refresh())

    async def _try_refresh(self) -> None:
        try:
            await self._refresh()
        except MetadataError as error:
            log.warning("%s cannot be read, the bookies' racks stay as they were: %s", paths.BOOKIE_RACKS, error)

    async def _refresh(self) -> None:
        record = await self._store.get(paths.BOOKIE_RACKS)
        try:
            value = b"{}" if record is None else record.value
            self._racks, self._groups = racks_in_record(value), groups_in_record(value)
        except ValueError as error:
            log.warning("%s: %s; the bookies' racks stay as they were", paths.BOOKIE_RACKS, error)
