"""A file of a few megabytes on each of a bookie's or a metadata server's disks, which keeps room for a full disk.

A bookie's start writes a little before it can serve reads: RocksDB makes new files, and the metadata of a standalone
server has a log. So a start that finds less room than the reserve has empties the reserve. From then on the disk counts
as full, and the bookie is read-only, until there is room for the reserve again. A bookie that runs empties the reserve
when the recovery of a ledger needs room, which the topic's readers wait for. A metadata server empties its reserve
when a write finds no room, because reads need sessions, and sessions are records. Apache's servers have nothing like
this file.
"""

import logging
import os
from collections.abc import Iterator, Sequence

from magnetar.storage.bookie.bookie_errors import is_no_room

log = logging.getLogger(__name__)

FILE_NAME = "RESERVE"
BYTES_MAX = 4 << 20
_SHARE_OF_DISK = 16
"""The reserve takes at most one part in this many of a disk."""


class Reserve:
    """The reserves of the disks of some folders: one file on each disk, in the first of the folders there. All calls
    block."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = directories
        self._is_possible = True

    def release(self) -> bool:
        """Empties the reserve of each disk that has less room than the reserve. Returns whether there is more room now.
        Raises OSError."""
        has_released = False
        for path, wanted_bytes, free_bytes in self._places():
            held_bytes = os.path.getsize(path) if os.path.exists(path) else 0
            if free_bytes < wanted_bytes and held_bytes:
                os.truncate(path, 0)
                has_released = True
                log.warning(
                    "only %d KB were free: the %d KB of %s are free now", free_bytes >> 10, held_bytes >> 10, path
                )
        return has_released

    def restore(self) -> bool:
        """Allocates each reserve that is missing or empty, if half of the disk's room is left then. Returns whether all
        reserves are whole. Raises OSError when a disk cannot be measured."""
        missing = [path for path, *sizes in self._places() if not self._restore(path, *sizes)]
        return not missing

    def held_bytes(self) -> int:
        """Returns how much room the reserves hold now. Raises OSError."""
        return sum(os.path.getsize(path) for path, *_ in self._places() if os.path.exists(path))

    def _restore(self, path: str, wanted_bytes: int, free_bytes: int) -> bool:
        if not self._is_possible or (os.path.exists(path) and os.path.getsize(path) >= wanted_bytes):
            return True
        if free_bytes < 2 * wanted_bytes:
            return False
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _allocate(fd, wanted_bytes)
        except OSError as error:
            os.ftruncate(fd, 0)
            if is_no_room(error):
                return False
            self._is_possible = False
            log.warning("%s cannot be allocated, so a start on a full disk may fail: %s", path, error)
        finally:
            os.close(fd)
        return True

    def _places(self) -> Iterator[tuple[str, int, int]]:
        """Yields for each disk the path of its reserve, the bytes that the reserve shall have, and the free bytes."""
        devices = set()
        for directory in self._directories:
            try:
                device = os.stat(directory).st_dev
            except FileNotFoundError:
                continue
            if device not in devices:
                devices.add(device)
                status = os.statvfs(directory)
                wanted_bytes = min(BYTES_MAX, status.f_blocks * status.f_frsize // _SHARE_OF_DISK)
                yield os.path.join(directory, FILE_NAME), wanted_bytes, status.f_bavail * status.f_frsize


def _allocate(fd: int, size: int) -> None:
    """Gives a file room on the disk. Raises OSError."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
    else:
        os.pwrite(fd, bytes(size), 0)
