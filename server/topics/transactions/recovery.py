"""Reads a topic's log after a restart, to find the transactions that are open or were aborted in it.

Source: TopicTransactionBuffer.TopicTransactionBufferRecover.
"""

from typing import Protocol

from magnetar.server.process.turns import Turns
from magnetar.server.topics.transactions.buffer_rules import OpenTransactions
from magnetar.storage.managed.entry_run import EntryRun
from pulsar_proto.errors import MalformedFrame
from pulsar_proto.ids import Position
from pulsar_proto.records.payload import parse_metadata, txn_of
from pulsar_proto.records.transaction_marker import marker_of
from pulsar_proto.records.usual_metadata import is_single_and_plain

READ_ENTRIES_MAX = 100
READ_BYTES_MAX = 1 << 20


class ReadLog(Protocol):
    """The methods of a managed ledger that recovery uses."""

    @property
    def last_confirmed(self) -> Position: ...

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun: ...


async def read_transactions(log: ReadLog, after: Position, transactions: OpenTransactions, now_ms: int) -> int:
    """Tells `transactions` of all entries behind `after`, up to the end that the log has now. Returns how many entries
    were read. Raises ManagedLedgerError when the log cannot be read."""
    turns = Turns()
    end = log.last_confirmed
    at = Position(after.ledger_id, after.entry_id + 1)
    entries = 0
    while at <= end:
        run = await log.read(at, READ_ENTRIES_MAX, READ_BYTES_MAX)
        if not run.entries:
            break
        for entry_id, entry in enumerate(run.entries, run.first_entry_id):
            _see(entry, run.payload_offset, Position(run.ledger_id, entry_id), transactions, now_ms)
            await turns.breathe()
        entries += len(run.entries)
        at = Position(run.ledger_id, run.end_entry_id)
    return entries


def _see(entry: bytes, offset: int, position: Position, transactions: OpenTransactions, now_ms: int) -> None:
    """An entry whose metadata cannot be decoded belongs to no transaction."""
    payload = entry[offset:]
    if is_single_and_plain(payload):
        return
    try:
        metadata = parse_metadata(payload)
    except MalformedFrame:
        return
    marker = marker_of(metadata)
    txn_id = txn_of(metadata)
    if marker is not None and marker.commits:
        transactions.committed(marker.txn_id)
    elif marker is not None:
        transactions.aborted_at(marker.txn_id, position)
    elif txn_id is not None:
        transactions.stored(txn_id, position, now_ms)
