"""Finds the last message of a persistent topic that a consumer may get, for GET_LAST_MESSAGE_ID.

Source: ServerCnx.getLargestBatchIndexWhenPossible, PersistentTopic.getLastDispatchablePosition.
"""

import logging

from magnetar.server.process.storage_faults import storage_faults_told
from magnetar.server.topics.transactions.transaction_buffer import BufferState, TransactionBuffer
from magnetar.storage.managed.managed_ledger import ManagedLedger
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.records.payload import (
    count_and_special,
    parse_metadata,
    skip_broker_entry_metadata,
)
from pulsar_proto.records.usual_metadata import is_single_and_plain

log = logging.getLogger(__name__)

READ_BACK_ENTRIES = 100
READ_BACK_BYTES = 1 << 20


class LastMessage:
    """The last message of one topic. While no message is appended and no transaction ends, the last message stays the
    same, so it is looked for only once."""

    __slots__ = ("_found", "_ledger", "_transactions", "_upto")

    def __init__(self, ledger: ManagedLedger, transactions: TransactionBuffer | None) -> None:
        self._ledger = ledger
        self._transactions = transactions
        self._upto = EARLIEST
        """The end up to which messages of transactions were looked through last."""
        self._found = EARLIEST
        """The last message up to there."""

    async def find(self) -> tuple[Position, int]:
        """Returns (position of the last message, batch index of the last message or -1 if the entry is no batch). The
        position is (-1, -1) when no message is left. Raises PulsarError when the log cannot be read."""
        transactions = self._transactions
        if transactions is None or transactions.state is BufferState.NO_SNAPSHOT:
            last = self._ledger.last_confirmed
        else:
            with storage_faults_told():
                last = await self._last_readable(transactions)
        if last.entry_id < 0 or last < self._ledger.first_position:
            return EARLIEST, -1
        return await self._with_batch_index(last)

    async def _last_readable(self, transactions: TransactionBuffer) -> Position:
        """Returns the last entry that is no marker and belongs to no aborted transaction. Reads backwards, at most down
        to the entries that an earlier call has looked through. Raises ManagedLedgerError."""
        ledger = self._ledger
        upto = end = transactions.max_read_position
        found: Position | None = None
        count = 1
        while found is None and end > self._upto and end.entry_id >= 0 and end >= ledger.first_position:
            start = Position(end.ledger_id, max(0, end.entry_id - count + 1))
            found = await self._last_message_among(start, end, transactions)
            end = ledger.previous_position(start)
            count = READ_BACK_ENTRIES
        if upto >= self._upto:
            self._upto, self._found = upto, found or self._found
        return self._found

    async def _last_message_among(
        self, start: Position, end: Position, transactions: TransactionBuffer
    ) -> Position | None:
        """Returns the last message from `start` to `end`, which are in one ledger. Raises ManagedLedgerError."""
        found: Position | None = None
        while start <= end:
            run = await self._ledger.read(start, end.entry_id - start.entry_id + 1, READ_BACK_BYTES)
            if not run.entries or run.ledger_id != end.ledger_id:
                break
            for entry_id, entry in enumerate(run.entries, run.first_entry_id):
                if entry_id <= end.entry_id and _is_message(entry[run.payload_offset :], transactions):
                    found = Position(run.ledger_id, entry_id)
            start = Position(run.ledger_id, run.end_entry_id)
        return found

    async def _with_batch_index(self, last: Position) -> tuple[Position, int]:
        ledger = self._ledger
        run = ledger.cached(last, 1, 1)
        if run is None:
            with storage_faults_told():
                run = await ledger.read(last, 1, 1)
                while not run.entries and (gap := ledger.gaps.at(last)) is not None:
                    last = ledger.previous_position(Position(gap.ledger_id, gap.first))
                    run = await ledger.read(last, 1, 1)
        if not run.entries:
            return EARLIEST, -1
        position = Position(run.ledger_id, run.first_entry_id)
        try:
            metadata = parse_metadata(run.entries[0], run.payload_offset)
        except MalformedFrame as error:
            log.warning("%s: the last message %s cannot be understood: %s", ledger.label, position, error)
            return position, -1
        if not metadata.HasField("num_messages_in_batch"):
            return position, -1
        return position, max(1, metadata.num_messages_in_batch) - 1


def _is_message(payload: bytes, transactions: TransactionBuffer) -> bool:
    """Whether consumers get the entry. They get an entry that cannot be understood, too."""
    if is_single_and_plain(payload):
        return True
    try:
        special = count_and_special(payload[skip_broker_entry_metadata(payload) :])[1]
    except MalformedFrame:
        return True
    if special is None:
        return True
    return not special.is_marker and (special.txn_id is None or not transactions.is_aborted(special.txn_id))
