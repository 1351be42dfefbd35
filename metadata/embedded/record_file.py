"""Makes, opens and writes the SQLite file of the embedded store. `magnetar.metadata.embedded.stored_metadata` reads it.

    record  path, …, crc                a row for each record; the format of the file names the columns
    meta    records, digest             number of records, sum of their checksums
            identity, generation        see `magnetar.metadata.embedded.witness`

Calls block, and one thread at a time makes them. The write-ahead log is fsynced at each commit (synchronous=FULL), and
the file is locked for as long as it is open.
"""

import contextlib
import os
import secrets
import sqlite3
from typing import Any

from magnetar.metadata.embedded.file_format import META, FileFormat, RowChange
from magnetar.metadata.embedded.file_sync import sync, sync_folder_of
from magnetar.metadata.embedded.records_copy import RecordsCopy
from magnetar.metadata.embedded.stored_metadata import (
    PAGE_BYTES,
    StoredMetadata,
    check_owner,
    error_name,
    faults_named,
    opened_here,
    read_meta,
)
from magnetar.metadata.embedded.witness import IDENTITY_BYTES, Seal, Witness
from magnetar.metadata.errors import StoreDamagedError

LOG_PAGES_MAX = 128
"""About how many pages the log may have before it is copied into the file. A start after a crash has to read
all of them."""
CACHE_KIB = 512
SET_ASIDE = "-set-aside"
"""The suffix that a log's name gets after the operator has accepted the file without its log."""

DELETE = "DELETE FROM record WHERE path = ?"
COUNT = "UPDATE meta SET records = ?, digest = ?, generation = ?"
IDENTIFY = "UPDATE meta SET identity = ?, generation = ?"


class RecordFile:
    """The SQLite file while it is open and locked. `open` verifies that the file still has the content that
    `read_stored` has read."""

    def __init__(
        self,
        stored: StoredMetadata[Any],
        connection: sqlite3.Connection,
        inode: tuple[int, int],
        seal: Seal,
        witness: Witness | None,
    ) -> None:
        self.path = stored.path
        self._upsert = stored.format.upsert
        self._connection = connection
        self._inode = inode
        self._seal = seal
        self._witness = witness
        """The witness, which gets the number of each commit; None while commits are not counted."""
        self._logged_pages = 0
        """About how many pages the log has."""

    @classmethod
    def open(cls, stored: StoredMetadata[Any], witness: Witness | None = None) -> "RecordFile":
        """Opens the file that `read_stored` has read, or creates the file if there is none. `witness` must be the one
        that `read_stored` got.

        This is the first change on disk. If the witness has no commit so far, or the operator accepted a file that does
        not fit it, the witness gets the numbers of commits only after `begin_witness`. Raises StoreFileError and its
        subclasses when the file cannot be used.
        """
        path, file_format = stored.path, stored.format
        with faults_named(path):
            if stored.is_new:
                _create(path, file_format)
            elif stored.image:
                _go_on_from(stored)
            connection = _connect(path)
            try:
                # This statement takes the lock: when a log is in use, an exclusive reader locks the whole file.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                layout = check_owner(path, connection, file_format)
                _configure(connection)
                totals, seal = read_meta(connection, layout, file_format)
                if (totals, seal) != (stored.totals, stored.seal):
                    raise StoreDamagedError(path, "was changed by another process since it was read")
                if layout != file_format.version:
                    upgrade = f"{file_format.upgrades[layout]} PRAGMA user_version = {file_format.version};"
                    connection.executescript(f"BEGIN; {upgrade} COMMIT;")
                told = None if stored.is_unwitnessed or stored.is_accepted else witness
                if told is not None:
                    # After SIGKILL the last commit may be in the kernel's memory only. It has to be durable before the
                    # witness is told of it.
                    with contextlib.suppress(FileNotFoundError):
                        sync(f"{path}-wal")
                    told.save(seal)
                status = os.stat(path)
                file = cls(stored, connection, (status.st_dev, status.st_ino), seal, told)
            except BaseException:
                connection.close()
                raise
        opened_here.add(file._inode)
        return file

    def begin_witness(self, witness: Witness) -> None:
        """Makes the store tell the witness of each commit from now on. Has no effect when it does so already.

        The identity is drawn anew. A file that the operator accepted by its generation gets the next generation, so
        that the acceptance is valid only once. A file that was never witnessed stays at generation 0, so that a start
        that is killed here can be repeated. Raises OSError when the witness, and sqlite3.Error when the file cannot be
        written.
        """
        if self._witness is None:
            generation = self._seal.generation
            seal = Seal(secrets.token_bytes(IDENTITY_BYTES), generation and generation + 1)
            self._connection.execute(IDENTIFY, seal)
            self._connection.execute("PRAGMA wal_checkpoint")
            witness.begin(seal)
            self._seal, self._witness = seal, witness

    def write(self, change: RowChange) -> None:
        """Makes one durable commit; the witness has seen it when this returns.

        Raises sqlite3.Error when the commit failed. Nothing of the commit has happened if `is_passing` is true for the
        error; otherwise this is unknown. Raises OSError when the witness could not be written; the next start may then
        find the commit.
        """
        if self._logged_pages >= LOG_PAGES_MAX:
            self._checkpoint()
        connection = self._connection
        seal = self._seal if self._witness is None else self._seal._replace(generation=self._seal.generation + 1)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(self._upsert, change.upserts)
            connection.executemany(DELETE, change.deletes)
            connection.execute(COUNT, (*change.totals, seal.generation))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise
        self._seal = seal
        self._logged_pages += 2 + (len(change.upserts) + len(change.deletes)) // 2  # neighbouring rows share pages
        if self._witness is not None:
            self._witness.save(seal)

    def try_to_write(self) -> None:
        """Makes a commit that changes nothing, to find out whether the disk has room. Raises sqlite3.Error when the
        commit fails."""
        self._connection.execute("UPDATE meta SET id = id")

    def copy(self) -> RecordsCopy:
        """Returns a copy in memory of all that was committed. Raises sqlite3.Error."""
        return RecordsCopy(self._connection)

    def _checkpoint(self) -> None:
        """Copies the log into the file. When there is no room for that, the log goes on growing.

        SQLite's automatic checkpoint is not used, because it hides a failed sync (sqlite3WalDefaultHook): SQLite would
        then overwrite the log although the file may not have the log's pages. Raises sqlite3.Error for a failure other
        than a lack of room.
        """
        try:
            self._connection.execute("PRAGMA wal_checkpoint")
            self._logged_pages = 0
        except sqlite3.Error as error:
            if not is_passing(error):
                raise

    def close(self) -> None:
        """Closes the file and the witness. SQLite first copies the log into the file and removes the log; on a full
        disk the log stays for the next open."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        opened_here.discard(self._inode)
        if self._witness is not None:
            self._witness.close()


def is_passing(error: Exception) -> bool:
    """Returns whether a write failed only because the disk has no space, so that a later write may succeed.

    After any other fault (fsync, read, damage) the content of the disk is unknown, so no further write may be
    acknowledged.
    """
    return isinstance(error, sqlite3.Error) and error_name(error) in ("SQLITE_FULL", "SQLITE_IOERR_WRITE")


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None)


def _configure(connection: sqlite3.Connection) -> None:
    for setting in (
        "journal_mode = WAL",
        "synchronous = FULL",
        "wal_autocheckpoint = 0",  # see RecordFile._checkpoint
        f"cache_size = -{CACHE_KIB}",
        "cell_size_check = ON",
        "secure_delete = OFF",
        "temp_store = MEMORY",
    ):
        connection.execute(f"PRAGMA {setting}")


def _create(path: str, file_format: FileFormat[Any]) -> None:
    """Makes the file under a temporary name and then gives the file its final name, so that a crash never leaves half a
    store."""
    unfinished = f"{path}.new-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    try:
        _write_empty(unfinished, file_format)
        try:
            os.link(unfinished, path)  # a link never replaces a file; a rename would
        except FileExistsError:
            pass  # another process made the file first
        except OSError:
            os.rename(unfinished, path)  # this file system has no hard links
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
    sync_folder_of(path)


def _go_on_from(stored: StoredMetadata[Any]) -> None:
    """Replaces the file by the state that the operator accepted.

    The log is set aside, because SQLite would restore rejected changes from it. A crash in between leaves a file that
    the next start refuses, too.
    """
    path, fresh = stored.path, f"{stored.path}.new"
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(stored.image)
        file.flush()
        os.fsync(fd)
    with contextlib.suppress(FileNotFoundError):
        os.rename(f"{path}-wal", f"{path}-wal{SET_ASIDE}")
    sync_folder_of(path)
    os.rename(fresh, path)
    sync_folder_of(path)


def _write_empty(path: str, file_format: FileFormat[Any]) -> None:
    connection = _connect(path)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {file_format.application_id}; "
            f"PRAGMA user_version = {file_format.version}; {file_format.table} {META}"
        )
        rows = list(file_format.first_rows)
        connection.executemany(file_format.upsert, rows)
        digest = sum(row[-1] for row in rows)
        connection.execute("INSERT INTO meta (id, records, digest) VALUES (0, ?, ?)", (len(rows), digest))
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
