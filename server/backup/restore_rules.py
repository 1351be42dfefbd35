"""What a restored server's metadata says differently from the copy in the backup."""

import struct
from collections.abc import Iterable, Mapping

from magnetar.metadata.embedded.record_rows import Row, row_of
from magnetar.metadata.tree_rules import RecordNode
from magnetar.server.backup.manifest_rules import Manifest
from pulsar_proto.records.ledger_record import LedgerMetadata, ledger_id_of_path

_ENTRY_ID_AND_LENGTH = struct.Struct(">8xq8xq")
"""Two fields of an entry's header: the entry id, and the length of all payloads up to the entry."""


def rows_of_restored(rows: Iterable[Row], manifest: Manifest, last_entries: Mapping[int, bytes]) -> list[Row]:
    """Returns the records for the restored server. A ledger that was open is closed at its last entry if it lacks
    entries: recovery would take the first of them for the ledger's end, and give up those behind it.

    `last_entries` holds the last entry of each ledger that lacks some. Raises MalformedRecord."""
    return [_restored(row, manifest, last_entries) for row in rows]


def _restored(row: Row, manifest: Manifest, last_entries: Mapping[int, bytes]) -> Row:
    path, value, version, created_ms, modified_ms, sequence, _ = row
    ledger_id = ledger_id_of_path(path)
    if ledger_id is None or not manifest.ledgers[ledger_id].missing:
        return row
    metadata = LedgerMetadata.parse(ledger_id, value)
    if metadata.is_closed:
        return row
    entry = last_entries.get(ledger_id)
    last_entry_id, length = (-1, 0) if entry is None else _ENTRY_ID_AND_LENGTH.unpack_from(entry)
    closed = metadata.closed(last_entry_id, length).serialize()
    return row_of(path, RecordNode(closed, version + 1, created_ms, modified_ms, sequence=sequence))
