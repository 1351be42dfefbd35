"""Reads a metadata file from its bytes and compares the file with its witness (a small file that counts the commits;
see `witness`), before anything on disk is changed.

SQLite cannot do this with the files themselves: when SQLite opens a database that was not closed, it recovers the
database, and when SQLite closes a database, it copies the log into the file. Therefore this module puts the file and
the whole transactions of the log together in memory, and SQLite reads this copy. A start that is refused leaves the
file and the log as they were.
"""

import contextlib
import errno
import fcntl
import io
import os
import sqlite3
import struct
from collections.abc import Iterator
from typing import Any, Generic, NamedTuple

from magnetar.metadata.embedded.file_format import FileFormat, RecordTotals, TreeT
from magnetar.metadata.embedded.record_rows import RECORDS
from magnetar.metadata.embedded.witness import Seal, Witness, WitnessDamagedError
from magnetar.metadata.embedded.write_ahead_log import WriteAheadLog, read_log
from magnetar.metadata.errors import (
    StoreDamagedError,
    StoreFileError,
    StoreForeignError,
    StoreLockedError,
    StoreMismatchError,
)

PAGE_BYTES = 4096
LAYOUT_WITHOUT_SEAL = 1
"""The first layout of a standalone server's file, in which `meta` has neither identity nor generation."""

ACCEPT_KEY = "acceptMetadataGeneration"

_LOCK_OFFSET, _LOCK_BYTES = 0x40000000, 512
"""The bytes by which SQLite locks a database (os_unix.c: PENDING_BYTE and those that follow)."""
_FORMAT_VERSIONS = slice(18, 20)
"""Two bytes of a database's header: both are 2 when it has a write-ahead log, and 1 when it has none."""

opened_here: set[tuple[int, int]] = set()
"""The pairs (device, inode) of the files that stores of this process have open.

When a process closes any descriptor of a file, POSIX gives up all its locks on that file. Therefore a file in this set
must not be opened again, not even for reading.
"""


class StoredMetadata(NamedTuple, Generic[TreeT]):
    """The content of a metadata file after all checks that need no other file."""

    path: str
    tree: TreeT
    totals: RecordTotals
    layout: int
    """The version of the layout; 0 when there is no file yet."""
    seal: Seal
    image: bytes | bytearray
    """The content that is to replace the file and its log; empty when nothing has to be replaced."""
    is_unwitnessed: bool = False
    """Whether no commit of the file was witnessed, because the file is new, has the first layout, or its first start
    broke off. The caller has to compare the ledgers' ids to find out whether the file is older than the bookie's
    data."""
    is_accepted: bool = False
    """Whether the file does not fit its witness or its log, but the operator accepted it nevertheless."""
    format: FileFormat[Any] = RECORDS

    @property
    def is_new(self) -> bool:
        return self.layout == 0

    def is_meant_by(self, accepted_generation: int | None) -> bool:
        """Returns whether the operator accepted a file of this generation."""
        return not self.is_new and accepted_generation == self.seal.generation


def read_stored(
    path: str, witness: Witness | None, accepted_generation: int | None, file_format: FileFormat[TreeT]
) -> StoredMetadata[TreeT]:
    """Reads the file and compares it with the witness. Nothing on disk is changed.

    A file of the `accepted_generation` is accepted even if it contradicts the witness or the end of its log. Raises
    StoreMismatchError, StoreDamagedError and the other subclasses of StoreFileError.
    """
    with faults_named(path), _open_files(path) as files:
        if files is None:
            tree, totals = file_format.load(path, file_format.first_rows)
            stored = StoredMetadata(path, tree, totals, 0, Seal(b"", 0), b"", format=file_format)
            fault, log_note = None, ""
        else:
            stored, fault, log_note, log = _best_reading(path, files, file_format)
            if stored.is_meant_by(accepted_generation):
                stored = stored._replace(image=files.image(log))
    seen = None
    if witness is not None:
        try:
            seen = witness.read()
            reason = mismatch(stored, seen, witness.path, log_note)
        except WitnessDamagedError as error:
            reason = str(error)
        if reason is not None and fault is None:
            fault = StoreMismatchError(path, reason)
    if fault is None:
        return stored._replace(is_unwitnessed=seen is None, image=b"")
    if stored.is_meant_by(accepted_generation):
        return stored._replace(is_accepted=True)
    raise type(fault)(fault.path, f"{fault.reason}. {advice(stored)}")


def mismatch(stored: StoredMetadata[Any], seen: Seal | None, witness_path: str, log_note: str = "") -> str | None:
    """Returns why a file and its witness cannot be from the same time, or None when they can. `log_note` describes
    anything odd about the file's log.
    """
    mine, folder = stored.seal, os.path.dirname(witness_path)
    if seen is None:
        if mine.generation == 0:
            return None
        return (
            f"is at generation {mine.generation}, and {witness_path}, which has seen it, is missing: is the disk of "
            f"{folder} not mounted, or are the files in it lost?"
        )
    if stored.is_new:
        return f"is missing, and {witness_path} has seen its generation {seen.generation}"
    if mine.generation < seen.generation:
        return (
            f"is older than {stored.format.holder}: it is at generation {mine.generation}, and {witness_path} has seen "
            f"generation {seen.generation}{log_note}"
        )
    if mine.identity != seen.identity:
        return f"is not the file that {witness_path} has seen, but another server's or of another history"
    if mine.generation > seen.generation + 1:
        return (
            f"is newer than {stored.format.holder}: it is at generation {mine.generation}, and {witness_path} has seen "
            f"generation {seen.generation} only: is {folder} an old copy?"
        )
    return None


def advice(stored: StoredMetadata[Any]) -> str:
    """Returns a text that says what an operator can do about a file that does not fit."""
    files = f"Restore {os.path.basename(stored.path)} with its -wal{stored.format.restore} as they were last"
    if stored.is_new:
        return f"{files}."
    return f"{files}; or start once with {ACCEPT_KEY}={stored.seal.generation}: {stored.format.acceptance}."


class _Files:
    """The database while it is open and locked, and the bytes of its log, which are None when the log is missing."""

    def __init__(self, database: io.FileIO, wal: bytes | None) -> None:
        self._database = database
        self.wal = wal

    def image(self, log: WriteAheadLog) -> bytearray:
        """Returns the content that the database has after its log is copied into it. The database is read for each
        call, so that a large one is in the memory only once. Raises OSError."""
        length = os.fstat(self._database.fileno()).st_size
        size = log.page_count * PAGE_BYTES if log.pages else length
        image = bytearray(size)
        with memoryview(image) as view:
            self._database.seek(0)
            done = 0
            while done < min(size, length):
                read = self._database.readinto(view[done : min(size, length)])
                if not read:
                    raise OSError(errno.EIO, "it became shorter")
                done += read
            for page, offset in log.pages.items():
                view[(page - 1) * PAGE_BYTES : page * PAGE_BYTES] = (self.wal or b"")[offset : offset + PAGE_BYTES]
        image[_FORMAT_VERSIONS] = b"\1\1"
        return image


@contextlib.contextmanager
def _open_files(path: str) -> Iterator[_Files | None]:
    """Opens the database and reads its log. Yields None when there is no file.

    SQLite's own lock keeps other processes from writing meanwhile. Raises StoreLockedError, StoreDamagedError,
    StoreForeignError, OSError.
    """
    try:
        status = os.stat(path)
        if (status.st_dev, status.st_ino) in opened_here:
            raise StoreLockedError(path, "is in use by this process")
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if os.path.exists(f"{path}-wal"):
            raise StoreDamagedError(path, f"is missing, and its log {path}-wal is there: put it back") from None
        yield None
        return
    with open(fd, "rb", buffering=0) as file:
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCK_BYTES, _LOCK_OFFSET)
        except (BlockingIOError, PermissionError):  # some systems raise EAGAIN, others EACCES
            raise StoreLockedError(path, "is in use by another process") from None
        if not os.fstat(fd).st_size:
            raise StoreForeignError(path, "is empty")
        wal = None
        with contextlib.suppress(FileNotFoundError), open(f"{path}-wal", "rb") as log_file:
            wal = log_file.read()
        yield _Files(file, wal)


def _best_reading(
    path: str, files: _Files, file_format: FileFormat[TreeT]
) -> tuple[StoredMetadata[TreeT], StoreFileError | None, str, WriteAheadLog]:
    """Returns the newest sound state of the file, the reason why this state is not the last one, a note about anything
    odd in the log, and the part of the log that belongs to the state.

    The last state is the file with all whole transactions of its log; for this state the reason is None. When the last
    state is not sound, the file without its log is tried. Raises StoreFileError when no state is sound.
    """
    log_path, wal = f"{path}-wal", files.wal
    log = read_log(wal or b"", PAGE_BYTES)
    fault: StoreFileError | None = None
    if log.damage is not None:
        fault = StoreDamagedError(log_path, f"is damaged at offset {log.damage}, before its last transaction")
    try:
        with faults_named(path):
            return _load(path, files.image(log), file_format), fault, _log_note(log_path, wal, log), log
    except StoreFileError as error:
        fault = fault or error
        if not log.pages:
            raise
    nothing = read_log(b"", PAGE_BYTES)
    with contextlib.suppress(StoreFileError, sqlite3.Error, ValueError, TypeError):
        return _load(path, files.image(nothing), file_format), fault, "", nothing
    raise fault


def _log_note(log_path: str, wal: bytes | None, log: WriteAheadLog) -> str:
    if wal is None:
        return f"; {log_path} is missing"
    if not wal:
        return f"; {log_path} is empty"
    return f"; {log_path} holds no whole transaction from offset {log.end} on" if log.end < len(wal) else ""


def _load(path: str, image: bytearray, file_format: FileFormat[TreeT]) -> StoredMetadata[TreeT]:
    """Reads the records of a database. Empties `image` as soon as SQLite has a copy of it. Raises StoreFileError,
    sqlite3.Error, ValueError or TypeError for a damaged database."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    with contextlib.closing(connection):
        connection.deserialize(image)
        image.clear()
        connection.execute("PRAGMA cell_size_check = ON")
        layout = check_owner(path, connection, file_format)
        with contextlib.closing(connection.execute("SELECT * FROM record ORDER BY path")) as rows:
            tree, totals = file_format.load(path, rows)
        counted, seal = read_meta(connection, layout, file_format)
        # Damage outside of the rows, for instance in the list of free pages, would make a later write go to a wrong
        # page.
        finding = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if counted != totals:
        raise StoreDamagedError(path, f"is damaged: it holds {totals}, and {counted} was written")
    if finding != "ok":
        raise StoreDamagedError(path, f"is damaged: {finding}")
    return StoredMetadata(path, tree, totals, layout, seal, b"", format=file_format)


def check_owner(path: str, connection: sqlite3.Connection, file_format: FileFormat[Any]) -> int:
    """Returns the version of the file's layout. Raises StoreForeignError for a file that is not of this format."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != file_format.application_id:
        raise StoreForeignError(path, "is not a metadata store")
    layout: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if layout != file_format.version and layout not in file_format.upgrades:
        raise StoreForeignError(path, f"has layout version {layout}; this server knows {file_format.version}")
    return layout


def read_meta(connection: sqlite3.Connection, layout: int, file_format: FileFormat[Any]) -> tuple[RecordTotals, Seal]:
    """Returns the totals and the seal that the last commit wrote."""
    if file_format is RECORDS and layout == LAYOUT_WITHOUT_SEAL:
        return RecordTotals(*connection.execute("SELECT records, digest FROM meta").fetchone()), Seal(b"", 0)
    records, digest, identity, generation = connection.execute(
        "SELECT records, digest, identity, generation FROM meta"
    ).fetchone()
    return RecordTotals(records, digest), Seal(identity, generation)


def error_name(error: Exception) -> str:
    """Returns SQLite's name of the error, such as SQLITE_FULL, or the name of its class when SQLite gave none."""
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


def in_words(error: Exception) -> str:
    """Returns an error as messages describe it: its text, and its name in brackets."""
    return f"{error} ({error_name(error)})"


@contextlib.contextmanager
def faults_named(path: str) -> Iterator[None]:
    """Turns errors of the system and of SQLite that are raised inside the block into StoreFileError and its
    subclasses."""
    try:
        yield
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else path
        raise StoreFileError(name, f"cannot be used: {error.strerror or error}") from error
    except (ValueError, TypeError, struct.error) as error:  # a column has a type that was never written
        raise StoreDamagedError(path, f"is damaged: {error}") from error
    except sqlite3.Error as error:
        raise _named(path, error) from error


def _named(path: str, error: sqlite3.Error) -> StoreFileError:
    name = error_name(error)
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StoreLockedError(path, "is in use by another process")
    if name.startswith("SQLITE_NOTADB"):
        return StoreForeignError(path, "is not a metadata store, or its first page is damaged")
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_FULL")):
        return StoreFileError(path, f"cannot be opened: {error}")
    return StoreDamagedError(path, f"is damaged: {in_words(error)}")
