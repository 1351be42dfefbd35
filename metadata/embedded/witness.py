"""The witness: a small file, in standalone beside the bookie's data, that holds the number of commits that were made to
the metadata file.

Metadata that goes back in time is dangerous: acknowledged topics are gone, their ledgers would be deleted as garbage
and their ids given out again. The metadata file alone does not show that it is old: an old copy of the file is whole
and fits its own checksums, and SQLite drops a damaged end of its log silently. Therefore the embedded store counts its
durable commits (`generation`) and has the number written to the witness, durably, before it answers the writers. One
commit is under way at a time, so a sound file has the generation of the witness or the next one; it has the next one
when the process ended during that commit.

The file holds two slots, which are overwritten in turn, so that a write that a power loss tears leaves the other one
whole:

    offset 0 and 4096: "MGWT", u32 version 1, 16 bytes identity, u64 generation, u32 CRC32C of the 32 bytes before

The identity is drawn anew whenever a witness is begun for a file. Therefore the generation of one history of the
metadata is never taken for the generation of another history.
"""

import os
import struct
from typing import NamedTuple

from magnetar.metadata.embedded.file_sync import sync_folder_of
from magnetar.metadata.errors import StoreFileError
from pulsar_proto.checksum import crc32c

FILE_NAME = "metadataWitness"
IDENTITY_BYTES = 16
SLOT_BYTES = 4096
"""The size of a slot in bytes. Each slot has a page for itself, the largest unit that a torn write may damage."""
SLOTS = 2

_SLOT = struct.Struct(f">4sI{IDENTITY_BYTES}sQ")
_CRC = struct.Struct(">I")
_MAGIC = b"MGWT"
_VERSION = 1


class Seal(NamedTuple):
    """The history that a metadata file belongs to (`identity`), and how many commits the file has made in it
    (`generation`; 0 when none was witnessed yet)."""

    identity: bytes
    generation: int


class WitnessDamagedError(StoreFileError):
    """Neither slot of the witness is whole. `path` is the path of the witness."""


class Witness:
    """Reads and writes the witness. A file that is missing is made by `begin`. Calls block; the store's thread makes
    them."""

    def __init__(self, path: str) -> None:
        """The folder of `path` need not exist before `begin`."""
        self.path = path
        self._fd: int | None = None

    def read(self) -> Seal | None:
        """Returns the newest seal that is whole, or None when the witness has no file.

        Raises WitnessDamagedError when no seal is whole, StoreFileError when the file cannot be read.
        """
        try:
            with open(self.path, "rb") as file:
                data = file.read(SLOTS * SLOT_BYTES)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreFileError(self.path, f"cannot be read: {error.strerror or error}") from error
        seals = [seal for start in range(0, SLOTS * SLOT_BYTES, SLOT_BYTES) if (seal := parse_slot(data[start:]))]
        if not seals:
            raise WitnessDamagedError(self.path, "is damaged")
        return max(seals, key=lambda seal: seal.generation)

    def begin(self, seal: Seal) -> None:
        """Makes the file, or replaces it as a whole, so that a crash leaves either the old or the new file. Raises
        OSError when the file cannot be written."""
        self.close()
        fresh = f"{self.path}.new"
        fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.pwrite(fd, (_format_slot(seal).ljust(SLOT_BYTES, b"\0")) * SLOTS, 0)
            os.fsync(fd)
            os.replace(fresh, self.path)
            sync_folder_of(self.path)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def save(self, seal: Seal) -> None:
        """Writes a seal, which is durable when this returns.

        Raises an OSError that names the file; the content of the file is unknown after an error.
        """
        try:
            if self._fd is None:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            os.pwrite(self._fd, _format_slot(seal), seal.generation % SLOTS * SLOT_BYTES)
            _sync_data(self._fd)
        except OSError as error:
            error.filename = self.path
            raise

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


_sync_data = os.fdatasync if hasattr(os, "fdatasync") else os.fsync


def _format_slot(seal: Seal) -> bytes:
    data = _SLOT.pack(_MAGIC, _VERSION, *seal)
    return data + _CRC.pack(crc32c(data))


def parse_slot(data: bytes) -> Seal | None:
    """Returns the seal in a slot, or None when the slot is not whole."""
    if len(data) < _SLOT.size + _CRC.size:
        return None
    magic, version, identity, generation = _SLOT.unpack_from(data)
    if (magic, version, crc32c(data[: _SLOT.size])) != (_MAGIC, _VERSION, *_CRC.unpack_from(data, _SLOT.size)):
        return None
    return Seal(identity, generation)
