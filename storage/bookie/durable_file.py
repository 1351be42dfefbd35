"""The files that the bookie writes: whole writes, syncs, and replacement that survives a crash.

docs/DATA_FILES.md, "1. What a medium is trusted with", says what the bookie assumes of disks and file systems. Tests
pass a subclass of DurableFile that fails or freezes at a chosen call.
"""

import os
from collections.abc import Callable, Sequence

IOV_MAX = os.sysconf("SC_IOV_MAX") if hasattr(os, "sysconf") else 1024
_sync_data = os.fdatasync if hasattr(os, "fdatasync") else os.fsync


class DurableFile:
    """One file that is read and written at explicit offsets. All calls block, so they are for the bookie's threads."""

    __slots__ = ("_fd", "path")

    def __init__(self, path: str, *, create: bool = False) -> None:
        """Opens an existing file, or with `create` makes a file that must not exist yet. Raises OSError."""
        flags = os.O_RDWR | os.O_CLOEXEC
        if create:
            flags |= os.O_CREAT | os.O_EXCL
        self._fd = os.open(path, flags, 0o644)
        self.path = path

    def write(self, buffers: Sequence[bytes], offset: int) -> int:
        """Writes all buffers one after the other from `offset` on; returns the offset after them.

        Raises OSError; after an error any part of the buffers may have been written.
        """
        if len(buffers) <= IOV_MAX:
            size = sum(map(len, buffers))
            if os.pwritev(self._fd, buffers, offset) == size:
                return offset + size
        for start in range(0, len(buffers), IOV_MAX):
            offset = self._write_all(list(buffers[start : start + IOV_MAX]), offset)
        return offset

    def _write_all(self, buffers: list[bytes | memoryview], offset: int) -> int:
        """Repeats the write until the kernel has taken all bytes: after a signal, or on a nearly full disk, the kernel
        takes only a part of them."""
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
        """Makes the file's data and size durable. Raises OSError, which names the file; after an error nobody knows
        which of the unsynced bytes are on disk."""
        try:
            _sync_data(self._fd)
        except OSError as error:
            error.filename = self.path
            raise

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def rename(self, path: str) -> None:
        """Renames the file within its folder; `sync_directory` makes the new name durable. Raises OSError."""
        os.rename(self.path, path)
        self.path = path

    def read(self, size: int, offset: int) -> bytes:
        return os.pread(self._fd, size, offset)

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        os.close(self._fd)


OpenFile = Callable[..., DurableFile]
"""The function with which the bookie's parts open their files: the class DurableFile, or a test's subclass of it."""


def sync_directory(path: str) -> None:
    """Makes creations, renames and deletions in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_file(path: str, content: bytes) -> None:
    """Replaces the content of a file. After a crash at any moment the file holds either its whole old or its whole new
    content. Raises OSError."""
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
