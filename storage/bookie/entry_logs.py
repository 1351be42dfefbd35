"""The entry logs as files: this module knows which logs exist, and reads blocks with a bounded number of open files."""

import os
import re
import threading
from collections.abc import Sequence

from cachetools import LRUCache

from magnetar.storage.bookie.bookie_errors import EntryLogDamaged, EntryLogGone
from magnetar.storage.bookie.durable_file import sync_directory
from magnetar.storage.bookie.entry_log_format import Block, parse_block

_NAME = re.compile(r"([0-9a-f]{8})\.log")


class OpenLog:
    """A log that is open for reading. The file is closed when the last reader drops it. If the file were closed when it
    leaves the cache, a thread that is still reading could read another file that has got the same descriptor number."""

    __slots__ = ("fd", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        if hasattr(os, "posix_fadvise"):  # macOS has no such call.
            # The bookie reads ahead by itself. What the kernel would read ahead, 8 MB on some machines, would only hold
            # up the journal's syncs when both are on one disk.
            os.posix_fadvise(self.fd, 0, 0, os.POSIX_FADV_RANDOM)

    def __del__(self) -> None:
        if hasattr(self, "fd"):
            os.close(self.fd)


class EntryLogs:
    """All entry logs of a bookie. Its methods may be called from several threads."""

    def __init__(self, directories: Sequence[str], open_limit: int) -> None:
        """Keeps up to `open_limit` files open. Beyond this number the file that was not read for longest is dropped."""
        self.directories = tuple(directories)
        self._lock = threading.Lock()
        self._open: LRUCache[int, OpenLog] = LRUCache(open_limit)
        self._paths: dict[int, str] = {}
        for directory in filter(os.path.isdir, self.directories):  # A new bookie's folders do not exist yet.
            for name in os.listdir(directory):
                if match := _NAME.fullmatch(name):
                    self._paths[int(match.group(1), 16)] = os.path.join(directory, name)
        self._next_id = max(self._paths, default=0) + 1

    @property
    def next_id(self) -> int:
        return self._next_id

    def begin_at(self, next_id: int) -> None:
        """Makes `next_id` the lowest id that a new log may get. Lower ids stay unused even when no file has them,
        because an operator may put a lost file back."""
        self._next_id = max(self._next_id, next_id)

    def ids(self) -> list[int]:
        return sorted(self._paths)

    def path(self, log_id: int) -> str:
        """Returns the path of a log. For an unknown log it returns the path that the log may have had, for messages."""
        return self._paths.get(log_id) or os.path.join(self.directories[0], f"{log_id:08x}.log")

    def new_log(self) -> tuple[int, str]:
        """Returns an id that was never used, and a path in the folder with the most room. Does not create the file."""
        log_id, self._next_id = self._next_id, self._next_id + 1
        directory = self.directories[0]
        if len(self.directories) > 1:
            directory = max(self.directories, key=_free_bytes)
        return log_id, os.path.join(directory, f"{log_id:08x}.log")

    def add(self, log_id: int, path: str) -> None:
        """Adds a log whose file was created."""
        self._paths[log_id] = path

    def delete(self, log_id: int) -> int:
        """Deletes the file and returns its size. Readers that have it open may read on."""
        path = self._paths.pop(log_id)
        with self._lock:
            self._open.pop(log_id, None)
        size = os.stat(path).st_size
        os.unlink(path)
        sync_directory(os.path.dirname(path))
        return size

    def size(self, log_id: int) -> int:
        """Returns the size of the log's file in bytes. Raises OSError."""
        return os.stat(self._paths[log_id]).st_size

    def read(self, log_id: int, offset: int, length: int) -> bytes:
        """Returns `length` bytes from `offset` on. Raises EntryLogGone, OSError, and EntryLogDamaged when the file is
        shorter."""
        file = self._opened(log_id)
        data = os.pread(file.fd, length, offset)
        if len(data) != length:
            raise EntryLogDamaged(file.path, offset, f"the file ends after {len(data)} of {length} bytes")
        return data

    def read_block(self, log_id: int, offset: int, length: int) -> Block:
        """Reads and verifies one block. Raises EntryLogGone, EntryLogDamaged, OSError."""
        return self.parse(log_id, offset, self.read(log_id, offset, length), 0)

    def parse(self, log_id: int, data_offset: int, data: bytes, start: int) -> Block:
        """Verifies the block at `start` of `data`, which was read from the offset `data_offset` of the log. Raises
        EntryLogDamaged."""
        try:
            return parse_block(data, start)
        except ValueError as error:
            raise EntryLogDamaged(self.path(log_id), data_offset + start, str(error)) from None

    def _opened(self, log_id: int) -> OpenLog:
        with self._lock:
            file = self._open.get(log_id)
            if file is not None:
                return file
        path = self._paths.get(log_id)
        if path is None:
            raise EntryLogGone(f"{log_id:08x}.log")
        try:
            file = OpenLog(path)
        except FileNotFoundError:
            raise EntryLogGone(path) from None
        with self._lock:
            if log_id in self._paths:
                self._open[log_id] = file
        return file

    def close(self) -> None:
        with self._lock:
            self._open.clear()


def _free_bytes(directory: str) -> int:
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize
