"""The one SQLite file of the embedded store: how it is made, opened and written. Synchronous; used by one thread at a
time. What it holds is read by `magnetar.metadata.embedded.stored_metadata`.

    record  path, value, version, created_ms, modified_ms, sequence, crc    persistent records only, also "/"
    meta    records, digest                                                 how many there must be, and their sum
            identity, generation                                            see `magnetar.metadata.embedded.witness`

The write-ahead log is fsynced at each commit (synchronous=FULL), and the file is locked for as long as it is open.
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
"""The log is copied into the file when it has grown to about this: what a start after a crash has to read."""
CACHE_KIB = 512
SET_ASIDE = "-set-aside"
"""What the name of a log ends with that an accepted file goes on without."""

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
    """An open and locked file that holds what was read of it."""

    def __init__(
        self, path: str, connection: sqlite3.Connection, inode: tuple[int, int], seal: Seal, witness: Witness | None
    ) -> None:
        self.path = path
        self._connection = connection
        self._inode = inode
        self._seal = seal
        self._witness = witness
        """Set while commits are counted and told to it."""
        self._logged_pages = 0
        """About how long the log is."""

    @classmethod
    def open(cls, stored: StoredMetadata, witness: Witness | None = None) -> "RecordFile":
        """Opens what `read_stored` found with the same witness; makes the file where there is none. The first change on
        disk. A witness that has seen no commit so far is told of them from `begin_witness` on. Raises StoreFileError
        and its kinds."""
        path = stored.path
        with faults_named(path):
            if stored.is_new:
                _create(path)
            elif stored.image:
                _go_on_from(stored)
            connection = _connect(path)
            try:
                # Takes the lock: with the log in use, an exclusive reader locks the whole file.
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
                    # After SIGKILL the last commit may be in the kernel's memory only, and has to be durable before it
                    # is witnessed.
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
        """From here on the witness is told of each commit. Has no effect when it is already.

        A file that was accepted leaves the generation by which it was, log or no log, so that the operator's word holds
        once. A file that was never witnessed stays at 0, which a start that was killed here goes on from. Raises
        OSError, sqlite3.Error.
        """
        if self._witness is None:
            generation = self._seal.generation
            seal = Seal(secrets.token_bytes(IDENTITY_BYTES), generation and generation + 1)
            self._connection.execute(IDENTIFY, seal)
            self._connection.execute("PRAGMA wal_checkpoint")
            witness.begin(seal)
            self._seal, self._witness = seal, witness

    def write(self, change: RowChange) -> None:
        """One durable commit, which the witness has seen when this returns.

        Raises sqlite3.Error; then nothing of it has happened (but see `is_passing`). Raises OSError for the witness;
        then the commit may be found by the next start.
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
        self._logged_pages += 2 + (len(change.upserts) + len(change.deletes)) // 2  # neighbours share pages
        if self._witness is not None:
            self._witness.save(seal)

    def try_to_write(self) -> None:
        """A commit that changes nothing: is there room for one? Raises sqlite3.Error."""
        self._connection.execute("UPDATE meta SET id = id")

    def _checkpoint(self) -> None:
        """Copies the log into the file; without room for that the log goes on growing. SQLite would do it by itself,
        but then it hides a failed sync (sqlite3WalDefaultHook), and the log would be written over though the file may
        not hold its pages. Raises sqlite3.Error."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint")
            self._logged_pages = 0
        except sqlite3.Error as error:
            if not is_passing(error):
                raise

    def close(self) -> None:
        """Copies the log into the file and removes it; on a full disk the log stays, and the next open reads it."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()
        opened_here.discard(self._inode)
        if self._witness is not None:
            self._witness.close()


def is_passing(error: Exception) -> bool:
    """True when the write failed for want of space and a later one may succeed.

    After any other fault (fsync, read, damage) what the disk holds is unknown, and nothing more may be promised.
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
    """Makes the file under another name and then gives it its own, so that a crash never leaves half a store."""
    unfinished = f"{path}.new-{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    try:
        _write_empty(unfinished)
        try:
            os.link(unfinished, path)  # never replaces a file, as a rename would
        except FileExistsError:
            pass  # another process was first
        except OSError:
            os.rename(unfinished, path)  # a file system without links
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
    sync_folder_of(path)


def _go_on_from(stored: StoredMetadata) -> None:
    """Makes the accepted state the file. Its log is set aside, because SQLite would bring back what was not accepted. A
    crash in between leaves a file that is refused like the one before."""
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
