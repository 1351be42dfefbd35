"""Files that the bookie writes: whole writes, syncs, and replacement that survives a crash.

Everything above relies on these assumptions about the medium: what was there before a returned fdatasync is there after
a power loss; a rename is durable after an fsync of its folder; one 512-byte sector is written wholly or not at all.
Tests hand in a subclass of DurableFile to fail or freeze at a chosen call.
"""

import os
from collections.abc import Callable, Sequence

IOV_MAX = os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 1024
_sync_data = os.fdatasync if hasattr(os, "fdatasync") else os.fsync


class DurableFile:
    """One file opened for appending at explicit offsets. Calls block: only for the threads of the bookie."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, *, create: bool = False) -> None:
        """`create` demands that the file does not exist yet. Raises OSError."""
        flags = os.O_RDWR | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        self._fd = os.open(path, flags, 0o644)
        self.path = path

    def write(self, buffers: Sequence[bytes], offset: int) -> int:
        """Writes all buffers one after the other from `offset` on; returns the offset behind them.

        Raises OSError; then any part may have been written.
        """
        if len(buffers) <= IOV_MAX:
            size = sum(map(len, buffers))
            if os.pwritev(self._fd, buffers, offset) == size:
                return offset + size
        for start in range(0, len(buffers), IOV_MAX):
            offset = self._write_all(list(buffers[start : start + IOV_MAX]), offset)
        return offset

    def _write_all(self, buffers: list[bytes | memoryview], offset: int) -> int:
        """The kernel may take less than it is given (a signal, a nearly full disk): go on behind what it took."""
        while buffers:
            taken = os.pwritev(self._fd, buffers, offset)
            offset += taken
            done = 0
            while done < len(buffers) and taken >= len(buffers[done]):
                taken -= len(buffers[done])
                done += 1
            del buffers[:done]
            if buffers and taken:
                buffers[0] = memoryview(buffers[0])[taken:]
        return offset

    def sync(self) -> None:
        """Data and size are durable afterwards. After an OSError, which names the file, its unsynced content is
        undefined."""
        try:
            _sync_data(self._fd)
        except OSError as error:
            error.filename = self.path
            raise

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def rename(self, path: str) -> None:
        """In the same folder, whose sync makes it durable. Raises OSError."""
        os.rename(self.path, path)
        self.path = path

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        os.close(self._fd)


OpenFile = Callable[..., DurableFile]
"""DurableFile or a test's subclass of it."""


def sync_directory(path: str) -> None:
    """Makes creations, renames and deletions in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: str, content: bytes) -> None:
    """After a crash at any moment the file holds its old or its new content, wholly. Raises OSError."""
    fresh = path + ".new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(fresh, path)
    sync_directory(os.path.dirname(path))
