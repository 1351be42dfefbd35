"""Finds the first and last message of a compacted topic for a consumer with `read_compacted`, when the log itself no
longer holds those messages.

Source: ServerCnx.getLargestBatchIndexWhenPossible, handleLastMessageIdFromCompactionService.
"""

from typing import Protocol

from magnetar.server.compaction.compaction_rules import begins_in_the_past, last_batch_index
from magnetar.server.compaction.stored_entry import open_entry
from magnetar.server.compaction.topic_compaction import TopicCompaction
from magnetar.server.process.turns import Turns
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.managed_ledger import ManagedLedger
from magnetar.storage.managed.managed_ledger_errors import EntryReadFault
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import EARLIEST, Position


class CursorPosition(Protocol):
    """The properties of a subscription's cursor that this module uses."""

    @property
    def mark_delete(self) -> Position: ...

    @property
    def durable(self) -> bool: ...


async def last_kept(label: str, compaction: TopicCompaction, last: Position) -> tuple[Position, int] | None:
    """Returns the last message of the compacted ledger as (position, batch index); the batch index is -1 when the entry
    is no batch. The position is EARLIEST when compaction kept nothing. Returns None when the log's `last` message is a
    later one, or when the topic was never compacted. `label` is the log's name, for errors. Raises EntryReadFault."""
    horizon = compaction.horizon
    if horizon is None or last > horizon:
        return None
    compacted = await compaction.compacted()
    if compacted is None:
        return None
    try:
        kept = await compacted.last()
    except (LedgerError, MalformedRecord) as error:
        raise EntryReadFault(label, f"compacted ledger {compacted.ledger_id}: {error}") from error
    if kept is None:
        return EARLIEST, -1
    entry = await open_entry(kept.payload, compaction.batch_bytes_max, Turns())
    return kept.position, last_batch_index(entry)


async def first_kept_at(ledger: ManagedLedger, compaction: TopicCompaction, publish_time_ms: int) -> Position | None:
    """Returns the position of the first message that was published at `publish_time_ms` or later, if the log has been
    trimmed beyond that message and only the compacted ledger holds it. Returns None otherwise. Raises
    EntryReadFault."""
    compacted = await compaction.compacted()
    if compacted is None:
        return None
    try:
        found = await compacted.read(await compacted.index_at_time(publish_time_ms), 1, 1)
    except (LedgerError, MalformedRecord) as error:
        raise EntryReadFault(ledger.label, f"compacted ledger {compacted.ledger_id}: {error}") from error
    return found[0].position if found and found[0].position < ledger.first_position else None


def mark_delete_seen(asked: Position | None, cursor: CursorPosition, first: Position) -> Position:
    """Returns the mark-delete position that the broker reports to a consumer. By comparing this position with the last
    message, the consumer knows whether there are messages to read. For a consumer that begins in the compacted ledger,
    before the log's `first` message, this is the position before `asked`; for any other consumer it is the cursor's own
    mark-delete position."""
    if asked is None or not begins_in_the_past(asked, cursor.mark_delete, first, cursor.durable):
        return cursor.mark_delete
    return Position(asked.ledger_id, asked.entry_id - 1) if asked.entry_id > 0 else EARLIEST
