"""Reads a bookie's files for people: yields every whole record with its place, and every damaged place.

This module changes nothing, and the bookie may run meanwhile. Unlike replay and garbage collection, an inspection does
not stop at damage, but searches for the next whole record after it. A record at the very end that a crash left
unfinished, or that the bookie is just writing, is no damage. Bytes that a reused journal file still holds of its former
use are no damage either."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from magnetar.storage.bookie import entry_log_format as elf
from magnetar.storage.bookie import journal_format as jf
from magnetar.storage.bookie.journal_replay import journal_path, list_journals, read_batch
from magnetar.storage.bookie.mapped_file import FileBytes, mapped_file


class FileFault(NamedTuple):
    """The bytes of a file from `offset` to `end` are missing, or are not the bytes that were written. `unfinished` says
    that these bytes were never acknowledged, because a write was interrupted or is under way."""

    file: str
    offset: int
    end: int
    what: str
    unfinished: bool = False


class SeenBatch(NamedTuple):
    """A whole batch of a journal."""

    file: str
    offset: int
    header: jf.BatchHeader
    controls: list[jf.ControlRecord]
    entries: list[bytes]


class SeenBlock(NamedTuple):
    """A whole block of an entry log."""

    file: str
    offset: int
    block: elf.Block


def journal_files(directories: Sequence[str]) -> list[list[str]]:
    """Returns for each folder the paths of its journals, in order."""
    return [[journal_path(folder, journal_id) for journal_id in list_journals(folder)] for folder in directories]


def read_journals(files: Sequence[str]) -> Iterator[SeenBatch | FileFault]:
    """Yields all batches of one folder's journals, and the faults in between. Raises OSError."""
    expected: int | None = None
    for number, file in enumerate(files):
        is_last = number == len(files) - 1
        fault: FileFault | None = None
        continued = False
        identity = _identity(file)
        if identity is None:
            expected = None  # A checkpoint has deleted the file, or made it a spare, after it was listed.
            continue
        for found in _read_journal(file):
            if isinstance(found, FileFault):
                if _identity(file) != identity:
                    fault, expected = None, None  # This file too is a spare by now, and is being written over.
                    break
                fault = found
                continue
            if fault is not None:
                yield fault
                fault = None
            sequence = found.header.sequence
            if expected is not None and sequence != expected:
                yield FileFault(file, found.offset, found.offset, f"batch {sequence} stands where {expected} should be")
            expected = sequence + 1
            yield found
            continued = found.header.kind == jf.BatchKind.CONTINUED
            if continued:
                break  # The bytes behind this batch are of the file's former use.
        if fault is not None:
            # No whole batch follows: the last write was interrupted, unless the journal goes on in the next file.
            yield fault._replace(unfinished=is_last and fault.offset >= jf.FILE_HEADER_SIZE)
        elif is_last and continued:
            yield FileFault(file, os.path.getsize(file), os.path.getsize(file), "it goes on in a file that is missing")


def _identity(file: str) -> tuple[int, int] | None:
    """Returns an identity that distinguishes this file from a later file with its name, or None when there is no file.
    Device and inode suffice, because a file that is used again is renamed first."""
    try:
        status = os.stat(file)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _read_journal(file: str) -> Iterator[SeenBatch | FileFault]:
    with mapped_file(file) as data:
        size = len(data)
        try:
            jf.parse_file_header(data[: jf.FILE_HEADER_SIZE])
        except ValueError as error:
            yield FileFault(file, 0, min(size, jf.FILE_HEADER_SIZE), str(error))
        salt = jf.salt_of(data[: jf.FILE_HEADER_SIZE])
        if salt is None:
            return
        offset = jf.FILE_HEADER_SIZE
        while offset < size:
            found = read_batch(data, offset, salt)
            if found is None:
                start = offset
                offset = _next_batch(data, offset + 1, salt)
                rest = data[start : start + jf.padding(start)]
                if offset < size or not rest or any(rest):
                    yield FileFault(file, start, offset, "no whole batch begins here")
                continue
            header, body = found
            yield SeenBatch(file, offset, header, *jf.split_batch(header, body))
            offset += jf.BATCH_HEADER_SIZE + header.length


def _next_batch(data: FileBytes, offset: int, salt: jf.Salt) -> int:
    """Returns the offset of the next whole batch, or the end of the file."""
    offset = data.find(jf.BATCH_MAGIC, offset)
    while offset >= 0 and read_batch(data, offset, salt) is None:
        offset = data.find(jf.BATCH_MAGIC, offset + 1)
    return offset if offset >= 0 else len(data)


def entry_log_files(directories: Sequence[str]) -> dict[int, str]:
    """Returns the path of each entry log by its id, ascending."""
    found = {
        int(name.removesuffix(".log"), 16): os.path.join(folder, name)
        for folder in directories
        for name in os.listdir(folder)
        if name.endswith(".log") and len(name) == len("00000000.log")
    }
    return dict(sorted(found.items()))


def read_entry_log(file: str) -> Iterator[SeenBlock | FileFault]:
    """Yields all blocks of an entry log, and the faults in between. Raises OSError."""
    with mapped_file(file) as data:
        size = len(data)
        try:
            _, salt = elf.parse_file_header(data[: elf.FILE_HEADER_SIZE])
        except ValueError as error:
            yield FileFault(
                file, 0, min(size, elf.FILE_HEADER_SIZE), str(error), unfinished=size <= elf.FILE_HEADER_SIZE
            )
            salt = None
        end = _end_of_blocks(data, salt)
        offset = elf.FILE_HEADER_SIZE
        while offset < end:
            block = _block_at(data, offset, end)
            if block is not None:
                yield SeenBlock(file, offset, block)
                offset += block.header.total
                continue
            start = offset
            offset = _next_block(data, offset + 1, end)
            yield FileFault(file, start, offset, "no whole block begins here", unfinished=offset == end == size)


def _end_of_blocks(data: FileBytes, salt: int | None) -> int:
    """Returns the offset of the footer, or the end of the file when the log was never closed."""
    offset = elf.footer_offset(data[-elf.FOOTER_END_SIZE :]) or 0
    if salt is not None and elf.FILE_HEADER_SIZE <= offset < len(data):
        with suppress(ValueError):
            elf.parse_footer(data[offset:], salt)
            return offset
    return len(data)


def _block_at(data: FileBytes, offset: int, end: int) -> elf.Block | None:
    header = elf.parse_block_header(data[offset : offset + elf.BLOCK_HEADER_SIZE])
    if header is None or offset + header.total > end:
        return None
    try:
        return elf.parse_block(data[offset : offset + header.total])
    except ValueError:
        return None


def _next_block(data: FileBytes, offset: int, end: int) -> int:
    offset = data.find(elf.BLOCK_MAGIC, offset, end)
    while offset >= 0 and _block_at(data, offset, end) is None:
        offset = data.find(elf.BLOCK_MAGIC, offset + 1, end)
    return offset if offset >= 0 else end
