"""Journal files that no replay reads any more: each is deleted, kept as a backup, or kept to be written over (a spare).

    <id>.journal ──drop──► <id>.spare ──take: new header, synced──► <new id>.journal
                                │
                                └──release──► deleted

A file that is written over (`journalReuseFiles`) has its blocks on the disk already, and mostly its pages in memory,
which saves about half of the kernel's work for a batch. The file's name tells a spare from a journal, and nothing ever
reads the content of a spare. The header of the next journal is durable in the spare before it gets that journal's name.

The flush thread calls `drop` and `release`, the journal's thread calls `take`, and no lock is needed between them. Each
step renames one file. If both threads try to rename a file, the kernel lets one thread succeed, and the other thread
finds no such file. The content of a spare is changed by the journal's thread alone.
"""

import logging
import os
import re
from contextlib import suppress

from magnetar.storage.bookie.durable_file import DurableFile, OpenFile, sync_directory
from magnetar.storage.bookie.journal_format import JournalPosition, padding
from magnetar.storage.bookie.journal_replay import journal_path, list_journals

log = logging.getLogger(__name__)

SPARES_MAX = 2
"""How many spares are kept. One spare is enough while checkpoints keep up: a file becomes a spare when the mark leaves
it, and the journal takes the spare when the current file is full."""
_NAME = re.compile(r"([0-9a-f]{16})\.spare")


class OldJournals:
    """The old files of one journal folder."""

    def __init__(self, directory: str, *, backups: int = 0, reuse: bool = True, max_spare_bytes: int = 1 << 62) -> None:
        """Deletes superfluous spares that an earlier process left. Raises OSError. `backups` is how many of the files
        before the mark stay as they are, and `reuse` whether spares are kept at all. Files larger than
        `max_spare_bytes`, of an earlier configuration, are not kept as spares.
        """
        self.directory = directory
        self._backups = backups
        self._spares_max = SPARES_MAX if reuse else 0
        self._max_spare_bytes = max_spare_bytes
        self._has_room = True
        for spare_id in self._spares()[self._spares_max :]:
            self._delete(self._spare_path(spare_id))

    def drop(self, mark: JournalPosition) -> None:
        """Removes the files that no replay from `mark` reads, except the newest `backups` ones: some become spares, the
        others are deleted. The mark must be durable. Raises OSError."""
        old = [journal_id for journal_id in list_journals(self.directory) if journal_id < mark.journal_id]
        for journal_id in old[: len(old) - self._backups] if self._backups else old:
            path = journal_path(self.directory, journal_id)
            if self._is_worth_keeping(path):
                os.rename(path, self._spare_path(journal_id))
            else:
                os.unlink(path)
        if old:
            sync_directory(self.directory)

    def _is_worth_keeping(self, path: str) -> bool:
        if not self._has_room or len(self._spares()) >= self._spares_max:
            return False
        status = os.stat(path)
        # A second hard link is somebody's copy of the folder: writing over the file would change the copy.
        return status.st_size <= self._max_spare_bytes and status.st_nlink == 1

    def take(self, journal_id: int, header: bytes, open_file: OpenFile) -> DurableFile | None:
        """Turns a spare into the file of a new journal and returns it. The new name and the `header` are durable then;
        the bytes behind the header are those of the file's former use.

        Returns None when there is no spare, or when the spare could not be written. In both cases all other journals
        are unchanged, but a file with the new name may exist.
        """
        for spare_id in self._spares():
            path = self._spare_path(spare_id)
            if spare_id >= journal_id:
                # The folder was put together from copies of different times. Only older spares are safe to write over.
                self._delete(path)
                continue
            try:
                file = open_file(path)
            except FileNotFoundError:
                continue  # `release` deleted the spare meanwhile.
            try:
                file.write([header, bytes(padding(len(header)))], 0)
                file.sync()
                file.rename(journal_path(self.directory, journal_id))
                sync_directory(self.directory)
            except OSError as error:
                log.warning("journal %s: cannot be written over, a new file takes its place: %s", path, error)
                file.close()
                self._delete(path)
                return None
            return file
        return None

    def allow_spares(self, has_room: bool) -> bool:
        """Notes whether the disk has room for spares, the old files that are kept to be written over. Returns True when
        the disk has no room for them and there are some: in that case the caller has to call `release`."""
        self._has_room = has_room
        return not has_room and bool(self._spares())

    def release(self) -> None:
        """Deletes all spares. A crash may bring some of them back, which the next start deletes if they are too
        many."""
        try:
            for spare_id in self._spares():
                self._delete(self._spare_path(spare_id))
        except OSError as error:
            log.warning("%s: old journals cannot be deleted: %s", self.directory, error)

    def _spares(self) -> list[int]:
        names = map(_NAME.fullmatch, os.listdir(self.directory))
        return sorted(int(name.group(1), 16) for name in names if name)

    def _spare_path(self, journal_id: int) -> str:
        return os.path.join(self.directory, f"{journal_id:016x}.spare")

    @staticmethod
    def _delete(path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)
