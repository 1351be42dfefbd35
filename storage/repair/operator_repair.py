"""The repairs that an operator starts with `magnetar bk`: copying the entries of some bookies to others, or retiring a
bookie.

`recover_bookies` copies the entries itself, without marks; `decommission` marks the ledgers and waits for
auto-recovery. Source: BookKeeperAdmin.recoverBookieData and decommissionBookie of BookKeeper 4.17.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from magnetar.storage.ledger.bookkeeper_cluster import BookKeeperCluster
from magnetar.storage.ledger.ledger_errors import LedgerError, NoSuchLedger
from magnetar.storage.repair.autorecovery_config import AutoRecoveryConfig
from magnetar.storage.repair.ledger_checker import LedgerChecker
from magnetar.storage.repair.ledger_index import OnProgress, bookies_of, no_progress, visit_ledgers
from magnetar.storage.repair.repair_rules import fragments_naming
from magnetar.storage.repair.replicator import Copied, Replicator
from magnetar.storage.repair.underreplication import Underreplication
from pulsar_proto.records.ledger_record import LedgerMetadata

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""The pause between two looks at the ledgers of a bookie that is being retired."""


class BookieIsUp(Exception):
    """The bookie cannot be retired because it is registered, so it is running. The operator has to stop the bookie
    first."""


@dataclass(slots=True)
class RecoveryOutcome:
    """The result of `recover_bookies`."""

    ledgers: int = 0
    """How many ledgers named one of the bookies."""
    copied: Copied = field(default_factory=Copied)
    skipped_open: list[int] = field(default_factory=list)
    """The open ledgers that were not repaired, or only in part."""
    failed: dict[int, str] = field(default_factory=dict)
    """The ledgers that failed, with the reasons."""


async def ledgers_naming(
    cluster: BookKeeperCluster, bookies: Collection[str], *, at_once: int, progress: OnProgress = no_progress
) -> dict[int, LedgerMetadata]:
    """Returns the records of all ledgers that name one of the bookies, by ledger id. Raises MetadataError,
    LedgerError."""
    found: dict[int, LedgerMetadata] = {}

    async def visit(metadata: LedgerMetadata) -> None:
        if not bookies_of(metadata).isdisjoint(bookies):
            found[metadata.ledger_id] = metadata

    await visit_ledgers(cluster.store, cluster.driver, visit, at_once=at_once, progress=progress)
    return found


async def recover_bookies(
    cluster: BookKeeperCluster,
    config: AutoRecoveryConfig,
    bookies: frozenset[str],
    ledger_ids: Collection[int],
    *,
    skip_open: bool,
    progress: Callable[[int, int], None] = no_progress,
) -> RecoveryOutcome:
    """Replaces the bookies in the given ledgers by other bookies, which get copies of the entries that the replaced
    bookies should hold.

    An open ledger whose last fragment names one of the bookies is recovered first, which ends the ledger's writer; with
    `skip_open` such a ledger is left as it is. A ledger that fails is noted in the outcome, and the work goes on with
    the other ledgers. `progress` is called with (ledgers done, ledgers in all). Raises MetadataError.
    """
    outcome = RecoveryOutcome()
    checker = LedgerChecker(cluster)
    replicator = Replicator(cluster, config)
    left = sorted(ledger_ids, reverse=True)
    total = len(left)

    async def one(ledger_id: int) -> None:
        metadata = (await cluster.driver.read(ledger_id)).metadata
        if bookies_of(metadata).isdisjoint(bookies):
            return
        outcome.ledgers += 1
        if not metadata.is_closed and not bookies.isdisjoint(metadata.last_ensemble[1]):
            if skip_open:
                outcome.skipped_open.append(ledger_id)
                return
            await cluster.bookkeeper.open_ledger(ledger_id, password=metadata.password or b"")
        opened = await checker.open(ledger_id)
        fragments = fragments_naming(opened.fragments, bookies)
        copied = await replicator.heal(opened, fragments, without=bookies)
        if any(not one.fragment.is_closed for one in fragments):
            outcome.skipped_open.append(ledger_id)
        outcome.copied.entries += copied.entries
        outcome.copied.bytes += copied.bytes
        outcome.copied.fragments += copied.fragments

    async def work() -> None:
        while left:
            ledger_id = left.pop()
            try:
                await one(ledger_id)
            except NoSuchLedger:
                pass
            except LedgerError as error:
                outcome.failed[ledger_id] = f"{type(error).__name__}: {error}"
            progress(total - len(left), total)

    await asyncio.gather(*(work() for _ in range(min(config.ledgers_at_once, total))))
    return outcome


async def decommission(
    cluster: BookKeeperCluster,
    book: Underreplication,
    bookie: str,
    *,
    at_once: int,
    scanning: OnProgress = no_progress,
    progress: Callable[[int, int], None] = no_progress,
) -> int:
    """Marks all ledgers of a stopped bookie and waits until auto-recovery has replaced the bookie in all of these
    ledgers. Returns the number of ledgers.

    Replication workers do the work, either Apache's or this project's, so at least one must be running in the cluster.
    This call waits for them without a time limit. `scanning(done, total)` is called while the ledgers' records are
    read, `progress(done, total)` at each look afterwards. Raises BookieIsUp, ReplicationDisabled, MetadataError,
    LedgerError.
    """
    if bookie in (await cluster.registry.refresh()).all:
        raise BookieIsUp(f"bookie {bookie} is registered: stop it first, then retire it")
    await book.trigger_audit()
    named = set(await ledgers_naming(cluster, {bookie}, at_once=at_once, progress=scanning))
    total = len(named)
    for ledger_id in sorted(named):
        await book.mark(ledger_id, [bookie])
    while True:
        left = sorted(named)
        for start in range(0, len(left), at_once):
            some = left[start : start + at_once]
            still = await asyncio.gather(*(_still_named(cluster, book, ledger_id, bookie) for ledger_id in some))
            named.difference_update(ledger_id for ledger_id, is_named in zip(some, still, strict=True) if not is_named)
        progress(total - len(named), total)
        if not named:
            return total
        await asyncio.sleep(LOOK_SECONDS)


async def _still_named(cluster: BookKeeperCluster, book: Underreplication, ledger_id: int, bookie: str) -> bool:
    """Returns whether the ledger's record or its mark still names the bookie. A ledger whose mark is gone although its
    record names the bookie is marked again."""
    try:
        metadata = (await cluster.driver.read(ledger_id)).metadata
    except NoSuchLedger:
        return False
    mark = await book.get(ledger_id)
    is_named = bookie in bookies_of(metadata)
    if is_named and mark is None:
        await book.mark(ledger_id, [bookie])
    return is_named or (mark is not None and bookie in mark.replicas)
