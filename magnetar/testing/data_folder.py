"""A folder for the data of one test server. Its data is gone when the test process ends, whatever ends it.

The folder lies in memory where the system has room for it there. Its owner holds a lock on a file in it. The kernel
releases the lock when the owner ends, so that folders of owners that were killed are told from those in use: the next
test process of the same user on this machine removes them.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "magnetar-testing-"
OWNER_FILE = "owner.lock"
MEMORY = Path("/dev/shm")
MEMORY_FREE_BYTES_MIN = 1 << 30
"""The free space that makes `MEMORY` worth using. Containers often have 64 MiB there, which a few tests fill."""


class DataFolder:
    """A folder that belongs to this process until `remove`."""

    def __init__(self, parent: Path | None = None) -> None:
        """Makes the folder below `parent`, which is by default in memory or else the folder for temporary files. Raises
        OSError when that is impossible."""
        base = parent or _memory() or Path(tempfile.gettempdir())
        remove_abandoned(base)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base))
        # The file gets its name when it is locked, so that no other process takes the folder for abandoned meanwhile.
        unnamed = self.path / f"{OWNER_FILE}.new"
        self._lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        unnamed.rename(self.path / OWNER_FILE)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_abandoned(base: Path) -> None:
    """Removes the folders of processes of this user that ended without removing them. Everybody may make a folder in
    `base`, so the folder and the file have to be this user's and no links."""
    for folder in base.glob(f"{PREFIX}*"):
        try:
            if folder.lstat().st_uid != os.geteuid():
                continue
            lock = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            continue  # The folder is being made or removed, or is not one of ours.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def _memory() -> Path | None:
    """Returns the folder whose files the system keeps in memory, or None where there is none or too little room."""
    try:
        free = os.statvfs(MEMORY)
    except OSError:
        return None
    has_room = free.f_bavail * free.f_frsize >= MEMORY_FREE_BYTES_MIN
    return MEMORY if has_room and os.access(MEMORY, os.W_OK | os.X_OK) else None
