"""What auto-recovery has to do in a cluster, as its records in the metadata tell it. Whoever reads them needs no
bookie."""

from typing import NamedTuple

from magnetar.metadata.store import MetadataStore
from magnetar.storage.repair.auditor_election import current_auditor
from magnetar.storage.repair.underreplication import Underreplication

LISTED_MAX = 100
"""How many marked ledgers are listed with what their marks say."""
COUNTED_MAX = 1_000
"""How many marked ledgers are counted: each is a path of its own in the metadata."""


class MarkedLedger(NamedTuple):
    """A ledger that lacks copies."""

    ledger_id: int
    missing: tuple[str, ...]
    """The bookies whose copies are missing."""
    since_ms: int | None
    """When the ledger was marked, or its mark last grew, in milliseconds since the epoch."""
    locked_by: str | None
    """The bookie id of the worker that heals the ledger, or waits for it; None while nobody has locked it."""


class RecoveryState(NamedTuple):
    """The state of auto-recovery in one cluster."""

    is_enabled: bool
    auditor: str | None
    """The bookie id of the auditor; None when no auditor runs, so that nothing is noticed."""
    ledgers: list[MarkedLedger]
    marked: int
    """How many ledgers are marked, up to COUNTED_MAX."""
    is_cut: bool
    """Whether there are more marked ledgers than were counted."""


async def recovery_state(store: MetadataStore) -> RecoveryState:
    """Reads the state. Raises MetadataError, and MalformedRecord for a record that does not decode."""
    records = Underreplication(store, now_ms=lambda: 0)
    ledgers: list[MarkedLedger] = []
    count = 0
    async for ledger_id in records.marked():
        count += 1
        if count > COUNTED_MAX:
            break
        if len(ledgers) < LISTED_MAX and (mark := await records.get(ledger_id)) is not None:
            ledgers.append(MarkedLedger(ledger_id, mark.replicas, mark.ctime_ms, await records.lock_holder(ledger_id)))
    return RecoveryState(
        await records.is_enabled(), await current_auditor(store), ledgers, min(count, COUNTED_MAX), count > COUNTED_MAX
    )
