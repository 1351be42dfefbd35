"""The folder of a backup on disk: opened by one command at a time, grown by new files, and switched to a new manifest.

At every moment the folder holds the backup that `manifest.json` names. New content is appended behind what the manifest
names or goes into new files; it is durable and read back before the new manifest takes the old one's place by a rename;
only then are files removed that no manifest names. The command is a process of its own without an event loop, so all
calls block.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from magnetar.metadata.embedded.file_sync import sync
from magnetar.server.backup.backup_errors import BackupError
from magnetar.server.backup.manifest_rules import LEDGERS, MANIFEST, FilePart, Manifest, obsolete_files, parse_manifest
from pulsar_proto.checksum import crc32c

_LOCK = "LOCK"
_READ_BYTES = 1 << 20
_UNSYNCED_BYTES_MAX = 8 << 20
"""After so many bytes a file is synced. A server on the same disk, which syncs its journal all the time, would wait for
all bytes that the system has gathered in memory."""


class GrowingFile:
    """A file of the backup that gets new content behind the part that is known already."""

    def __init__(self, path: Path, name: str, known: FilePart) -> None:
        """`known` is the part of this file that an older manifest names, or an empty part for a new file. What stands
        behind it is cut off. Raises OSError."""
        self._path = path
        self._name = name
        self.known = known
        self._size = known.size
        self._unsynced = 0
        self._checksum = known.checksum
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._file: BinaryIO = os.fdopen(os.open(path, flags, 0o600), "r+b")
        self._file.truncate(known.size)
        self._file.seek(known.size)

    def append(self, data: bytes) -> None:
        """Writes bytes at the end. Raises OSError."""
        self._file.write(data)
        self._size += len(data)
        self._checksum = crc32c(data, self._checksum)
        self._unsynced += len(data)
        if self._unsynced >= _UNSYNCED_BYTES_MAX:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._unsynced = 0

    def close(self) -> FilePart:
        """Returns the part that a new manifest may name once `confirm` was called. Raises OSError."""
        self._file.close()
        return self.part

    @property
    def part(self) -> FilePart:
        return FilePart(self._name, self._size, self._checksum)

    def confirm(self) -> None:
        """Makes the new content durable and reads it back from the disk. Raises OSError, and BackupError when the disk
        returns something else than was written."""
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # the next read comes from the disk
            file.seek(self.known.size)
            checksum = self.known.checksum
            while data := file.read(_READ_BYTES):
                checksum = crc32c(data, checksum)
        if checksum != self._checksum:
            raise BackupError(f"{self._path}: the disk does not return what was written")

    def discard(self) -> None:
        """Takes the new content away again, to give its room back. Faults are passed over."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            if self.known.size:
                os.truncate(self._path, self.known.size)
            else:
                self._path.unlink()


class BackupFolder:
    """The folder while a command has it. Made by `opened`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.manifest = read_manifest(path) if (path / MANIFEST).exists() else None
        """The backup that the folder holds, or None when it holds none yet."""
        self._grown: list[GrowingFile] = []

    def sizes(self) -> dict[str, int]:
        """Returns the sizes of all files of the backup, by their names relative to the folder."""
        found = {entry.name: entry.stat().st_size for entry in os.scandir(self._path) if entry.is_file()}
        for entry in os.scandir(self._path / LEDGERS):
            found[f"{LEDGERS}/{entry.name}"] = entry.stat().st_size
        return found

    def grow(self, name: str, known: FilePart | None = None) -> GrowingFile:
        """Opens a file for new content; without a `known` part the file is new. Raises OSError."""
        folder = self._path / LEDGERS if name.endswith(".entries") else self._path
        file = GrowingFile(folder / name, name, known or FilePart(name))
        self._grown.append(file)
        return file

    def switch(self, manifest: Manifest) -> None:
        """Makes the new manifest, and with it the new backup, the one that the folder holds. Raises OSError and
        BackupError."""
        for file in self._grown:
            file.confirm()
        sync(os.fspath(self._path / LEDGERS))
        sync(os.fspath(self._path))
        fresh = self._path / f"{MANIFEST}.new"
        text = manifest.to_json()
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        if fresh.read_text() != text:
            raise BackupError(f"{fresh}: the disk does not return what was written")
        fresh.rename(self._path / MANIFEST)
        self._grown.clear()
        self.manifest = manifest
        sync(os.fspath(self._path))

    def remove_obsolete(self) -> int:
        """Removes the files that the manifest does not name, and returns how many there were. Raises OSError."""
        assert self.manifest is not None
        gone = obsolete_files(self.sizes(), self.manifest)
        for name in gone:
            (self._path / name).unlink()
        return len(gone)

    def discard(self) -> None:
        """Takes everything away that was written since the last manifest."""
        for file in self._grown:
            file.discard()
        with contextlib.suppress(OSError):
            (self._path / f"{MANIFEST}.new").unlink(missing_ok=True)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BackupFolder]:
    """Yields the folder, which is made when it is missing. Raises OSError, ManifestError, and BackupError when another
    command has the folder, or when it holds other things than a backup."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (path / MANIFEST).exists() and not (path / _LOCK).exists() and any(path.iterdir()):
        raise BackupError(f"{path} holds other files: name a folder that is new or empty")
    with open(os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"{path} is in use by another backup or a restore") from None
        (path / LEDGERS).mkdir(mode=0o700, exist_ok=True)
        sync(os.fspath(path.parent))
        yield BackupFolder(path)


@contextlib.contextmanager
def kept_from_backups(path: Path) -> Iterator[None]:
    """Keeps backups from changing the folder, which need not be writable, while somebody reads it. Raises BackupError
    when a backup is running."""
    with contextlib.ExitStack() as open_files:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            lock = open_files.enter_context(open(path / _LOCK, "rb"))
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                raise BackupError(f"{path} is in use by a backup: wait until it is done") from None
        yield


def read_manifest(path: Path) -> Manifest:
    """Returns the manifest of the backup in a folder. Raises ManifestError, and BackupError when there is none."""
    try:
        text = (path / MANIFEST).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        raise BackupError(f"{path} holds no backup: there is no {MANIFEST}") from None
    return parse_manifest(text)
