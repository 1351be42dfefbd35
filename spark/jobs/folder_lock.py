"""Two runs at once in one folder would write over each other: a lock, held until the job or its process ends."""

import fcntl
from pathlib import Path
from typing import IO

LOCK_FILE = "_magnetar.lock"
_held: list[IO[bytes]] = []


class FolderInUse(ValueError):
    """Another run works there."""


def hold(folder: Path) -> None:
    """Until `let_go`. Raises FolderInUse. A file system without locks is taken as it is."""
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


def let_go() -> None:
    """Of all folders."""
    while _held:
        _held.pop().close()
