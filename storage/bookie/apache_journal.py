"""Reads the journals of Apache's bookie for people. Nothing is replayed from them: the brands keep different files.

A journal is `current/<hex id>.txn` in a journal folder. Behind a header of 512 bytes stand records, each `i32 length`
and so many bytes: an entry as a client sent it, or a control record, whose entry id is negative. Padding is a record of
length -0x100 with `i32 length` and so many bytes. The file is longer than its records, and zeros follow them.

Source: org.apache.bookkeeper.bookie.Journal (scanJournal, writePaddingBytes), JournalChannel, BookieImpl
(META_ENTRY_ID_…).
"""

import os
import re
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from magnetar.storage.bookie.file_inspection import FileFault
from magnetar.storage.bookie.mapped_file import mapped_file

FOLDER = "current"
MAGIC = b"BKLG"
HEADER_BYTES = 512
OLD_HEADER_BYTES = 8
"""The header of versions before 5."""
VERSIONS = range(2, 7)
FIRST_WITH_LONG_HEADER = 5
PADDING = -0x100
CONTROLS = {-0x1000: "ledger key", -0x2000: "fence", -0x4000: "force", -0x8000: "explicit LAC"}
"""What a record with this entry id is, apart from entries."""
RECORD_BYTES_MAX = 256 << 20
"""A record that claims to be longer is damaged: no bookie takes such an entry."""

_NAME = re.compile(r"([0-9a-f]{1,16})\.txn")
_HEADER = Struct(">4si")
_LENGTH = Struct(">i")
_IDS = Struct(">qq")


class ApacheRecord(NamedTuple):
    """A record of a journal. `control` says what it is unless it is an entry, which stands in `data`."""

    file: str
    offset: int
    ledger_id: int
    entry_id: int
    control: str
    data: bytes


def apache_journal_path(folder: str, journal_id: int) -> str:
    return os.path.join(folder, FOLDER, f"{journal_id:x}.txn")


def apache_journals(folder: str) -> list[str]:
    """Returns the paths of the journals in a journal folder of Apache's bookie, in order."""
    current = os.path.join(folder, FOLDER)
    names = map(_NAME.fullmatch, os.listdir(current) if os.path.isdir(current) else ())
    return [apache_journal_path(folder, each) for each in sorted(int(name[1], 16) for name in names if name)]


def read_apache_journal(file: str) -> Iterator[ApacheRecord | FileFault]:
    """Yields the records of a journal up to its end, or to the first damaged place: the records have no mark by which
    the next whole one could be found. A record that the file does not hold whole is unfinished. Raises OSError."""
    with mapped_file(file) as data:
        size = len(data)
        magic, version = _HEADER.unpack_from(data) if size >= _HEADER.size else (b"", 0)
        if magic != MAGIC or version not in VERSIONS:
            what = "not a journal of Apache's bookie, or of a version that is not known"
            yield FileFault(file, 0, min(size, _HEADER.size), what)
            return
        offset = HEADER_BYTES if version >= FIRST_WITH_LONG_HEADER else OLD_HEADER_BYTES
        while offset + _LENGTH.size <= size:
            start = offset
            (length,) = _LENGTH.unpack_from(data, offset)
            offset += _LENGTH.size
            if length == 0:
                return
            is_padding = length == PADDING
            if is_padding and offset + _LENGTH.size <= size:
                (length,) = _LENGTH.unpack_from(data, offset)
                offset += _LENGTH.size
            if not (0 if is_padding else _IDS.size) <= length <= RECORD_BYTES_MAX:
                yield FileFault(file, start, size, f"a record of {length} bytes begins here")
                return
            if offset + length > size:
                yield FileFault(file, start, size, "the record is not whole", unfinished=True)
                return
            if not is_padding:
                ledger_id, entry_id = _IDS.unpack_from(data, offset)
                control = "" if entry_id >= 0 else CONTROLS.get(entry_id, f"control record {entry_id}")
                yield ApacheRecord(file, start, ledger_id, entry_id, control, data[offset : offset + length])
            offset += length
