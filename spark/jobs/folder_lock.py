"""A lock on a folder, because two runs at once in one folder would write over each other. A job holds its locks until
it ends. When the job's process dies, the operating system releases the locks.
"""

import fcntl
from pathlib import Path
from typing import IO

LOCK_FILE = "_magnetar.lock"
_held: list[IO[bytes]] = []


class FolderInUse(ValueError):
    """Another run works in the folder."""


def hold_folder(folder: Path) -> None:
    """Locks a folder until `release_folders` is called, and creates the folder if it is missing. Raises FolderInUse
    when another run holds the lock. On a file system without locks the call has no effect."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / LOCK_FILE).open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise FolderInUse(f"another run works in {folder}: wait for its end, or take another folder") from None
    except OSError:
        lock.close()
        return
    _held.append(lock)


def release_folders() -> None:
    """Releases all folders that this process holds."""
    while _held:
        _held.pop().close()
