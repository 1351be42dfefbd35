"""Whole files, mapped into memory to be read."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager

FileBytes = mmap.mmap | bytes
"""The bytes of a whole file. An empty file cannot be mapped, so `b""` stands for it."""


@contextmanager
def mapped_file(path: str) -> Iterator[FileBytes]:
    """Maps a file until the end of the `with` block. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = mmap.mmap(fd, 0, access=mmap.ACCESS_READ) if os.fstat(fd).st_size else b""
    finally:
        os.close(fd)
    try:
        yield data
    finally:
        if isinstance(data, mmap.mmap):
            data.close()
