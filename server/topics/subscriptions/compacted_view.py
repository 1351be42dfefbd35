"""A topic's log as a consumer with `read_compacted` sees the log: first the compacted ledger, then the later messages
as they were written.

The dispatcher reads from this view in place of the managed ledger. The compacted ledger still holds messages that were
trimmed from the log. So a consumer that asks for the earliest message, or for a trimmed message, begins in the
compacted ledger.

Sources: CompactedTopicUtils.asyncReadCompactedEntries, PersistentDispatcherSingleActiveConsumer.readMoreEntries.
"""

from collections.abc import Sequence

from magnetar.server.compaction.compacted_ledger import CompactedLedger, KeptMessage
from magnetar.server.compaction.compaction_rules import begins_in_the_past, remaining_indexes
from magnetar.server.compaction.stored_entry import open_entry
from magnetar.server.compaction.topic_compaction import TopicCompaction
from magnetar.server.process.turns import Turns
from magnetar.server.topics.subscriptions.outgoing_messages import OutgoingMessages, messages_of
from magnetar.server.topics.transactions.readable_log import ReadableLog
from magnetar.storage.ledger.ledger_errors import LedgerError
from magnetar.storage.managed.ack_sets import mask_of_words, words_of_mask
from magnetar.storage.managed.cursor import Cursor
from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.managed_ledger_errors import EntryReadFault
from pulsar_proto.errors import MalformedRecord
from pulsar_proto.ids import Position


class SparseRun(EntryRun):
    """Some entries of one ledger of the log, not necessarily consecutive entries. `entries` holds the payloads."""

    __slots__ = ("entry_ids", "remaining")

    def __init__(
        self, ledger_id: int, entry_ids: list[int], payloads: list[bytes], remaining: dict[tuple[int, int], int]
    ) -> None:
        super().__init__(ledger_id, entry_ids[0], payloads, 0)
        self.entry_ids = entry_ids
        self.remaining = remaining
        """For each batch from which compaction removed messages: (ledger, entry) -> the remaining batch indexes, as
        bits."""

    @property
    def end_entry_id(self) -> int:
        return self.entry_ids[-1] + 1


class CompactedView:
    """The view of one subscription. The dispatcher uses this view in place of the `ManagedLedger` and the `Cursor`, so
    the methods of the view have the names of the methods of these two classes."""

    def __init__(
        self,
        name: str,
        ledger: ReadableLog,
        compaction: TopicCompaction,
        cursor: Cursor,
        sought: Position | None = None,
    ) -> None:
        """`name` is the subscription's name, for errors; `sought` is the target of the subscription's last seek."""
        self._sought = sought
        self._name = name
        self._ledger = ledger
        self._compaction = compaction
        self._cursor = cursor
        self._next: tuple[CompactedLedger, Position, int] | None = None
        """Where the last read ended: (the compacted ledger, the next position in the log, the index of the next entry
        in the compacted ledger)."""
        self._remaining: dict[tuple[int, int], int] = {}
        """The `SparseRun.remaining` of the run that was sent last."""

    # --- methods of the managed ledger -------------------------------------------------------------------------------

    @property
    def last_confirmed(self) -> Position:
        return self._ledger.last_confirmed

    def next_position(self, position: Position) -> Position:
        return self._ledger.next_position(position)

    def cached(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun | None:
        if self._is_compacted(position):
            return None
        return self._ledger.cached(position, max_entries, max_bytes)

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun:
        """Returns entries from `position` on. Raises EntryReadFault when the compacted ledger cannot be read, and the
        errors of `ManagedLedger.read`."""
        while True:
            in_use = self._compaction.ledger_id
            if self._is_compacted(position):
                run = await self._read_kept(position, max_entries, max_bytes)
                if run is not None:
                    return run
                if self._compaction.ledger_id != in_use:
                    continue
                position = self._after_horizon(position)
            found = await self._ledger.read(position, max_entries, max_bytes)
            is_whole = bool(found.entries) and (found.ledger_id, found.first_entry_id) == position
            if is_whole or self._compaction.ledger_id == in_use:
                return found
            # The message at `position` may have been compacted and trimmed meanwhile, so the loop looks again.

    def _after_horizon(self, position: Position) -> Position:
        """Returns the first position after the part of the log that compaction has processed."""
        horizon = self._compaction.horizon
        return position if horizon is None else Position(horizon.ledger_id, horizon.entry_id + 1)

    async def _read_kept(self, position: Position, max_entries: int, max_bytes: int) -> SparseRun | None:
        """Reads from the compacted ledger. Returns None when the compacted ledger has no entry at or after the
        position, or when another compacted ledger has replaced this ledger meanwhile."""
        compacted = await self._compaction.compacted()
        if compacted is None:
            return None
        try:
            return await self._read_compacted(compacted, position, max_entries, max_bytes)
        except (LedgerError, MalformedRecord) as error:
            if self._compaction.ledger_id != compacted.ledger_id:
                return None
            raise EntryReadFault(self._name, f"compacted ledger {compacted.ledger_id}: {error}") from error

    def _is_compacted(self, position: Position) -> bool:
        """Whether the compacted ledger, not the log, is read for this position."""
        horizon = self._compaction.horizon
        return horizon is not None and position <= horizon

    async def _read_compacted(
        self, compacted: CompactedLedger, position: Position, max_entries: int, max_bytes: int
    ) -> SparseRun | None:
        """Reads from `compacted`. Returns None when compaction kept no message at or after `position`."""
        index = await self._index_of(compacted, position)
        found = await compacted.read(index, max_entries, max_bytes)
        if not found:
            return None
        ledger_id = found[0].position.ledger_id
        same = [each for each in found if each.position.ledger_id == ledger_id]
        entry_ids = [each.position.entry_id for each in same]
        run = SparseRun(ledger_id, entry_ids, [each.payload for each in same], await self._masks(same))
        self._next = (compacted, Position(ledger_id, run.end_entry_id), index + len(same))
        return run

    async def _masks(self, kept: Sequence[KeptMessage]) -> dict[tuple[int, int], int]:
        """Returns (ledger, entry) -> the remaining batch indexes, as bits, for each batch from which compaction removed
        messages."""
        turns = Turns()
        masks = {}
        for position, payload in kept:
            entry = await open_entry(payload, self._compaction.batch_bytes_max, turns)
            mask = remaining_indexes(entry)
            if mask is not None:
                masks[position.ledger_id, position.entry_id] = mask
            await turns.breathe()
        return masks

    async def _index_of(self, compacted: CompactedLedger, position: Position) -> int:
        """Returns the index in the compacted ledger of the first entry at or after `position`."""
        if self._next is not None and self._next[0] is compacted and self._next[1] == position:
            return self._next[2]
        return await compacted.index_of(position)

    def messages_of(self, run: EntryRun) -> OutgoingMessages:
        if not isinstance(run, SparseRun):
            return messages_of(run)
        self._remaining = run.remaining
        dense = messages_of(EntryRun(run.ledger_id, 0, run.entries, 0))
        specials = {run.entry_ids[index]: special for index, special in (dense.specials or {}).items()}
        return OutgoingMessages(run.ledger_id, run.entry_ids, dense.payloads, dense.sizes, specials=specials or None)

    # --- methods of the cursor ---------------------------------------------------------------------------------------

    def unacked_runs(self, ledger_id: int, first: int, count: int) -> list[tuple[int, int]]:
        """Returns the runs of unacknowledged entries. Before the mark-delete position every entry counts as
        unacknowledged, because a consumer that begins to read there asks for trimmed messages, acknowledged or not."""
        if Position(ledger_id, first) <= self._cursor.mark_delete:
            return [(first, count)]
        return self._cursor.unacked_runs(ledger_id, first, count)

    def ack_set_of(self, ledger_id: int, entry_id: int) -> Sequence[int] | None:
        """Returns the entry's ack set. Messages that compaction removed from a batch count as acknowledged: Java
        clients skip such messages anyway, but C++ clients would deliver them to the application as empty messages."""
        words = self._cursor.ack_set_of(ledger_id, entry_id)
        mask = self._remaining.get((ledger_id, entry_id))
        if mask is None:
            return words
        return words_of_mask(mask if words is None else mask & mask_of_words(words)) or [0]

    def start(self, asked: Position | None) -> Position:
        """Returns the position where reading begins for a consumer that asked for messages from `asked` on. An `asked`
        of None stands for new messages only. After a seek, the target of the seek takes the place of `asked`."""
        mark_delete = self._cursor.mark_delete
        asked = asked if self._sought is None else self._sought
        if asked is not None and begins_in_the_past(
            asked, mark_delete, self._ledger.first_position, self._cursor.durable
        ):
            return asked
        return self._cursor.next_unacked(mark_delete)
