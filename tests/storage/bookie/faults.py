"""Files that fail when a test says so: they are real files with real content, and the test chooses the errors."""

import errno
import os
import threading
from collections.abc import Callable, Sequence

from magnetar.storage.bookie.durable_file import DurableFile


class Faults:
    """What all files that `open` made do wrong. Syncs wait while `gate` is closed."""

    def __init__(self) -> None:
        self.write_error: int | None = None
        self.sync_error: int | None = None
        self.only_path_ending = ""
        self.partial_bytes = 100
        self.gate = threading.Event()
        self.gate.set()
        self.at_gate = threading.Event()
        """Set when a sync has come to the gate, whether or not it has to wait there."""
        self.log_synced = threading.Event()
        self.before_sync_of: Callable[[str], None] = lambda path: None
        self.durable_sizes: dict[str, int] = {}
        """By file: up to which size it has been synced."""
        self.writes = 0
        self.syncs = 0
        self.buffers: list[list[bytes]] = []

    def open(self, path: str, *, create: bool = False) -> DurableFile:
        return FaultyFile(path, self, create=create)

    def hits(self, path: str) -> bool:
        return path.endswith(self.only_path_ending)


class FaultyFile(DurableFile):
    def __init__(self, path: str, faults: Faults, *, create: bool = False) -> None:
        super().__init__(path, create=create)
        self.faults = faults
        self.end = self.size()
        faults.durable_sizes[path] = self.end

    def write(self, buffers: Sequence[bytes], offset: int) -> int:
        faults = self.faults
        faults.writes += 1
        faults.buffers.append(list(buffers))
        if faults.write_error is not None and faults.hits(self.path):
            super().write([b"".join(buffers)[: faults.partial_bytes]], offset)
            raise OSError(faults.write_error, os.strerror(faults.write_error))
        self.end = super().write(buffers, offset)
        return self.end

    def sync(self) -> None:
        self.faults.at_gate.set()
        assert self.faults.gate.wait(60), "the test never opened the gate"
        self.faults.syncs += 1
        self.faults.before_sync_of(self.path)
        if self.faults.sync_error is not None and self.faults.hits(self.path):
            raise OSError(self.faults.sync_error, os.strerror(self.faults.sync_error))
        super().sync()
        self.faults.durable_sizes[self.path] = self.end
        if self.path.endswith(".log"):
            self.faults.log_synced.set()


NO_SPACE = errno.ENOSPC
IO_ERROR = errno.EIO
