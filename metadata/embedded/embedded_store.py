"""Keeps the records of a standalone server in one file. The records are durable, and survive a crash at any moment.

Reads are served from memory. All writes of one turn of the loop share one commit, which a thread makes. Writes that
arrive during a commit are gathered for the next commit. Ephemeral records are in memory only, and end with the process.
A second small file, the witness, counts the commits, so that the store notices a file that went back in time
(`metadata.embedded.witness`).
"""

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable
from functools import partial

from magnetar.metadata.embedded.file_format import RecordTotals, RowChange
from magnetar.metadata.embedded.file_thread import FileThread
from magnetar.metadata.embedded.record_file import RecordFile, is_passing
from magnetar.metadata.embedded.record_rows import RECORDS, plan_change
from magnetar.metadata.embedded.records_copy import RecordsCopy
from magnetar.metadata.embedded.stored_metadata import StoredMetadata, in_words, read_stored
from magnetar.metadata.embedded.tree_store import Done, TreeStore, wall_clock_ms
from magnetar.metadata.embedded.witness import Witness
from magnetar.metadata.errors import StoreClosedError, StoreFileError, StoreWriteError
from magnetar.metadata.record_watches import Watches
from magnetar.metadata.tree_rules import Batch, Tree

log = logging.getLogger(__name__)

_ROOM_LOOK_SECONDS = 1.0

SESSION = 1
"""The id of the session. The file has one user, so there is only one session at a time."""


class EmbeddedStore(TreeStore):
    """A store on a file. Callers make one by `open`, or by `read` and then `start`.

    While the disk has no room, writes fail with StoreWriteError and reads go on. After any other fault of the disk,
    writes fail with StoreClosedError until a restart, and `fault` says why.
    """

    def __init__(
        self, file: RecordFile, thread: FileThread, tree: Tree, totals: RecordTotals, clock_ms: Callable[[], int]
    ) -> None:
        super().__init__(file.path, tree, Watches(), SESSION, clock_ms)
        self._file = file
        self._thread = thread
        self._totals = totals
        self._broken: str | None = None
        self.on_fault: Callable[[], None] = lambda: None
        """A callback that the owner of the store may set. It is called once, on the loop, when `fault` is set."""
        self._no_room: str | None = None
        self._room_timer: asyncio.TimerHandle | None = None
        self.commits = 0
        """How many commits were made durable since the file was opened."""

    @classmethod
    async def open(
        cls, path: str | os.PathLike[str], *, clock_ms: Callable[[], int] = wall_clock_ms
    ) -> "EmbeddedStore":
        """Opens the file without a witness, and creates the file if there is none. The folder of the file must exist.
        The function `clock_ms` dates the records.

        Raises StoreLockedError when the file is in use, StoreForeignError when the file has another format,
        StoreDamagedError when its content is damaged, or plain StoreFileError for an error of the operating system.
        """
        return await cls.start(await cls.read(path), clock_ms=clock_ms)

    @staticmethod
    async def read(
        path: str | os.PathLike[str], witness: Witness | None = None, accepted_generation: int | None = None
    ) -> StoredMetadata[Tree]:
        """Reads the file and compares it with the witness; see `read_stored`. Nothing on disk is changed."""
        thread = FileThread(asyncio.get_running_loop())
        try:
            return await thread.call(read_stored, os.fspath(path), witness, accepted_generation, RECORDS)
        finally:
            thread.stop()

    @classmethod
    async def start(
        cls,
        stored: StoredMetadata[Tree],
        witness: Witness | None = None,
        *,
        clock_ms: Callable[[], int] = wall_clock_ms,
    ) -> "EmbeddedStore":
        """Opens the file, as `read` returned it, for writing. Unless the file fits the witness, the caller must call
        `begin_witness` after it has corrected everything that contradicts the file. Raises StoreFileError and its
        subclasses.
        """
        thread = FileThread(asyncio.get_running_loop())
        try:
            file = await thread.call(RecordFile.open, stored, witness)
        except BaseException:
            thread.stop()
            raise
        return cls(file, thread, stored.tree, stored.totals, clock_ms)

    async def begin_witness(self, witness: Witness) -> None:
        """Makes the store tell the witness of every commit from now on, before the commit is acknowledged.

        The witness's folder must exist. The call has no effect when the store was started with a witness that fits.
        Raises StoreFileError when the witness cannot be written.
        """
        try:
            await self._thread.call(self._file.begin_witness, witness)
        except (OSError, sqlite3.Error) as error:
            raise StoreFileError(witness.path, f"cannot be written: {error}") from error

    def copy(self) -> "asyncio.Future[RecordsCopy]":
        """Returns a copy of the records, which holds every change that was acknowledged before this call, and at most
        changes that were asked for before it. Whoever gets the copy closes it. The future raises StoreFileError."""
        copied: asyncio.Future[RecordsCopy] = asyncio.get_running_loop().create_future()

        def done(copy: RecordsCopy | None, error: Exception | None) -> None:
            if copied.cancelled():
                if copy is not None:
                    copy.close()
            elif copy is None:
                copied.set_exception(StoreFileError(self._name, f"cannot be copied: {error}"))
            else:
                copied.set_result(copy)

        self._thread.run(self._file.copy, done)
        return copied

    @property
    def fault(self) -> str | None:
        """The reason why the store writes nothing more until a restart, or None while the store writes."""
        return f"metadata file {self._name}: {self._broken}" if self._broken is not None else None

    @property
    def hindrance(self) -> str | None:
        """The reason why a write would fail now: the fault, or the full disk that the last write met. None when no such
        reason is known."""
        return self.fault or self._no_room

    def _persist(self, batch: Batch, done: Done) -> None:
        change = plan_change(self._tree, batch.staged, self._totals)
        if change is None:
            done(None)
        elif self._broken is not None:
            broken = self._broken
            done(lambda: StoreClosedError(self._name, broken))
        else:
            self._thread.run(partial(self._file.write, change), lambda _, error: self._written(change, error, done))

    def _written(self, change: RowChange, error: Exception | None, done: Done) -> None:
        self._judge(error)
        if error is None:
            self._totals = change.totals
            self.commits += 1
            done(None)
        elif is_passing(error):
            done(lambda: StoreWriteError(self._name, f"cannot be written: {in_words(error)}"))
        else:
            done(lambda: StoreClosedError(self._name, f"writing failed: {in_words(error)}"))

    def _judge(self, error: Exception | None) -> None:
        """Notes, from the error of a write or None for a successful write, whether the next writes can succeed."""
        if error is None:
            if self._no_room is not None:
                self._no_room = None
                log.info("metadata file %s: writes work again", self._name)
        elif is_passing(error):
            if self._no_room is None:
                self._no_room = f"metadata file {self._name}: writes fail until there is room: {in_words(error)}"
                log.warning("%s", self._no_room)
                self._look_for_room_later()
        elif self._broken is None:
            self._broken = f"writing failed, no more is written until a restart: {in_words(error)}"
            log.error("%s", self.fault)
            self.on_fault()

    def _look_for_room_later(self) -> None:
        """Sets a timer, so that an idle server, too, notices when there is room again."""
        self._room_timer = asyncio.get_running_loop().call_later(_ROOM_LOOK_SECONDS, self._look_for_room)

    def _look_for_room(self) -> None:
        def looked(_: None, error: Exception | None) -> None:
            self._judge(error)
            if self._no_room is not None and self._closed is None:
                self._look_for_room_later()

        if self._no_room is not None and self._broken is None:
            self._thread.run(self._file.try_to_write, looked)

    async def _release(self) -> None:
        if self._room_timer is not None:
            self._room_timer.cancel()
        await self._thread.call(self._file.close)
        self._thread.stop()
