"""Makes durable what was written or renamed."""

import os


def sync(path: str) -> None:
    """Makes a file's content durable, or the names in a folder. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder_of(path: str) -> None:
    """Makes durable that a file has this name. Raises OSError."""
    sync(os.path.dirname(path) or ".")
