"""Reads whole entry logs for the garbage collector: which ledgers a log holds, and all blocks of a log in order.

The collector deletes logs because of what these functions find. Therefore bytes count only if their checksum fits, and
a log counts only if it was read to its very end: after a damaged block header there may be further blocks, which must
not be overlooked."""

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from magnetar.storage.bookie.bookie_errors import EntryLogDamaged
from magnetar.storage.bookie.entry_log_format import (
    BLOCK_HEADER_SIZE,
    BLOCK_MAGIC,
    FILE_HEADER_SIZE,
    FOOTER_END_SIZE,
    Block,
    footer_offset,
    parse_block_header,
    parse_file_header,
    parse_footer,
)
from magnetar.storage.bookie.entry_logs import EntryLogs

_SEARCH_BYTES = 4 << 20

SUSPECTS_BYTES_MAX = 256 << 20
"""After a torn place of a log, at most this many bytes that look like blocks are checked. If there are more, the log
counts as damaged and is kept: a client may have filled a message with beginnings of blocks, and checking each of them
would hold up every checkpoint."""


class LogLayout(NamedTuple):
    """The ledgers in an entry log, and where its blocks end."""

    ledgers: dict[int, int]
    """Maps each ledger to the size of its blocks in bytes."""
    end: int
    """The offset after the last block."""


def layout_of(logs: EntryLogs, log_id: int) -> LogLayout:
    """Returns the layout of a log, which the log's footer tells. A log that was never closed, or whose end only looks
    like a footer, is read and checked block by block. Raises EntryLogDamaged, EntryLogGone, OSError."""
    size = logs.size(log_id)
    if size <= FILE_HEADER_SIZE:
        return LogLayout({}, size)  # The process ended before the log's first block.
    try:
        _, salt = parse_file_header(logs.read(log_id, 0, FILE_HEADER_SIZE))
    except ValueError as error:
        raise EntryLogDamaged(logs.path(log_id), 0, str(error)) from None
    offset = footer_offset(logs.read(log_id, size - FOOTER_END_SIZE, FOOTER_END_SIZE)) or 0
    if FILE_HEADER_SIZE <= offset < size:
        with suppress(ValueError):
            return LogLayout(parse_footer(logs.read(log_id, offset, size - offset), salt), offset)
    ledgers: dict[int, int] = {}
    end = FILE_HEADER_SIZE
    for offset, block in _blocks_to_tear(logs, log_id, size):
        ledger_id = block.header.ledger_id
        ledgers[ledger_id] = ledgers.get(ledger_id, 0) + block.header.total
        end = offset + block.header.total
    return LogLayout(ledgers, end)


def blocks_between(
    logs: EntryLogs, log_id: int, offset: int, end: int, max_bytes: int
) -> tuple[list[tuple[int, Block]], int]:
    """Returns the verified blocks from `offset` on, each with its offset, and the offset to go on with. The first block
    that begins `max_bytes` or more behind `offset` is not read any more.

    `offset` is the beginning of a block, `end` is the `end` of the layout. Raises EntryLogDamaged, EntryLogGone,
    OSError."""
    blocks: list[tuple[int, Block]] = []
    limit = offset + max_bytes
    while offset < min(end, limit):
        block = _block_at(logs, log_id, offset, end)
        blocks.append((offset, block))
        offset += block.header.total
    return blocks, offset


def _block_at(logs: EntryLogs, log_id: int, offset: int, end: int) -> Block:
    header = None
    if offset + BLOCK_HEADER_SIZE <= end:
        header = parse_block_header(logs.read(log_id, offset, BLOCK_HEADER_SIZE))
    if header is None or offset + header.total > end:
        raise EntryLogDamaged(logs.path(log_id), offset, "no whole block begins here")
    return logs.read_block(log_id, offset, header.total)


def _blocks_to_tear(logs: EntryLogs, log_id: int, size: int) -> Iterator[tuple[int, Block]]:
    """Yields all blocks with their offsets, up to the end or to the place where a crash tore the log. Raises
    EntryLogDamaged when a whole block follows that place, since a crash would have left no block there."""
    offset = FILE_HEADER_SIZE
    while offset < size:
        try:
            block = _block_at(logs, log_id, offset, size)
        except EntryLogDamaged:
            if _holds_block(logs, log_id, offset + 1, size):
                raise
            return
        yield offset, block
        offset += block.header.total


def _holds_block(logs: EntryLogs, log_id: int, start: int, end: int) -> bool:
    """Returns whether a whole block begins between `start` and `end`, or more than SUSPECTS_BYTES_MAX bytes look like
    blocks."""
    left = SUSPECTS_BYTES_MAX
    while start + BLOCK_HEADER_SIZE <= end:
        data = logs.read(log_id, start, min(_SEARCH_BYTES, end - start))
        position = data.find(BLOCK_MAGIC)
        while position >= 0:
            header = parse_block_header(data, position)
            left -= min(header.total, end - start - position) if header is not None else BLOCK_HEADER_SIZE
            if left < 0 or _is_block(logs, log_id, start + position, end):
                return True
            position = data.find(BLOCK_MAGIC, position + 1)
        start += len(data) - len(BLOCK_MAGIC) + 1
    return False


def _is_block(logs: EntryLogs, log_id: int, offset: int, end: int) -> bool:
    try:
        _block_at(logs, log_id, offset, end)
    except EntryLogDamaged:
        return False
    return True
