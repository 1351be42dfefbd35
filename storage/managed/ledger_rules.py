"""Decides when the current ledger is closed. Pure. `appender` and `managed_ledger` close the ledger; `keeping_rules`
decides which closed ledgers are deleted.

Source: ManagedLedgerImpl.currentLedgerIsFull. Apache's broker checks ledgers only when entries are added, so the disk
of an idle topic is never freed (github.com/apache/pulsar/issues/9271). Here the factory's timer also closes ledgers
that are idle and consumed.
"""

from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig

IDLE_SECONDS = 60
"""A fully consumed ledger that got no entry for this long is closed, once it has the minimum age."""


def is_full(config: ManagedLedgerConfig, entries: int, size: int, age_s: float) -> bool:
    """Whether the ledger is full when an entry is added: its entries, payload bytes or age have reached their limit,
    and it has the minimum age."""
    if entries == 0:
        return False
    full = (
        entries >= config.managed_ledger_max_entries_per_ledger or size >= config.size_max or age_s >= config.age_max_s
    )
    return full and age_s >= config.age_min_s


def is_due(config: ManagedLedgerConfig, ledgers: LedgerList, age_s: float, idle_s: float, consumed: bool) -> bool:
    """Whether the factory's timer has to close the current ledger. `consumed` says that every durable cursor has passed
    all of its entries."""
    entries = ledgers.current_entries
    if entries == 0:
        return False
    if is_full(config, entries, ledgers.current_size, age_s):
        return True
    if 0 < config.managed_ledger_inactive_ledger_rollover_time_seconds <= idle_s:
        return True
    deletable_ever = config.retention_ms >= 0 or config.retention_bytes >= 0
    return consumed and deletable_ever and idle_s >= IDLE_SECONDS and age_s >= config.age_min_s
