"""Makes writes to a file, or its renaming, durable."""

import os


def sync(path: str) -> None:
    """Makes the content of a file durable or, for a folder, the names in the folder. Raises OSError when this fails."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder_of(path: str) -> None:
    """Makes a file's name in its folder durable. Raises OSError when this fails."""
    sync(os.path.dirname(path) or ".")
