"""A disk that is really full: a small tmpfs, which the test fills and empties. Only root may mount it."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, leave_bytes: int = 0) -> None:
        """Fills the disk with a file. A process may take some of the room that was just measured, so the file is tried
        again with the room that is left then."""
        with open(self._filler, "ab") as file:
            while True:
                status = os.statvfs(self.folder)
                free = status.f_bavail * status.f_frsize - leave_bytes
                if free <= 0:
                    return
                try:
                    os.posix_fallocate(file.fileno(), file.tell(), free)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                else:
                    return

    def empty(self) -> None:
        self._filler.unlink()


@contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[SmallDisk]:
    """Mounts a small tmpfs over a folder, which is made when it is missing. Skips the test when it may not mount."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("may not mount a tmpfs here")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
