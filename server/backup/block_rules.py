"""The form of a backup's bytes, in its files as on their way: blocks with a checksum, of records or of entries.

    block     u32 length of the body, u32 CRC32C of the body, the body
    records   for each: i64 version, i64 created, i64 modified, i64 sequence, u32 crc, u32 and u32 lengths, path, value
    entries   for each: u32 length, the entry as the bookie stores it (i64 ledger id, i64 entry id, …)

A record is a row of the metadata file with the row's own checksum (docs/DATA_FILES.md, section 8).
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from magnetar.metadata.embedded.record_rows import Row
from magnetar.server.backup.backup_errors import StreamError
from pulsar_proto.checksum import crc32c

BLOCK_HEAD = struct.Struct(">II")
BODY_BYTES_MAX = 64 << 20
"""A longer body is taken for damage. An entry has at most 5 MiB, a record of the metadata less than 16 MiB."""

_ROW_HEAD = struct.Struct(">qqqqIII")
_LENGTH = struct.Struct(">I")
_IDS = struct.Struct(">qq")


def block(body: bytes) -> bytes:
    return BLOCK_HEAD.pack(len(body), crc32c(body)) + body


def check_length(length: int) -> None:
    """Raises StreamError for a length that no block has."""
    if length > BODY_BYTES_MAX:
        raise StreamError(f"a block of {length} bytes is announced, {BODY_BYTES_MAX} are allowed")


def check_body(body: bytes, checksum: int) -> None:
    """Raises StreamError when the body contradicts its checksum."""
    if crc32c(body) != checksum:
        raise StreamError("a block does not fit its checksum")


def encode_rows(rows: Iterable[Row]) -> bytes:
    parts = []
    for path, value, version, created_ms, modified_ms, sequence, crc in rows:
        name = path.encode()
        parts.append(_ROW_HEAD.pack(version, created_ms, modified_ms, sequence, crc, len(name), len(value)))
        parts += name, value
    return b"".join(parts)


def decode_rows(body: bytes) -> list[Row]:
    """Returns the rows of a block. Raises StreamError for bytes that are no rows."""
    rows: list[Row] = []
    at = 0
    try:
        while at < len(body):
            version, created_ms, modified_ms, sequence, crc, name_bytes, value_bytes = _ROW_HEAD.unpack_from(body, at)
            name_at = at + _ROW_HEAD.size
            value_at = name_at + name_bytes
            at = value_at + value_bytes
            if at > len(body):
                raise StreamError("a record is longer than its block")
            path = body[name_at:value_at].decode()
            rows.append((path, body[value_at:at], version, created_ms, modified_ms, sequence, crc))
    except (struct.error, UnicodeDecodeError) as error:
        raise StreamError(f"a block holds no records: {error}") from None
    return rows


def encode_entries(entries: Sequence[bytes]) -> bytes:
    return b"".join(part for entry in entries for part in (_LENGTH.pack(len(entry)), entry))


def decode_entries(body: bytes, ledger_id: int) -> Iterator[tuple[int, bytes]]:
    """Yields the entries of a block with their ids. Raises StreamError for bytes that are no entries of the ledger, or
    whose ids do not ascend."""
    at, before = 0, -1
    while at < len(body):
        if at + _LENGTH.size + _IDS.size > len(body):
            raise StreamError("a block of entries breaks off")
        (length,) = _LENGTH.unpack_from(body, at)
        found, entry_id = _IDS.unpack_from(body, at + _LENGTH.size)
        at += _LENGTH.size
        if length < _IDS.size or at + length > len(body):
            raise StreamError("an entry is longer than its block")
        if found != ledger_id or entry_id <= before:
            raise StreamError(f"entry {entry_id} of ledger {found} stands where ledger {ledger_id} goes on")
        yield entry_id, body[at : at + length]
        at, before = at + length, entry_id
