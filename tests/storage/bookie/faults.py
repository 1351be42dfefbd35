"""Files that fail when a test says so: real files, real content, chosen errors."""

import errno
import os
import threading
from collections.abc import Sequence

from storage.bookie.durable_file import DurableFile


class Faults:
    """Settings of all files that `open` made. `gate` holds syncs back while it is closed."""

    def __init__(self) -> None:
        self.write_error: int | None = None
        self.sync_error: int | None = None
        self.only_path_ending = ""
        self.partial_bytes = 100
        self.gate = threading.Event()
        self.gate.set()
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

    def write(self, buffers: Sequence[bytes], offset: int) -> int:
        faults = self.faults
        faults.writes += 1
        faults.buffers.append(list(buffers))
        if faults.write_error is not None and faults.hits(self.path):
            super().write([b"".join(buffers)[: faults.partial_bytes]], offset)
            raise OSError(faults.write_error, os.strerror(faults.write_error))
        return super().write(buffers, offset)

    def sync(self) -> None:
        assert self.faults.gate.wait(20), "the test never opened the gate"
        self.faults.syncs += 1
        if self.faults.sync_error is not None and self.faults.hits(self.path):
            raise OSError(self.faults.sync_error, os.strerror(self.faults.sync_error))
        super().sync()


NO_SPACE = errno.ENOSPC
IO_ERROR = errno.EIO
