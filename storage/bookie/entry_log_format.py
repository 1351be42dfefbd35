"""An entry log's bytes: a file header, blocks, and in a closed log a footer. No I/O here.

    │ header, salt │ block of ledger 3 │ block of ledger 3 │ block of ledger 7 │ … │ footer: bytes of each ledger │

docs/DATA_FILES.md describes all fields, in "3. Entry logs: `<id>.log`". A block holds entries of one ledger, in
ascending order of ids, and is read and checked as a whole. A block's generation is the journal's sequence number (with
several journals, the sum of their numbers) at the checkpoint that first wrote the block. Compaction keeps the
generation, so of two copies of an entry the copy with the higher generation is the newer.

A log that was never closed ends with the last bytes of an entry, which a client chose. A client could make these bytes
look like a footer which says that the log holds nothing, so that the log would be deleted. Therefore the checksum of a
footer continues from the log's salt, which is random and which clients do not know.
"""

import struct
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from pulsar_proto.checksum import crc32c

FILE_MAGIC = b"MGEL"
FILE_VERSION = 1
FILE_HEADER_SIZE = 32
BLOCK_MAGIC = b"MGEB"
BLOCK_HEADER_SIZE = 44
FOOTER_MAGIC = b"MGEF"
FOOTER_END_MAGIC = b"MGEE"
FOOTER_END_SIZE = 12

MAX_BLOCK_ENTRIES = 4096
MAX_BLOCK_GAP = 1024
"""Neighbouring ids of a block differ by at most this much; ids that are further apart go to different blocks, so that
few other runs lie between the ids of one block."""

_FILE_HEADER = struct.Struct(">4sIQI8x")
_BLOCK_START = struct.Struct(">4sI")
_BLOCK_REST = struct.Struct(">QqqIII")
_U32 = struct.Struct(">I")
_FOOTER_END = struct.Struct(">Q4s")
_GAPS = 1
_LARGE_ENTRY_BYTES = 32 << 10


class BlockHeader(NamedTuple):
    """The fixed fields that a block begins with."""

    crc: int
    generation: int
    ledger_id: int
    first_entry_id: int
    entry_count: int
    flags: int
    length: int

    @property
    def total(self) -> int:
        """The size of the whole block in bytes, header included."""
        return BLOCK_HEADER_SIZE + self.length


class Block(NamedTuple):
    """A verified block. `body` holds the bytes after magic and checksum; entry number i is body[ends[i]:ends[i +
    1]]."""

    header: BlockHeader
    ids: Sequence[int]
    ends: list[int]
    body: bytes

    def entries(self, start: int, end: int) -> list[bytes]:
        """Returns the entries number `start` to `end` (exclusive) of the block."""
        body = self.body
        return [body[begin:stop] for begin, stop in pairwise(self.ends[start : end + 1])]

    def buffers(self) -> list[bytes]:
        """Returns the block's bytes as they were read."""
        return [_BLOCK_START.pack(BLOCK_MAGIC, self.header.crc), self.body]


def file_header(log_id: int, salt: int) -> bytes:
    head = _FILE_HEADER.pack(FILE_MAGIC, FILE_VERSION, log_id, salt)
    return head + _U32.pack(crc32c(head))


def parse_file_header(data: bytes) -> tuple[int, int]:
    """Returns (log id, salt). Raises ValueError, which says what is wrong."""
    if len(data) < FILE_HEADER_SIZE:
        raise ValueError("the file is shorter than its header")
    magic, version, log_id, salt = _FILE_HEADER.unpack_from(data)
    if magic != FILE_MAGIC:
        raise ValueError("not an entry log")
    if crc32c(data[: _FILE_HEADER.size]) != _U32.unpack_from(data, _FILE_HEADER.size)[0]:
        raise ValueError("header checksum mismatch")
    if version != FILE_VERSION:
        raise ValueError(f"entry log format {version}, this program knows {FILE_VERSION}")
    return log_id, salt


def plan_blocks(ids: Sequence[int], lengths: Sequence[int], block_bytes: int) -> list[tuple[int, int]]:
    """Cuts a ledger's ascending ids into slices (start, end), one for each block: a block has at most `block_bytes` (a
    larger entry gets a block of its own), at most MAX_BLOCK_ENTRIES entries, and no gap beyond MAX_BLOCK_GAP."""
    ends = list(accumulate(lengths, initial=0))
    slices: list[tuple[int, int]] = []
    start, count = 0, len(ids)
    while start < count:
        end = bisect_right(ends, ends[start] + block_bytes, start + 1, min(count, start + MAX_BLOCK_ENTRIES) + 1) - 1
        end = max(end, start + 1)
        missing = ids[end - 1] - ids[start] - (end - start - 1)
        if missing >= MAX_BLOCK_GAP:
            end = _end_before_gap(ids, start, end)
        slices.append((start, end))
        start = end
    return slices


def _end_before_gap(ids: Sequence[int], start: int, end: int) -> int:
    for index in range(start + 1, end):
        if ids[index] - ids[index - 1] > MAX_BLOCK_GAP:
            return index
    return end


def encode_block(
    generation: int, ledger_id: int, ids: Sequence[int], entries: Sequence[bytes], lengths: Sequence[int]
) -> list[bytes]:
    """Returns the buffers of a block, to be written one after the other. Large entries are not copied."""
    count, payload = len(entries), sum(lengths)
    gaps = ids[-1] - ids[0] != count - 1
    table = struct.pack(f">{count}I", *lengths)
    if gaps:
        table += struct.pack(f">{count}q", *ids)
    rest = _BLOCK_REST.pack(generation, ledger_id, ids[0], count, _GAPS if gaps else 0, len(table) + payload)
    if payload < _LARGE_ENTRY_BYTES * count:
        body = b"".join((rest, table, *entries))
        return [_BLOCK_START.pack(BLOCK_MAGIC, crc32c(body)), body]
    head = rest + table
    crc = crc32c(head)
    for entry in entries:
        crc = crc32c(entry, crc)
    return [_BLOCK_START.pack(BLOCK_MAGIC, crc) + head, *entries]


def parse_block_header(data: bytes, offset: int = 0) -> BlockHeader | None:
    """Returns the header of a block at `offset`, or None when no block can begin there. Only `parse_block` proves that
    the block is whole."""
    if len(data) - offset < BLOCK_HEADER_SIZE or data[offset : offset + 4] != BLOCK_MAGIC:
        return None
    (crc,) = _U32.unpack_from(data, offset + 4)
    return BlockHeader(crc, *_BLOCK_REST.unpack_from(data, offset + 8))


def parse_block(data: bytes, offset: int = 0) -> Block:
    """Verifies the block at `offset` of `data`, which must contain all of it. Raises ValueError, which says what is
    wrong."""
    header = parse_block_header(data, offset)
    if header is None:
        raise ValueError("no block begins here")
    body = data[offset + 8 : offset + header.total]
    if len(body) + 8 != header.total:
        raise ValueError("the block reaches beyond its end")
    if crc32c(body) != header.crc:
        raise ValueError("checksum mismatch")
    position = _BLOCK_REST.size
    lengths = struct.unpack_from(f">{header.entry_count}I", body, position)
    position += 4 * header.entry_count
    ids: Sequence[int]
    if header.flags & _GAPS:
        ids = struct.unpack_from(f">{header.entry_count}q", body, position)
        position += 8 * header.entry_count
    else:
        ids = range(header.first_entry_id, header.first_entry_id + header.entry_count)
    return Block(header, ids, list(accumulate(lengths, initial=position)), body)


def encode_footer(ledgers: dict[int, int], offset: int, salt: int) -> bytes:
    """Returns the footer. `ledgers` maps each ledger to the size of its blocks, `offset` is where the footer will
    stand, and `salt` is the log's salt."""
    columns = [value for item in sorted(ledgers.items()) for value in item]
    rest = struct.pack(f">I{2 * len(ledgers)}q", len(ledgers), *columns) + _FOOTER_END.pack(offset, FOOTER_END_MAGIC)
    return FOOTER_MAGIC + _U32.pack(crc32c(rest, salt)) + rest


def footer_offset(tail: bytes) -> int | None:
    """Returns the offset of the footer, read from the last FOOTER_END_SIZE bytes of the file. Returns None when the
    bytes do not end a closed log."""
    if len(tail) != FOOTER_END_SIZE:
        return None
    offset, magic = _FOOTER_END.unpack(tail)
    return int(offset) if magic == FOOTER_END_MAGIC else None


def parse_footer(data: bytes, salt: int) -> dict[int, int]:
    """Returns a mapping from ledger id to the size of the ledger's blocks in bytes. Raises ValueError, which says what
    is wrong."""
    if len(data) < 12 + FOOTER_END_SIZE or data[:4] != FOOTER_MAGIC:
        raise ValueError("no footer")
    if crc32c(data[8:], salt) != _U32.unpack_from(data, 4)[0]:
        raise ValueError("footer checksum mismatch")
    (count,) = _U32.unpack_from(data, 8)
    columns = struct.unpack_from(f">{2 * count}q", data, 12)
    return dict(zip(columns[::2], columns[1::2], strict=True))
