"""The journal's bytes: a file header, then batches; what one fdatasync made durable is one batch. No I/O here.

    file header, 32 bytes: "MGJF", u32 version 1, u64 journal id, u64 sequence number of its first batch,
                           u32 zero, u32 CRC32C of the 28 bytes before
    batch, 40 + n bytes:   "MGJB", u32 CRC32C of all that follows in the batch, u64 journal id, u64 sequence number,
                           u32 kind, u32 control records, u32 records, u32 bytes that follow the header,
                           then u32 length per record, then the records

Control records come first in a batch; they are laid out as Apache's special journal entries (i64 ledger, i64 negative
entry id, ...) but, unlike there, are told apart by their place, since clients may store negative entry ids. Every other
record is an entry as the client made it, which begins with i64 ledger id, i64 entry id.

Sequence numbers grow by one from batch to batch and across files; there is no padding. Since one batch at a time is
written and synced, bytes behind a damaged batch that hold a whole later batch prove that the damaged one was durable.
All integers are big-endian.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import NamedTuple

from pulsar_proto.checksum import crc32c

FILE_MAGIC = b"MGJF"
FILE_VERSION = 1
FILE_HEADER_SIZE = 32
BATCH_MAGIC = b"MGJB"
BATCH_HEADER_SIZE = 40
MAX_BATCH_BYTES = 1 << 30
"""A length beyond this is damage, not a batch: no memory is asked for it."""

_FILE_HEADER = struct.Struct(">4sIQQI")
_BATCH_START = struct.Struct(">4sI")
_BATCH_REST = struct.Struct(">QQIIII")
_U32 = struct.Struct(">I")
_IDS = struct.Struct(">qq")
_KEY_RECORD = struct.Struct(">qqI")

LEDGER_KEY = -0x1000
FENCE = -0x2000

_JOINED_PIECE_BYTES = 64 << 10
_LARGE_ENTRY_BYTES = 32 << 10


class BatchKind(IntEnum):
    RECORDS = 0
    CONTINUED = 1
    """The last batch of a file: the next file exists and is in use."""


class JournalPosition(NamedTuple):
    """Between two batches. Ordered. `sequence` is the number that the next batch will have."""

    journal_id: int
    offset: int
    sequence: int


class BatchHeader(NamedTuple):
    crc: int
    journal_id: int
    sequence: int
    kind: int
    controls: int
    records: int
    length: int


class ControlRecord(NamedTuple):
    """`data`: the master key of LEDGER_KEY, empty for FENCE. Other kinds are for later versions: skip them."""

    ledger_id: int
    kind: int
    data: bytes


def file_header(journal_id: int, first_sequence: int) -> bytes:
    head = _FILE_HEADER.pack(FILE_MAGIC, FILE_VERSION, journal_id, first_sequence, 0)
    return head + _U32.pack(crc32c(head))


def parse_file_header(data: bytes) -> tuple[int, int]:
    """(journal id, first sequence number); ValueError says what is wrong."""
    if len(data) < FILE_HEADER_SIZE:
        raise ValueError("the file is shorter than its header")
    magic, version, journal_id, first_sequence, _ = _FILE_HEADER.unpack_from(data)
    if magic != FILE_MAGIC:
        raise ValueError("not a journal file")
    if crc32c(data[: _FILE_HEADER.size]) != _U32.unpack_from(data, _FILE_HEADER.size)[0]:
        raise ValueError("header checksum mismatch")
    if version != FILE_VERSION:
        raise ValueError(f"journal format {version}, this program knows {FILE_VERSION}")
    return journal_id, first_sequence


def encode_batch(
    journal_id: int,
    sequence: int,
    controls: Sequence[bytes],
    entries: list[bytes],
    entry_lengths: list[int],
    kind: BatchKind = BatchKind.RECORDS,
) -> list[bytes]:
    """Buffers to write one after the other; small entries are joined into pieces of some 64 KB, large ones never.

    Pieces because one checksum call over megabytes gives the interpreter lock away and waits to get it back.
    """
    lengths = [*map(len, controls), *entry_lengths]
    table = struct.pack(f">{len(lengths)}I", *lengths)
    payload = sum(lengths)
    rest = _BATCH_REST.pack(journal_id, sequence, kind, len(controls), len(lengths), len(table) + payload)
    head = b"".join((rest, table, *controls))
    crc = crc32c(head)
    pieces = entries
    if entries and payload < _LARGE_ENTRY_BYTES * len(entries):
        step = max(1, _JOINED_PIECE_BYTES * len(entries) // (payload + 1))
        pieces = [b"".join(entries[start : start + step]) for start in range(0, len(entries), step)]
    for piece in pieces:
        crc = crc32c(piece, crc)
    return [_BATCH_START.pack(BATCH_MAGIC, crc) + head, *pieces]


def parse_batch_header(data: bytes) -> BatchHeader | None:
    """None where the bytes cannot begin a batch. Nothing is proven until `verify_batch`."""
    if len(data) < BATCH_HEADER_SIZE or data[:4] != BATCH_MAGIC:
        return None
    (crc,) = _U32.unpack_from(data, 4)
    header = BatchHeader(crc, *_BATCH_REST.unpack_from(data, 8))
    if header.length > MAX_BATCH_BYTES or header.length < 4 * header.records or header.controls > header.records:
        return None
    return header


def verify_batch(header_bytes: bytes, body: bytes, header: BatchHeader) -> bool:
    """`header_bytes` are the 40 that `header` came from, `body` the bytes behind them."""
    return len(body) == header.length and crc32c(body, crc32c(header_bytes[8:])) == header.crc


def split_batch(header: BatchHeader, body: bytes) -> tuple[list[ControlRecord], list[bytes]]:
    """The control records and the entries of a verified batch."""
    table_size = 4 * header.records
    lengths = struct.unpack_from(f">{header.records}I", body)
    ends = accumulate(lengths, initial=table_size)
    records = [body[start:end] for start, end in pairwise(ends)]
    return [parse_control(record) for record in records[: header.controls]], records[header.controls :]


def ledger_key_record(ledger_id: int, master_key: bytes) -> bytes:
    return _KEY_RECORD.pack(ledger_id, LEDGER_KEY, len(master_key)) + master_key


def fence_record(ledger_id: int) -> bytes:
    return _IDS.pack(ledger_id, FENCE)


def parse_control(record: bytes) -> ControlRecord:
    ledger_id, kind = _IDS.unpack_from(record)
    return ControlRecord(ledger_id, kind, record[_KEY_RECORD.size :])
