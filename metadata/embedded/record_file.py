"""Makes, opens and writes the SQLite file of the embedded store. `magnetar.metadata.embedded.stored_metadata` reads it.

    record  path, value, version, created_ms, modified_ms, sequence, crc    persistent records only, also "/"
    meta    records, digest                                                 how many records, sum of their checksums
            identity, generation                                            see `magnetar.metadata.embedded.witness`

Calls block, and one thread at a time makes them. The write-ahead log is fsynced at each commit (synchronous=FULL), and
the file is locked for as long as it is open.
"""

import contextlib
import os
import secrets
import sqlite3

from magnetar.metadata.embedded.file_sync import sync, sync_folder_of
from magnetar.metadata.embedded.record_rows import ROOT, RowChange, row_of
from magnetar.metadata.embedded.stored_metadata import (
    APPLICATION_ID,
    LAYOUT_VERSION,
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
"""The suffix of a log's name after the operator accepted the file without its log."""

LAYOUT = """
CREATE TABLE record (
    path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, created_ms INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL, sequence INTEGER NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 0), records INTEGER NOT NULL, digest INTEGER NOT NULL,
    identity BLOB NOT NULL DEFAULT x'', generation INTEGER NOT NULL DEFAULT 0
);
"""
UPGRADE = f"""
BEGIN;
ALTER TABLE meta ADD COLUMN identity BLOB NOT NULL DEFAULT x'';
ALTER TABLE meta ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
PRAGMA user_version = {LAYOUT_VERSION};
COMMIT;
"""

UPSERT = "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?, ?)"
DELETE = "DELETE FROM record WHERE path = ?"
COUNT = "UPDATE meta SET records = ?, digest = ?, generation = ?"
IDENTIFY = "UPDATE meta SET identity = ?, generation = ?"


class RecordFile:
    """The file, open and locked. `open` makes sure that the file still holds what `read_stored` has read."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, inode: tuple[int, int], seal: Seal, witness: Witness | None
    ) -> None:
        self.path = path
        self._connection = connection
        self._inode = inode
        self._seal = seal
        self._witness = witness
        """The witness that is told of each commit; None while commits are not counted."""
        self._logged_pages = 0
        """About how many pages the log has."""

    @classmethod
    def open(cls, stored: StoredMetadata, witness: Witness | None = None) -> "RecordFile":
        """Opens the file that `read_stored` read with the same witness; creates the file if there is none.

        This is the first change on disk. A witness that has seen no commit so far is told of commits only after
        `begin_witness`. Raises StoreFileError and its subclasses.
        """
        path = stored.path
        with faults_named(path):
            if stored.is_new:
                _create(path)
            elif stored.image:
                _go_on_from(stored)
            connection = _connect(path)
            try:
                # This takes the lock: when a log is in use, an exclusive reader locks the whole file.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                layout = check_owner(path, connection)
                _configure(connection)
                totals, seal = read_meta(connection, layout)
                if (totals, seal) != (stored.totals, stored.seal):
                    raise StoreDamagedError(path, "was changed by another process since it was read")
                if layout != LAYOUT_VERSION:
                    connection.executescript(UPGRADE)
                told = None if stored.is_unwitnessed or stored.is_accepted else witness
                if told is not None:
                    # After SIGKILL the last commit may be in the kernel's memory only. It has to be durable before the
                    # witness is told of it.
                    with contextlib.suppress(FileNotFoundError):
                        sync(f"{path}-wal")
                    told.save(seal)
                status = os.stat(path)
                file = cls(path, connection, (status.st_dev, status.st_ino), seal, told)
            except BaseException:
                connection.close()
                raise
        opened_here.add(file._inode)
        return file

    def begin_witness(self, witness: Witness) -> None:
        """Makes the store tell the witness of each commit from now on. Has no effect when it does so already.

        The identity is drawn anew. A file that the operator accepted by its generation gets the next one, so that the
        operator's word holds only once. A file that was never witnessed stays at generation 0, so that a start that is
        killed here can be repeated. Raises OSError, sqlite3.Error.
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

        Raises sqlite3.Error when nothing of the commit has happened (an error for which `is_passing` is false leaves
        that open). Raises OSError when the witness could not be written; the next start may then find the commit.
        """
        if self._logged_pages >= LOG_PAGES_MAX:
            self._checkpoint()
        connection = self._connection
        seal = self._seal if self._witness is None else self._seal._replace(generation=self._seal.generation + 1)
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(UPSERT, change.upserts)
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
        """Makes a commit that changes nothing, to see whether there is room for one. Raises sqlite3.Error."""
        self._connection.execute("UPDATE meta SET id = id")

    def _checkpoint(self) -> None:
        """Copies the log into the file. When there is no room for that, the log goes on growing.

        SQLite would do this by itself, but then it hides a failed sync (sqlite3WalDefaultHook): the log would be
        written over although the file may not hold its pages. Raises sqlite3.Error.
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
    """Returns whether a write failed only because there is no space, so that a later one may succeed.

    After any other fault (fsync, read, damage) nobody knows what the disk holds, so nothing more may be promised.
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


def _create(path: str) -> None:
    """Makes the file under another name and then gives it its own name, so that a crash never leaves half a store."""
    unfinished = f"{path}.new-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    try:
        _write_empty(unfinished)
        try:
            os.link(unfinished, path)  # never replaces a file, as a rename would
        except FileExistsError:
            pass  # another process made the file first
        except OSError:
            os.rename(unfinished, path)  # this file system has no hard links
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
    sync_folder_of(path)


def _go_on_from(stored: StoredMetadata) -> None:
    """Replaces the file by the state that the operator accepted.

    The log is set aside, because SQLite would restore rejected changes from it. A crash in between leaves a file that
    the next start refuses, as it refused the former one.
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


def _write_empty(path: str) -> None:
    connection = _connect(path)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT_VERSION}; {LAYOUT}"
        )
        row = row_of("/", ROOT)
        connection.execute(UPSERT, row)
        connection.execute("INSERT INTO meta (id, records, digest) VALUES (0, 1, ?)", row[-1:])
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()
