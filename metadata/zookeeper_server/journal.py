"""The file of the server, and the thread that writes the file. A commit is durable before its callback `done` is
called.

When the disk has no room, the owner may have some in reserve. Without it a commit is tried again until there is room,
and meanwhile no request is acknowledged or refused. After any other fault of the disk the server has to end, and
`on_fault` says why.
"""

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Mapping

from magnetar.metadata.embedded.file_format import RowChange
from magnetar.metadata.embedded.file_thread import FileThread
from magnetar.metadata.embedded.record_file import RecordFile, is_passing
from magnetar.metadata.embedded.stored_metadata import StoredMetadata, in_words, read_stored
from magnetar.metadata.embedded.witness import FILE_NAME as WITNESS_NAME
from magnetar.metadata.embedded.witness import Witness
from magnetar.metadata.errors import StoreFileError
from magnetar.metadata.zookeeper_server.stored_records import ZOOKEEPER, StoredRows, StoredState

log = logging.getLogger(__name__)

FILE_NAME = "zookeeper.sqlite"
ROOM_LOOK_SECONDS = 1.0


class Journal:
    """The file while it is open. Callers get a Journal from `open`. All calls are made on the loop's thread."""

    def __init__(self, file: RecordFile, thread: FileThread, rows: StoredRows) -> None:
        self._file = file
        self._thread = thread
        self._rows = rows
        self._waits_for_room = False
        self._retry: asyncio.TimerHandle | None = None
        self.on_fault: Callable[[str], None] = lambda reason: None
        """A callback that the owner sets. It is called once, with the reason, when nothing more can be written."""
        self.make_room: Callable[[], bool] = lambda: False
        """A function that the owner may set. It is called on the file's thread when a write finds no room, and returns
        whether it has made some. It raises OSError."""
        self.commits = 0

    @classmethod
    async def open(
        cls, folder: str, witness_folder: str, accepted_generation: int | None
    ) -> "tuple[Journal, StoredState, bool]":
        """Opens or makes the file in `folder`. Returns the Journal, the content of the file, and whether the operator
        accepted a state that is older than the acknowledged one. All checks are made before anything on disk is
        changed. Raises StoreFileError and its subclasses when the file cannot be used."""
        thread = FileThread(asyncio.get_running_loop())
        try:
            return await thread.call(_open, thread, folder, witness_folder, accepted_generation)
        except BaseException:
            thread.stop()
            raise

    @property
    def folder(self) -> str:
        return os.path.dirname(os.path.abspath(self._file.path))

    def size(self) -> int:
        """Returns how many bytes the file and its log take on disk."""
        total = 0
        for suffix in ("", "-wal"):
            with contextlib.suppress(OSError):
                total += os.stat(self._file.path + suffix).st_size
        return total

    @property
    def waits_for_room(self) -> bool:
        """Whether the last commit waits for room on the disk."""
        return self._waits_for_room

    def commit(self, rows: Mapping[bytes, bytes], done: Callable[[], None]) -> None:
        """Makes all of the rows durable, or none. Empty content deletes a row. The caller makes one commit at a time,
        and applies the changes to the tree only in `done`."""
        self._write(rows, done)

    async def close(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
        await self._thread.call(self._file.close)
        self._thread.stop()

    def _write(self, rows: Mapping[bytes, bytes], done: Callable[[], None]) -> None:
        def plan_and_write() -> RowChange:
            # Until `done` is called, nothing changes the tree or the rows, so the file's thread may read them. A large
            # commit takes tens of milliseconds to plan.
            change = self._rows.plan(rows)
            try:
                self._file.write(change)
            except sqlite3.Error as error:
                if not is_passing(error) or not self.make_room():
                    raise
                self._file.write(change)
            return change

        def written(change: RowChange | None, error: Exception | None) -> None:
            if error is None:
                assert change is not None
                if self._waits_for_room:
                    self._waits_for_room = False
                    log.info("file %s: writes work again", self._file.path)
                self._rows.committed(rows, change)
                self.commits += 1
                done()
            elif is_passing(error):
                if not self._waits_for_room:
                    self._waits_for_room = True
                    log.warning("file %s: writes wait until there is room: %s", self._file.path, in_words(error))
                loop = asyncio.get_running_loop()
                self._retry = loop.call_later(ROOM_LOOK_SECONDS, self._write, rows, done)
            else:
                self.on_fault(f"file {self._file.path}: writing failed: {in_words(error)}")

        self._thread.run(plan_and_write, written)


def _open(
    thread: FileThread, folder: str, witness_folder: str, accepted_generation: int | None
) -> tuple[Journal, StoredState, bool]:
    """Reads, checks and opens the file. Runs on the file's thread."""
    witness = Witness(os.path.join(witness_folder, WITNESS_NAME))
    stored: StoredMetadata[StoredState]
    stored = read_stored(os.path.join(folder, FILE_NAME), witness, accepted_generation, ZOOKEEPER)
    file = RecordFile.open(stored, witness)
    if stored.is_unwitnessed or stored.is_accepted:
        try:
            file.begin_witness(witness)
        except (OSError, sqlite3.Error) as error:
            file.close()
            raise StoreFileError(witness.path, f"cannot be written: {error}") from error
    return Journal(file, thread, StoredRows(stored.tree, stored.totals)), stored.tree, stored.is_accepted
