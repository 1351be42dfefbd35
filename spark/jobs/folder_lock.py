"""A lock on a folder, because two runs at once in one folder would write over each other. A job holds its locks until
it ends. When the job's process dies, the operating system releases the locks.
"""

import fcntl
from pathlib import Path
from typing import Protocol

from magnetar.spark.jobs.storage.storage_rules import LOCK_FILE, FolderInUse


class Held(Protocol):
    """What a job holds until it ends."""

    def close(self) -> None:
        """Releases what is held."""


_held: list[Held] = []


def hold(what: Held) -> None:
    """Keeps something until `release_folders` is called, which closes it."""
    _held.append(what)


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
    hold(lock)


def release_folders() -> None:
    """Releases all folders that this process holds."""
    while _held:
        _held.pop().close()
