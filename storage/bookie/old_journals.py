"""Journal files that no replay reads any more: deleted, kept as backups, or kept to be written over by later ones.

A file that is written over (`journalReuseFiles`) has its blocks on the disk and mostly its pages in memory: about half
of the kernel's work for a batch is saved. Such a spare is told from a journal by its name: nothing ever reads what is
in it. The next journal's header is durable in it before it takes that journal's name.

The flush thread drops and releases, the journal's thread takes. Each step is one change of a file's name, so who comes
second finds it gone; the content changes only in the hands of the journal's thread, under a name that nobody reads.
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
"""One is enough while checkpoints keep up: it is dropped when the mark leaves it, and taken at the next change."""
_NAME = re.compile(r"([0-9a-f]{16})\.spare")


class OldJournals:
    """Those of one journal folder."""

    def __init__(self, directory: str, *, backups: int = 0, reuse: bool = True, max_spare_bytes: int = 1 << 62) -> None:
        """Deletes spares that a former process left and this one does not want. Raises OSError.

        `backups`: how many of the files before the mark stay as they are. Larger files than `max_spare_bytes` (of a
        former configuration) are not reused.
        """
        self.directory = directory
        self._backups = backups
        self._spares_max = SPARES_MAX if reuse else 0
        self._max_spare_bytes = max_spare_bytes
        self._has_room = True
        for spare_id in self._spares()[self._spares_max :]:
            self._delete(self._spare_path(spare_id))

    def drop(self, mark: JournalPosition) -> None:
        """Deletes or keeps as spares the files that no replay from `mark` reads, but for the newest `backups`.

        `mark` is durable. Raises OSError.
        """
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
        # A second name is somebody's copy of the folder: writing over the file would change it there.
        return status.st_size <= self._max_spare_bytes and status.st_nlink == 1

    def take(self, journal_id: int, header: bytes, open_file: OpenFile) -> DurableFile | None:
        """A spare as a new journal's file: durably its name and `header`, then whatever stood there. None: there is no
        spare, or it could not be written; no journal has changed then, though the new name may exist."""
        for spare_id in self._spares():
            path = self._spare_path(spare_id)
            if spare_id >= journal_id:
                self._delete(path)  # of a folder that was put together from copies
                continue
            try:
                file = open_file(path)
            except FileNotFoundError:
                continue  # released meanwhile
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
        """Whether the disk has room for spares; True when there are some to `release`."""
        self._has_room = has_room
        return not has_room and bool(self._spares())

    def release(self) -> None:
        """Gives the spares' room back. A crash may bring some back: the next start counts them."""
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
