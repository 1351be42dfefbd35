"""Lists the ledgers that the metadata knows, for the garbage collector of a bookie, which deletes every other ledger.

The list is refused when the metadata is older than what the bookie holds, because somebody has restored a copy of
ZooKeeper's data: each ledger made since the copy would be deleted, although nobody deleted it. The ids of the bookie's
ledgers show whether this has happened. Ids are drawn from a counter in the metadata, so a ledger that the metadata does
not know and whose id the counter has not reached yet is newer than the metadata. Apache's bookies have no such check
(ScanAndCompareGarbageCollector; verifyMetadataOnGC only looks for each record a second time).
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from magnetar.metadata.store import MetadataStore
from magnetar.metadata.unique_ids import LedgerIdGenerator
from magnetar.storage.ledger.cluster_layout import ClusterError
from magnetar.storage.ledger.ledger_listing import list_ledgers

log = logging.getLogger(__name__)


class HeldLedgers(Protocol):
    """The ledgers of a bookie."""

    def ledger_ids(self) -> set[int]:
        """Returns the ids of all ledgers in the bookie."""

    def kept_ledgers(self) -> set[int]:
        """Returns the ids of the ledgers that stay even if the metadata does not list them."""


class ListedLedgers:
    """The list of one bookie. `sync()` is awaited first; it raises unless the store is current and belongs to the
    bookie's own cluster."""

    def __init__(
        self, store: MetadataStore, held: Callable[[], HeldLedgers], sync: Callable[[], Awaitable[None]]
    ) -> None:
        self._store = store
        self._held = held
        self._sync = sync
        self._ids = LedgerIdGenerator(store, block_ids=1)

    async def __call__(self) -> set[int]:
        """Returns the ids of all ledgers that the metadata knows. Raises ClusterError when the metadata is older than
        the bookie, MetadataError when the store fails, and the errors of `sync`."""
        await self._sync()
        held = self._held()
        ours = held.ledger_ids() - held.kept_ledgers()
        listed = await list_ledgers(self._store)
        newest = max(ours - listed, default=-1)
        if newest >= 0:
            # Drawing an id uses it up, so an id is drawn only if a ledger would be deleted.
            following = await self._ids.next_id()
            if newest >= following:
                log.error(
                    "the metadata is older than this bookie: ledger %d is unknown, and the next id is %d; nothing is "
                    "deleted (docs/FAILURES.md)",
                    newest,
                    following,
                )
                raise ClusterError(f"the metadata is older than ledger {newest} of this bookie")
        return listed
