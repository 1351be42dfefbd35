"""Walks over the records of all ledgers, a bounded number at a time, for checks and for the list of each bookie's
ledgers.

Source: BookieLedgerIndexer of BookKeeper 4.17.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from magnetar.metadata.store import MetadataStore
from magnetar.storage.ledger.ledger_errors import MetadataDamaged, NoSuchLedger
from magnetar.storage.ledger.ledger_listing import list_ledgers
from magnetar.storage.ledger.metadata_driver import LedgerMetadataDriver
from pulsar_proto.records.ledger_record import LedgerMetadata

log = logging.getLogger(__name__)

Visit = Callable[[LedgerMetadata], Awaitable[None]]
OnProgress = Callable[[int, int], None]
"""A callback that shows progress. Its arguments are the number of finished ledgers and the number of all ledgers."""


def no_progress(done: int, total: int) -> None:
    """Does nothing: the callback of callers that show no progress."""


async def visit_ledgers(
    store: MetadataStore,
    driver: LedgerMetadataDriver,
    visit: Visit,
    *,
    at_once: int,
    progress: OnProgress = no_progress,
) -> int:
    """Calls `visit` with every ledger's record, for at most `at_once` ledgers at the same time. Returns the number of
    ledgers.

    A ledger that is deleted meanwhile is passed over. A ledger whose record does not decode is logged and passed over.
    Raises MetadataError, LedgerError and the errors of `visit`, after the other visits were cancelled.
    """
    ids = sorted(await list_ledgers(store), reverse=True)
    total = len(ids)

    async def work() -> None:
        while ids:
            ledger_id = ids.pop()
            try:
                metadata = (await driver.read(ledger_id)).metadata
            except NoSuchLedger:
                continue
            except MetadataDamaged as error:
                log.error("ledger %d is left out: %s", ledger_id, error)
                continue
            with suppress(NoSuchLedger):
                await visit(metadata)
            progress(total - len(ids), total)

    tasks = [asyncio.create_task(work()) for _ in range(min(at_once, total))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return total


def bookies_of(metadata: LedgerMetadata) -> set[str]:
    """Returns every bookie that the ledger's record names in any fragment."""
    return {bookie for _, members in metadata.ensembles for bookie in members}


async def ledgers_by_bookie(
    store: MetadataStore, driver: LedgerMetadataDriver, *, at_once: int, progress: OnProgress = no_progress
) -> dict[str, set[int]]:
    """Returns the ledger ids of each bookie that any ledger's record names. Raises MetadataError, LedgerError."""
    found: dict[str, set[int]] = {}

    async def visit(metadata: LedgerMetadata) -> None:
        for bookie in bookies_of(metadata):
            found.setdefault(bookie, set()).add(metadata.ledger_id)

    await visit_ledgers(store, driver, visit, at_once=at_once, progress=progress)
    return found
