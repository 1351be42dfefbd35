"""The journal's bytes: a file header, then batches; what one fdatasync made durable is one batch. No I/O here.

    file header, 64 bytes: "MGJF", u24 salt (upper part), u8 version 2, u64 journal id, u64 sequence number of its
                           first batch, u32 salt (lower part), u32 CRC32C of the 28 bytes before; then the same 32
                           bytes again
    batch, 44 + n bytes:   "MGJB", u32 CRC32C of the next 36 bytes, u32 CRC32C of all that follows these (continued
                           from the lower and the upper 32 bits of the salt instead of from 0), u64 journal id, u64
                           sequence number, u32 kind, u32 control records, u32 records, u32 bytes that follow, then u32
                           length per record, then the records

Control records come first in a batch; they are laid out as Apache's special journal entries (i64 ledger, i64 negative
entry id, ...) but, unlike there, are told apart by their place, since clients may store negative entry ids. Every other
record is an entry as the client made it, which begins with i64 ledger id, i64 entry id.

Sequence numbers grow by one from batch to batch and across files. Since one batch at a time is written and synced,
bytes behind a damaged batch that hold a whole later batch prove that the damaged one was durable. The salt, random and
different in each file, keeps clients from forging that proof with the bytes of an entry, and the header's own checksum
keeps a search for it from reading behind everything that looks like a header.

A file may be an older one that is written over from its begin. What still stands there of its former use are batches of
older sequence numbers, of another journal id and made with another salt: three reasons, each enough, why none passes
for one of this file. While there are such bytes ahead, a batch is written with zeros up to the end of its page (the
next batch begins within them): the kernel need not read the page, and replay sees that no write was under way.

Version 1 had a salt of 32 bits, which began both checksums, and was never written over. All integers are big-endian.
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


class Salt(NamedTuple):
    """What a batch's checksums continue from: that of the header, and that of what follows it."""

    header: int
    body: int


class ControlRecord(NamedTuple):
    """`data`: the master key of LEDGER_KEY, the packet of EXPLICIT_LAC, empty for FENCE. Other kinds are for later
    versions: skip them."""

    ledger_id: int
    kind: int
    data: bytes


def salt_of_bits(bits: int) -> Salt:
    """The two overlap by 8 bits."""
    return Salt(bits & 0xFFFFFFFF, bits >> (SALT_BITS - 32))


def file_header(journal_id: int, first_sequence: int, salt_bits: int) -> bytes:
    """`salt_bits`: a random number of SALT_BITS bits."""
    version = salt_bits >> 32 << 8 | FILE_VERSION
    head = _FILE_HEADER.pack(FILE_MAGIC, version, journal_id, first_sequence, salt_bits & 0xFFFFFFFF)
    return 2 * (head + _U32.pack(crc32c(head)))


def parse_file_header(data: bytes) -> tuple[int, int, Salt]:
    """(journal id, first sequence number, salt) of 32 bytes or more; ValueError says what is wrong."""
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
    """The salt by whichever copy of the header is whole; without it no batch of the file can be verified."""
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
    """Buffers to write one after the other; small entries are joined into pieces of some 64 KB, large ones never.

    Pieces because one checksum call over megabytes gives the interpreter lock away and waits to get it back.
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
    """How many zeros follow a batch that ends there and has bytes of a former use ahead."""
    return -end % PAGE_SIZE


def batch_pattern(journal_id: int) -> re.Pattern[bytes]:
    """Matches where a header of one journal's batch may stand."""
    return re.compile(re.escape(BATCH_MAGIC) + b".{8}" + re.escape(journal_id.to_bytes(8, "big")), re.DOTALL)


def parse_batch_header(data: bytes, salt: Salt) -> BatchHeader | None:
    """None where the bytes are no whole header of this file."""
    if len(data) < BATCH_HEADER_SIZE or data[:4] != BATCH_MAGIC:
        return None
    if crc32c(data[8:BATCH_HEADER_SIZE], salt.header) != _U32.unpack_from(data, 4)[0]:
        return None
    return BatchHeader(*_BATCH_REST.unpack_from(data, 8))


def verify_batch(header: BatchHeader, body: bytes, salt: Salt) -> bool:
    """`body`: the bytes behind the header, as many as it says if there are so many."""
    return len(body) == header.length and crc32c(body, salt.body) == header.crc


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


def explicit_lac_record(ledger_id: int, packet: bytes) -> bytes:
    return _KEY_RECORD.pack(ledger_id, EXPLICIT_LAC, len(packet)) + packet


def parse_control(record: bytes) -> ControlRecord:
    ledger_id, kind = _IDS.unpack_from(record)
    return ControlRecord(ledger_id, kind, record[_KEY_RECORD.size :])
