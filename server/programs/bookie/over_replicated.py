"""Deletes the bookie's copies of over-replicated ledgers, that is, of closed ledgers whose metadata does not name this
bookie.

Such copies are left over when auto-recovery replaced a bookie that came back later. The order of steps is that of
ScanAndCompareGarbageCollector.removeOverReplicatedLedgers in BookKeeper 4.17: take the lock that replication workers
take, so that nobody is copying the ledger to this bookie; read the metadata anew; delete the copy; release the lock. A
copy is deleted only if the previous look, too, found the ledger over-replicated, because tools that copy without the
lock need less time than the interval between two looks.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import Protocol

from magnetar.metadata.errors import MetadataError, NodeExistsError
from magnetar.metadata.store import MetadataStore
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.records import underreplication_record as records
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_path

log = logging.getLogger(__name__)

READS_AT_ONCE = 64


class LocalLedgers(Protocol):
    """This module uses a bookie through this interface: it lists the bookie's ledgers and deletes some of them."""

    def ledger_ids(self) -> set[int]: ...

    async def drop_ledgers(self, ledger_ids: set[int]) -> None: ...


def is_over_replicated(metadata: LedgerMetadata, bookie_id: str) -> bool:
    """Returns whether the bookie does not need its copy of the ledger. An open ledger is always needed, because an
    ensemble change or a recovery can bring this bookie into the ensemble at any moment."""
    named = any(bookie_id in bookies for _, bookies in metadata.ensembles)
    return metadata.is_closed and not named


class OverReplicatedLedgers:
    """Looks for over-replicated ledgers and deletes the bookie's copies. After `sync`, reads see all changes that other
    clients have made (`ZooKeeperStore.sync`)."""

    def __init__(
        self, store: MetadataStore, sync: Callable[[], Awaitable[None]], bookie: LocalLedgers, bookie_id: str
    ) -> None:
        self._store = store
        self._sync = sync
        self._bookie = bookie
        self._bookie_id = bookie_id
        self._suspects: set[int] = set()

    async def run(self, interval_seconds: float) -> None:
        """Looks once per interval, as long as the bookie runs."""
        while True:
            await asyncio.sleep(interval_seconds)
            try:
                await self.look()
            except Exception as error:
                log.warning("over-replicated ledgers: the look broke off, there will be another: %r", error)

    async def look(self) -> int:
        """Looks once, and returns how many copies were deleted. Raises MetadataError when ZooKeeper cannot be reached,
        and IndexFailure when the bookie's index fails."""
        found: set[int] = set()
        await self._sync()
        ids = iter(sorted(self._bookie.ledger_ids()))
        while some := list(islice(ids, READS_AT_ONCE)):
            found |= await self._over_replicated(some)
        dropped = {ledger_id for ledger_id in sorted(found & self._suspects) if await self._give_up(ledger_id)}
        self._suspects = found - dropped
        if found:
            log.info(
                "over-replicated ledgers: %d given up, %d to be looked at again", len(dropped), len(self._suspects)
            )
        return len(dropped)

    async def _over_replicated(self, ledger_ids: Iterable[int]) -> set[int]:
        ids = list(ledger_ids)
        verdicts = await asyncio.gather(*(self._is_over_replicated(ledger_id) for ledger_id in ids))
        return {ledger_id for ledger_id, verdict in zip(ids, verdicts, strict=True) if verdict}

    async def _is_over_replicated(self, ledger_id: int) -> bool:
        record = await self._store.get(ledger_path(ledger_id))
        if record is None:
            return False  # The ledger was deleted. The garbage collector deletes the copy.
        try:
            metadata = LedgerMetadata.parse(ledger_id, record.value)
        except MalformedRecord as error:
            log.warning("over-replicated ledgers: %s", error)
            return False
        return is_over_replicated(metadata, self._bookie_id)

    async def _give_up(self, ledger_id: int) -> bool:
        path = records.lock_path(ledger_id)
        try:
            await self._store.create(path, records.lock_value(self._bookie_id), ephemeral=True, make_parents=True)
        except NodeExistsError:
            return False  # A replication worker is copying the ledger, perhaps to this bookie.
        try:
            await self._sync()
            if not await self._is_over_replicated(ledger_id):
                return False
            log.info("ledger %d is closed and has all its copies elsewhere: deleted here", ledger_id)
            await self._bookie.drop_ledgers({ledger_id})
            return True
        finally:
            with contextlib.suppress(MetadataError):
                await self._store.delete(path)
