"""Decides when the current ledger is closed, and which closed ledgers are deleted. Pure. `appender` and
`managed_ledger` close the ledger, and `trimmer` deletes ledgers.

Sources: ManagedLedgerImpl.currentLedgerIsFull, internalTrimLedgers. Apache's broker checks ledgers only when entries
are added, so the disk of an idle topic is never freed (github.com/apache/pulsar/issues/9271). Here the factory's timer
also closes ledgers that are idle and consumed.
"""

from dataclasses import dataclass

from magnetar.storage.managed.ledger_list import LedgerList
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import Position

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


@dataclass(frozen=True, slots=True)
class Trim:
    """The ledgers that may be deleted, and the reason why the first remaining ledger is kept (which explains why a disk
    is not freed)."""

    ledger_ids: tuple[int, ...]
    held_by: str | None
    """The reason: `cursor`, `retention`, `current` (the open ledger), `last` (the last one, when there are no durable
    cursors), `end` (a terminated topic's last ledger), or None when no ledger is left."""


def choose_trim(
    config: ManagedLedgerConfig,
    ledgers: LedgerList,
    slowest: Position | None,
    now_ms: int,
    *,
    terminated: Position | None = None,
) -> Trim:
    """Chooses ledgers from the beginning of the list that no durable cursor needs and that retention does not keep:
    they are older than the retention time, or over the size that may stay. `slowest` is the earliest mark-delete of
    durable cursors, or None when there are no durable cursors.

    Without durable cursors the last ledger stays, even when it is closed, until there is a next one, so that a reader
    that begins at the earliest message finds the last messages. (ManagedLedgerImpl.internalTrimLedgers never deletes
    the current ledger, and in Apache's broker a closed ledger is the current one until the next is made.)

    Terminating closes the last ledger, but readers without a durable cursor lose nothing: the ledger stays as long as
    it would if it were open and idle (`is_due`).
    """
    first_needed = None if slowest is None else _first_needed(ledgers, slowest)
    final_id = None if terminated is None else terminated.ledger_id
    remaining = ledgers.size
    chosen: list[int] = []
    for info in ledgers.infos:
        if info.ledger_id == ledgers.current_id:
            return Trim(tuple(chosen), "current")
        if first_needed is None and info.ledger_id == ledgers.last_id:
            return Trim(tuple(chosen), "last")
        if first_needed is not None and info.ledger_id >= first_needed:
            return Trim(tuple(chosen), "cursor")
        if info.ledger_id == final_id and now_ms - info.closed_ms < 1000 * max(IDLE_SECONDS, config.age_min_s):
            return Trim(tuple(chosen), "end")
        remaining -= info.size
        expired = 0 <= config.retention_ms < now_ms - info.closed_ms or config.retention_ms == 0
        over_quota = 0 <= config.retention_bytes <= remaining
        if not expired and not over_quota:
            return Trim(tuple(chosen), "retention")
        chosen.append(info.ledger_id)
    return Trim(tuple(chosen), None)


def _first_needed(ledgers: LedgerList, mark_delete: Position) -> int:
    """Returns the first ledger id that a cursor at `mark_delete` still needs."""
    last = ledgers.last_entry(mark_delete.ledger_id)
    passed = last is not None and mark_delete.entry_id >= last and mark_delete.ledger_id != ledgers.current_id
    return mark_delete.ledger_id + 1 if passed else mark_delete.ledger_id
