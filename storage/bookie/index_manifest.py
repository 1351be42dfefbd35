"""Reads RocksDB's manifest, which names all files of the index except RocksDB's log, and tells from it whether the
index is older than the mark.

A manifest only grows until another manifest with a higher number replaces it. Therefore the first bytes of a manifest
never change as long as the manifest exists:

    at the checkpoint    MANIFEST-000007, 400 bytes with CRC x                       (written into the mark)
    at the next start    MANIFEST-000007, 400 bytes or more, the first 400 with CRC x    fine, it has grown
                         MANIFEST-000009                                                 fine, it followed
                         MANIFEST-000007, 300 bytes, or other bytes                      an old copy was put back
                         MANIFEST-000005                                                 an old copy was put back
"""

import os
import re
import struct
from typing import NamedTuple

from magnetar.storage.bookie.bookie_errors import IndexDamaged
from pulsar_proto.checksum import crc32c

_RECORD = struct.Struct("<IHB")
"""The head of a record: CRC32C of kind and content, number of bytes of the content, kind."""
_KINDS = range(1, 5)
"""The kinds of records in a manifest: a whole record, or the first, a middle or the last part of a record."""
_BLOCK_BYTES = 32768
_NAME = re.compile(r"MANIFEST-([0-9]{6,})\n?")


class Manifest(NamedTuple):
    """The state of a manifest at a checkpoint."""

    number: int
    size: int
    crc: int
    """CRC32C of the manifest's first `size` bytes."""


def read_manifest(index: str) -> Manifest:
    """Reads the manifest that is in use in the folder `index`, with its present length. Raises OSError, ValueError."""
    while True:
        number = _number_in_use(index)
        try:
            data = _first_bytes(index, number)
        except FileNotFoundError:
            if _number_in_use(index) == number:
                raise
            continue  # Another manifest has just replaced this one.
        return Manifest(number, len(data), crc32c(data))


def check_manifest(index: str, known: Manifest) -> None:
    """Raises IndexDamaged unless the manifest in use is `known` (which may have grown since) or a later manifest."""
    try:
        number = _number_in_use(index)
        data = _first_bytes(index, known.number, known.size) if number == known.number else b""
    except (OSError, ValueError) as error:
        raise IndexDamaged(f"the index {index} cannot be opened: {error}; restore the folder from a copy") from None
    if number < known.number or (number == known.number and crc32c(data) != known.crc):
        raise IndexDamaged(
            f"the index {index} is an older one: it uses MANIFEST-{number:06}, and MANIFEST-{known.number:06} had "
            f"{known.size} bytes with another content at the last checkpoint; restore the folder from a copy"
        )


def check_records(index: str) -> None:
    """Raises IndexDamaged when the manifest in use is not made of whole records; the last record may be torn.

    This check exists because RocksDB 9.8 never returns from opening an index whose manifest ends with a record of a
    recyclable kind (5 to 8), which only RocksDB's log may have.
    """
    try:
        number = _number_in_use(index)
        data = _first_bytes(index, number)
    except (OSError, ValueError):
        return  # Opening the index will fail with a better message.
    offset = 0
    while offset < len(data):
        left = _BLOCK_BYTES - offset % _BLOCK_BYTES
        if left < _RECORD.size:
            offset += left
            continue
        if offset + _RECORD.size > len(data) or not any(data[offset:]):
            return
        crc, length, kind = _RECORD.unpack_from(data, offset)
        end = offset + _RECORD.size + length
        if kind in _KINDS and end > len(data):
            return
        if kind not in _KINDS or crc != _masked(crc32c(data[end - length - 1 : end])):
            what = f"no record of MANIFEST-{number:06} begins at offset {offset}"
            raise IndexDamaged(f"the index {index} is damaged: {what}; restore the folder from a copy")
        offset = end


def _masked(crc: int) -> int:
    """Returns a checksum in the form in which RocksDB and LevelDB store it (crc32c::Mask)."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _number_in_use(index: str) -> int:
    with open(os.path.join(index, "CURRENT"), encoding="ascii", errors="replace") as file:
        text = file.read(100)
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(f"its file CURRENT says {text!r}")
    return int(match.group(1))


def _first_bytes(index: str, number: int, size: int = -1) -> bytes:
    with open(os.path.join(index, f"MANIFEST-{number:06}"), "rb") as file:
        return file.read(size)
