"""The journal's bytes: a file header, then batches. One batch is what one fdatasync makes durable. No I/O here.

    file:   header (twice the same 32 bytes) │ batch │ batch │ … │ a batch that says "continued in the next file"

    batch:  "MGJB" │ header crc │ body crc, journal id, sequence, kind, counts │ lengths, control records, entries
                                  ╰───────── what the header crc covers ─────╯   ╰── what the body crc covers ──╯

The header has a checksum of its own, so that a search for batches need not read a body after all bytes that look like a
header. docs/DATA_FILES.md describes all fields, in "2. Journal: `<id>.journal`".

Control records are laid out as BookKeeper's special journal entries (i64 ledger id, i64 negative entry id, …), but
readers recognise them by their place in the batch, since clients may store entries with negative ids, too. Every other
record is an entry as its client made it, which begins with i64 ledger id and i64 entry id.

Sequence numbers grow by one from batch to batch, across files. Since a batch is written only after the batch before it
was synced, a whole batch behind a damaged batch proves that the damaged batch was durable. Both checksums continue from
the file's salt, which is random and secret. Thus no client can forge that proof with an entry whose bytes look like a
batch.
"""

import re
import struct
from collections.abc import Sequence
from contextlib import suppress
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import NamedTuple

from pulsar_proto.checksum import crc32c

FILE_MAGIC = b"MGJF"
FILE_VERSION = 2
_FIRST_VERSION = 1
SALT_BITS = 56
PAGE_SIZE = 4096
FILE_HEADER_SIZE = 64
BATCH_MAGIC = b"MGJB"
BATCH_HEADER_SIZE = 44
_FILE_HEADER = struct.Struct(">4sIQQI")
_HEADER_COPY_SIZE = 32
_BATCH_START = struct.Struct(">4sI")
_BATCH_REST = struct.Struct(">IQQIIII")
_U32 = struct.Struct(">I")
_IDS = struct.Struct(">qq")
_KEY_RECORD = struct.Struct(">qqI")

LEDGER_KEY = -0x1000
FENCE = -0x2000
EXPLICIT_LAC = -0x8000

_JOINED_PIECE_BYTES = 64 << 10
_LARGE_ENTRY_BYTES = 32 << 10


class BatchKind(IntEnum):
    RECORDS = 0
    CONTINUED = 1
    """The kind of the last batch of a file, which says that the next file exists and is in use."""


class JournalPosition(NamedTuple):
    """A place between two batches. Positions are ordered. `sequence` is the number of the batch that follows."""

    journal_id: int
    offset: int
    sequence: int


class BatchHeader(NamedTuple):
    """The fields of a batch's header, without the header's own checksum. `crc` is the checksum of the body. `records`
    is the number of all records, and `controls` the number of control records among them. `length` is the number of
    bytes after the header."""

    crc: int
    journal_id: int
    sequence: int
    kind: int
    controls: int
    records: int
    length: int


class Salt(NamedTuple):
    """The start values of a batch's two checksums, instead of 0: one for its header, one for its body."""

    header: int
    body: int


class ControlRecord(NamedTuple):
    """A change of a ledger's state. `data` is the master key of a LEDGER_KEY and the packet of an EXPLICIT_LAC; it is
    empty for a FENCE. Readers skip other kinds, which later versions may write."""

    ledger_id: int
    kind: int
    data: bytes


def salt_of_bits(bits: int) -> Salt:
    """Makes both salts from the SALT_BITS bits of a file header: the lower 32 and the upper 32 bits, which overlap."""
    return Salt(bits & 0xFFFFFFFF, bits >> (SALT_BITS - 32))


def file_header(journal_id: int, first_sequence: int, salt_bits: int) -> bytes:
    """Returns the header of a file. `salt_bits` is a random number of SALT_BITS bits."""
    version = salt_bits >> 32 << 8 | FILE_VERSION
    head = _FILE_HEADER.pack(FILE_MAGIC, version, journal_id, first_sequence, salt_bits & 0xFFFFFFFF)
    return 2 * (head + _U32.pack(crc32c(head)))


def parse_file_header(data: bytes) -> tuple[int, int, Salt]:
    """Returns (journal id, first sequence number, salt) of a header of 32 bytes or more, of format 1 or 2. Format 1 has
    a salt of 32 bits for both checksums. Raises ValueError, which says what is wrong."""
    if len(data) < _HEADER_COPY_SIZE:
        raise ValueError("the file is shorter than its header")
    magic, word, journal_id, first_sequence, lower = _FILE_HEADER.unpack_from(data)
    if magic != FILE_MAGIC:
        raise ValueError("not a journal file")
    if crc32c(data[: _FILE_HEADER.size]) != _U32.unpack_from(data, _FILE_HEADER.size)[0]:
        raise ValueError("header checksum mismatch")
    upper, version = word >> 8, word & 0xFF
    if version == _FIRST_VERSION and not upper:
        return journal_id, first_sequence, Salt(lower, lower)
    if version != FILE_VERSION:
        raise ValueError(f"journal format {version}, this program knows {_FIRST_VERSION} and {FILE_VERSION}")
    return journal_id, first_sequence, salt_of_bits(upper << 32 | lower)


def salt_of(header: bytes) -> Salt | None:
    """Returns the salt, from whichever copy of the header is whole. Returns None when both copies are damaged: in that
    case no batch of the file can be verified."""
    for start in (0, _HEADER_COPY_SIZE):
        with suppress(ValueError):
            return parse_file_header(header[start : start + _HEADER_COPY_SIZE])[2]
    return None


def encode_batch(
    journal_id: int,
    sequence: int,
    salt: Salt,
    controls: Sequence[bytes],
    entries: list[bytes],
    entry_lengths: list[int],
    kind: BatchKind = BatchKind.RECORDS,
) -> list[bytes]:
    """Returns the buffers of a batch, to be written one after the other.

    Small entries are joined into pieces of about 64 KB, so that one checksum call covers many of them; large entries
    are not copied. The pieces are not longer, because a checksum over megabytes releases the interpreter lock and has
    to wait to get it back.
    """
    lengths = [*map(len, controls), *entry_lengths]
    payload = sum(lengths)
    table = b"".join((struct.pack(f">{len(lengths)}I", *lengths), *controls))
    crc = crc32c(table, salt.body)
    pieces = entries
    if entries and payload < _LARGE_ENTRY_BYTES * len(entries):
        step = max(1, _JOINED_PIECE_BYTES * len(entries) // (payload + 1))
        pieces = [b"".join(entries[start : start + step]) for start in range(0, len(entries), step)]
    for piece in pieces:
        crc = crc32c(piece, crc)
    size = 4 * len(lengths) + payload
    rest = _BATCH_REST.pack(crc, journal_id, sequence, kind, len(controls), len(lengths), size)
    return [_BATCH_START.pack(BATCH_MAGIC, crc32c(rest, salt.header)) + rest + table, *pieces]


def padding(end: int) -> int:
    """Returns how many zeros fill the page after a batch that ends at `end`. The journal writes such zeros while bytes
    of the file's former use follow."""
    return -end % PAGE_SIZE


def batch_pattern(journal_id: int) -> re.Pattern[bytes]:
    """Returns a pattern that matches all places where a batch header of the journal may begin."""
    return re.compile(re.escape(BATCH_MAGIC) + b".{8}" + re.escape(journal_id.to_bytes(8, "big")), re.DOTALL)


def parse_batch_header(data: bytes, salt: Salt) -> BatchHeader | None:
    """Returns the header at the beginning of `data`. Returns None when no whole header of a file with this salt is
    there."""
    if len(data) < BATCH_HEADER_SIZE or data[:4] != BATCH_MAGIC:
        return None
    if crc32c(data[8:BATCH_HEADER_SIZE], salt.header) != _U32.unpack_from(data, 4)[0]:
        return None
    return BatchHeader(*_BATCH_REST.unpack_from(data, 8))


def verify_batch(header: BatchHeader, body: bytes, salt: Salt) -> bool:
    """Returns whether a batch is whole. `body` holds as many bytes as the header names, or fewer at the end of a
    file."""
    return len(body) == header.length and crc32c(body, salt.body) == header.crc


def split_batch(header: BatchHeader, body: bytes) -> tuple[list[ControlRecord], list[bytes]]:
    """Returns the control records and the entries of a verified batch."""
    table_size = 4 * header.records
    lengths = struct.unpack_from(f">{header.records}I", body)
    ends = accumulate(lengths, initial=table_size)
    records = [body[start:end] for start, end in pairwise(ends)]
    return [parse_control(record) for record in records[: header.controls]], records[header.controls :]


def ledger_key_record(ledger_id: int, master_key: bytes) -> bytes:
    return _KEY_RECORD.pack(ledger_id, LEDGER_KEY, len(master_key)) + master_key


def fence_record(ledger_id: int) -> bytes:
    return _IDS.pack(ledger_id, FENCE)


def explicit_lac_record(ledger_id: int, packet: bytes) -> bytes:
    return _KEY_RECORD.pack(ledger_id, EXPLICIT_LAC, len(packet)) + packet


def parse_control(record: bytes) -> ControlRecord:
    ledger_id, kind = _IDS.unpack_from(record)
    return ControlRecord(ledger_id, kind, record[_KEY_RECORD.size :])
