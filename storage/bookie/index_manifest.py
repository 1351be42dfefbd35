"""RocksDB's manifest, which names all files of the index but its log. It only grows until another one follows it, whose
number is higher; so of a manifest that was there once, the first bytes stay as they were."""

import os
import re
import struct
from typing import NamedTuple

from magnetar.storage.bookie.bookie_errors import IndexDamaged
from pulsar_proto.checksum import crc32c

_RECORD = struct.Struct("<IHB")
"""CRC32C of kind and content, bytes of content, kind."""
_KINDS = range(1, 5)
"""A whole record; first, middle and last part of one."""
_BLOCK_BYTES = 32768
_NAME = re.compile(r"MANIFEST-([0-9]{6,})\n?")


class Manifest(NamedTuple):
    number: int
    size: int
    crc: int
    """CRC32C of its first `size` bytes."""


def read_manifest(index: str) -> Manifest:
    """The manifest in use in the folder of the index, as far as it goes now. Raises OSError, ValueError."""
    while True:
        number = _number_in_use(index)
        try:
            data = _first_bytes(index, number)
        except FileNotFoundError:
            if _number_in_use(index) == number:
                raise
            continue  # another one has just followed it
        return Manifest(number, len(data), crc32c(data))


def check_manifest(index: str, known: Manifest) -> None:
    """Raises IndexDamaged when the manifest in use is not `known`, or one that followed it, grown or not."""
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
    """Raises IndexDamaged when the manifest in use is not made of whole records; the last one may be torn.

    RocksDB 9.8 itself never returns from opening an index whose manifest ends with a record of a recyclable kind (5 to
    8), which only its log may have.
    """
    try:
        number = _number_in_use(index)
        data = _first_bytes(index, number)
    except (OSError, ValueError):
        return  # opening the index says more
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
    """As RocksDB and LevelDB store checksums."""
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
