"""Decides what keeps each ledger of a managed ledger from being deleted. Pure. `trimmer` deletes the ledgers at the
beginning of the list that nothing keeps, and tells people what keeps the others: both ask `_judged`, so that the
explanation and the deletion cannot disagree.

Readers without a durable cursor keep nothing. Source: ManagedLedgerImpl.internalTrimLedgers.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from magnetar.storage.managed.ledger_list import LedgerInfo, LedgerList
from magnetar.storage.managed.ledger_rules import IDLE_SECONDS
from magnetar.storage.managed.managed_ledger_config import ManagedLedgerConfig
from pulsar_proto.ids import Position

LEDGERS_TOLD_MAX = 500
CURSORS_TOLD_MAX = 10
"""For how many ledgers an explanation is given, the oldest first, and how many cursors it names for each of them. With
more, an explanation would hold up the event loop."""


class KeptBy(StrEnum):
    """What keeps a ledger."""

    CURRENT = "current"
    """Entries are written to the ledger."""
    LAST = "last"
    """No durable cursor exists, and the ledger is the last one. It stays, even when it is closed, until there is a next
    one, so that a reader that begins at the earliest message finds the last messages. (In Apache's broker a closed
    ledger is the current one until the next is made, and the current one is never deleted.)"""
    CURSOR = "cursor"
    """A durable cursor, or somebody who holds a position like one, has not passed the ledger."""
    END = "end"
    """The ledger is the last one of a terminated managed ledger, and was closed a short time ago. Terminating closes
    the last ledger, but readers without a durable cursor lose nothing: the ledger stays as long as it would if it were
    open and idle (`is_due`)."""
    RETENTION = "retention"
    """The ledger is neither older than the retention time nor over the size that may stay."""
    EARLIER = "earlier"
    """Nothing but an earlier ledger, which is kept: ledgers are deleted from the beginning."""


class Need(NamedTuple):
    """A durable cursor, or somebody who holds a position like one. All entries after `position` are needed."""

    name: str
    position: Position


class Keeper(NamedTuple):
    """One thing that keeps one ledger."""

    by: KeptBy
    need: Need | None = None
    """Who has not passed the ledger, for CURSOR."""
    until_ms: int | None = None
    """The last moment at which the ledger is kept, for END and RETENTION; None when no time ends it."""
    bytes_missing: int | None = None
    """How many more bytes must follow until the ledger may go by size, for RETENTION; None when no size ends it."""
    earlier_id: int = -1
    """The ledger that has to go first, for EARLIER."""

    def __str__(self) -> str:
        return self.by.value if self.need is None else f"{self.by.value} {self.need.name}"


class KeptLedger(NamedTuple):
    """A ledger and what keeps it; nothing keeps a ledger that is deleted at the next trim."""

    info: LedgerInfo
    keepers: list[Keeper]
    """Of cursors, at most the CURSORS_TOLD_MAX that are furthest behind, which come first."""
    cursors: int
    """How many cursors keep the ledger."""


@dataclass(frozen=True, slots=True)
class Trim:
    """The ledgers that may be deleted, and what keeps the first of the others (which explains why a disk is not
    freed)."""

    ledger_ids: tuple[int, ...]
    keeper: Keeper | None
    """The first of those that keep the first ledger that stays, or None when no ledger is left. Of cursors, it is the
    one that is furthest behind."""


def choose_trim(
    config: ManagedLedgerConfig,
    ledgers: LedgerList,
    needs: Iterable[Need],
    now_ms: int,
    *,
    terminated: Position | None = None,
) -> Trim:
    """Chooses the ledgers at the beginning of the list that nothing keeps."""
    slowest = min(needs, key=_position_of, default=None)
    chosen: list[int] = []
    for kept in _judged(config, ledgers, () if slowest is None else (slowest,), now_ms, terminated):
        if kept.keepers:
            return Trim(tuple(chosen), kept.keepers[0])
        chosen.append(kept.info.ledger_id)
    return Trim(tuple(chosen), None)


def explained(
    config: ManagedLedgerConfig,
    ledgers: LedgerList,
    needs: Iterable[Need],
    now_ms: int,
    *,
    terminated: Position | None = None,
) -> list[KeptLedger]:
    """Returns the first LEDGERS_TOLD_MAX ledgers, each with what keeps it."""
    found: list[KeptLedger] = []
    first_kept = -1
    judged = _judged(config, ledgers, sorted(needs, key=_position_of), now_ms, terminated)
    for kept in islice(judged, LEDGERS_TOLD_MAX):
        if not kept.keepers and first_kept >= 0:
            kept = kept._replace(keepers=[Keeper(KeptBy.EARLIER, earlier_id=first_kept)])
        elif kept.keepers and first_kept < 0:
            first_kept = kept.info.ledger_id
        found.append(kept)
    return found


def _judged(
    config: ManagedLedgerConfig,
    ledgers: LedgerList,
    needs: Sequence[Need],
    now_ms: int,
    terminated: Position | None,
) -> Iterator[KeptLedger]:
    """Yields the ledgers in order, each with what keeps it once all ledgers before it are gone. A ledger may only be
    deleted together with all ledgers before it. `needs` are in order of their positions; the first one decides whether
    cursors keep a ledger."""
    first_needed = [_first_needed(ledgers, need.position) for need in needs]
    remaining = ledgers.size
    for info in ledgers.infos:
        remaining -= info.size
        keepers: list[Keeper] = []
        is_current = info.ledger_id == ledgers.current_id
        if is_current:
            keepers.append(Keeper(KeptBy.CURRENT))
        elif not needs and info.ledger_id == ledgers.last_id:
            keepers.append(Keeper(KeptBy.LAST))
        cursors = bisect_right(first_needed, info.ledger_id)
        keepers += (Keeper(KeptBy.CURSOR, need) for need in needs[: min(cursors, CURSORS_TOLD_MAX)])
        if not is_current:
            keepers += _by_time(config, info, remaining, now_ms, terminated)
        yield KeptLedger(info, keepers, cursors)


def _position_of(need: Need) -> Position:
    return need.position


def _by_time(
    config: ManagedLedgerConfig, info: LedgerInfo, remaining: int, now_ms: int, terminated: Position | None
) -> Iterator[Keeper]:
    """Yields what keeps a closed ledger for a time or by its size. `remaining` is how many bytes are left without
    it."""
    age_ms = now_ms - info.closed_ms
    if terminated is not None and info.ledger_id == terminated.ledger_id:
        stays_ms = int(1000 * max(IDLE_SECONDS, config.age_min_s))
        if age_ms < stays_ms:
            yield Keeper(KeptBy.END, until_ms=info.closed_ms + stays_ms - 1)
    expired = 0 <= config.retention_ms < age_ms or config.retention_ms == 0
    over_quota = 0 <= config.retention_bytes <= remaining
    if not expired and not over_quota:
        until_ms = info.closed_ms + config.retention_ms if config.retention_ms > 0 else None
        missing = config.retention_bytes - remaining if config.retention_bytes >= 0 else None
        yield Keeper(KeptBy.RETENTION, until_ms=until_ms, bytes_missing=missing)


def _first_needed(ledgers: LedgerList, mark_delete: Position) -> int:
    """Returns the first ledger id that a cursor at `mark_delete` still needs."""
    last = ledgers.last_entry(mark_delete.ledger_id)
    passed = last is not None and mark_delete.entry_id >= last and mark_delete.ledger_id != ledgers.current_id
    return mark_delete.ledger_id + 1 if passed else mark_delete.ledger_id
