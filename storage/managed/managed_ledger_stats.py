"""The statistics of a managed ledger."""

from typing import NamedTuple

from magnetar.storage.managed.appender import AppendState
from magnetar.storage.managed.ledger_list import LedgerInfo
from pulsar_proto.ids import Position


class ManagedLedgerStats(NamedTuple):
    """The values that the REST call internalStats shows. Times are ms since the epoch, 0 for never."""

    state: AppendState
    entries_added: int
    entries: int
    size: int
    current_ledger_id: int
    """The id of the open ledger; -1 while no ledger is open."""
    current_ledger_entries: int
    current_ledger_size: int
    ledger_created_ms: int
    ledger_failed_ms: int
    pending_entries: int
    last_confirmed: Position
    ledgers: tuple[LedgerInfo, ...]
    """All ledgers in the list. The current one is shown without entries and size, as it is stored."""
    held_by: str | None
    """What keeps the oldest ledger from being deleted: `cursor NAME`, or another value of `keeping_rules.KeptBy`."""
