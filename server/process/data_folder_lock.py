"""Lets one server at a time use a data folder. Another server is told which process uses the folder, before it has
changed anything in the folder."""

import fcntl
import os
from pathlib import Path

LOCK_FILE = "magnetar.lock"


class AlreadyInUseError(Exception):
    """Another process uses the data folder or the port. The error's text is the sentence for the user."""


class DataFolderLock:
    """An advisory lock on the file `magnetar.lock` of the folder, which holds the owner's pid. The kernel releases the
    lock when the process ends for any reason."""

    def __init__(self, folder: Path) -> None:
        """Takes the lock, and creates the folder when it is missing. Raises AlreadyInUseError, or OSError when the
        folder or the file cannot be created or written."""
        self._path = folder / LOCK_FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            raise NotADirectoryError(f"data folder {folder}: a file of that name is there") from None
        except OSError as error:
            raise OSError(f"data folder {folder} cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise AlreadyInUseError(f"data folder {folder} is in use by pid {pid}") from None
        try:
            # Written over before it is cut, because a full disk has no block for a file that was emptied.
            os.ftruncate(self._fd, os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0))
        except OSError as error:
            os.close(self._fd)
            raise OSError(f"{self._path} cannot be written: {error.strerror}") from error

    def release(self) -> None:
        os.close(self._fd)
