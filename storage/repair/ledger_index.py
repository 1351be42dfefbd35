"""Looks at the records of all ledgers, some at a time: which bookies they name, and whatever else a check asks.

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
Progress = Callable[[int, int], None]
"""(done, of how many)."""


def no_progress(done: int, total: int) -> None:
    """For those who do not show any."""


async def visit_ledgers(
    store: MetadataStore,
    driver: LedgerMetadataDriver,
    visit: Visit,
    *,
    at_once: int,
    progress: Progress = no_progress,
) -> int:
    """Calls `visit` with every ledger's record, `at_once` at a time; returns how many there were.

    A ledger that is deleted meanwhile is passed over, as is a record that does not decode, which is logged. Raises
    MetadataError, LedgerError and what `visit` raises, after the visits that are under way were cancelled.
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
    """Every bookie that the record names."""
    return {bookie for _, members in metadata.ensembles for bookie in members}


async def ledgers_by_bookie(
    store: MetadataStore, driver: LedgerMetadataDriver, *, at_once: int, progress: Progress = no_progress
) -> dict[str, set[int]]:
    """The ledgers of each bookie that any ledger's record names. Raises MetadataError, LedgerError."""
    found: dict[str, set[int]] = {}

    async def visit(metadata: LedgerMetadata) -> None:
        for bookie in bookies_of(metadata):
            found.setdefault(bookie, set()).add(metadata.ledger_id)

    await visit_ledgers(store, driver, visit, at_once=at_once, progress=progress)
    return found
