"""The one SQLite file of the embedded store: layout, checks and writes. Synchronous; used by one thread at a time.

    record  path, value, version, created_ms, modified_ms, sequence, crc    persistent records only, also "/"
    meta    records, digest                                                 how many there must be, and their sum

`crc` is the CRC-32 of the row's other columns and `digest` the sum of all of them: SQLite has no checksums of its own,
and a metadata record that is quietly lost would have its ledgers deleted as garbage. The write-ahead log is fsynced at
each commit (synchronous=FULL), and the file is locked for as long as it is open.
"""

import contextlib
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from metadata.errors import (
    NoNodeError,
    StoreDamagedError,
    StoreFileError,
    StoreForeignError,
    StoreLockedError,
)
from metadata.tree import PERSISTENT, Node, Staged, Tree
from metadata.wal_check import find_damage

APPLICATION_ID = 0x4D474E54
"""SQLite's mark of whose file it is: "MGNT"."""
LAYOUT_VERSION = 1
PAGE_BYTES = 4096
LOG_PAGES_MAX = 128
"""The log is copied into the file when it has grown to this: what a start after a crash has to read."""
CACHE_KIB = 512

LAYOUT = """
CREATE TABLE record (
    path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, created_ms INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL, sequence INTEGER NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE meta (id INTEGER PRIMARY KEY CHECK (id = 0), records INTEGER NOT NULL, digest INTEGER NOT NULL);
"""

UPSERT = "INSERT OR REPLACE INTO record VALUES (?, ?, ?, ?, ?, ?, ?)"
DELETE = "DELETE FROM record WHERE path = ?"
COUNT = "UPDATE meta SET records = ?, digest = ?"

_NUMBERS = struct.Struct(">qqqq")


Row = tuple[str, bytes, int, int, int, int, int]
"""The columns of `record`."""


class Totals(NamedTuple):
    """How many records the file holds and the sum of their checksums."""

    records: int
    digest: int


class Change(NamedTuple):
    """What one commit writes."""

    upserts: list[Row]
    deletes: list[tuple[str]]
    totals: Totals


def row_crc(path: str, node: Node) -> int:
    numbers = _NUMBERS.pack(node.version, node.created_ms, node.modified_ms, node.sequence)
    return zlib.crc32(path.encode(), zlib.crc32(node.value, zlib.crc32(numbers)))


def _row(path: str, node: Node | None) -> Row | None:
    if node is None or node.owner != PERSISTENT:
        return None
    return path, node.value, node.version, node.created_ms, node.modified_ms, node.sequence, row_crc(path, node)


def plan_change(tree: Tree, staged: Staged, totals: Totals) -> Change | None:
    """What must be written so that the file follows the tree to `staged`; None when no persistent record changes.

    Ephemeral records are never written: they end with the process at the latest.
    """
    upserts: list[Row] = []
    deletes: list[tuple[str]] = []
    records, digest = totals
    for path, node in staged.items():
        old = _row(path, tree.find(path))
        new = _row(path, node)
        if old == new:
            continue  # ephemeral, or only its number of children changed
        if old is not None:
            records -= 1
            digest -= old[-1]
        if new is not None:
            records += 1
            digest += new[-1]
            upserts.append(new)
        else:
            deletes.append((path,))
    if not upserts and not deletes:
        return None
    return Change(upserts, deletes, Totals(records, digest))


class RecordFile:
    """An open, locked and checked file."""

    def __init__(self, path: str, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: str) -> tuple["RecordFile", Tree, Totals]:
        """Opens the file, making it where there is none, and reads it. Raises StoreFileError and its kinds."""
        with _faults_named(path):
            if not os.path.exists(path):
                _create(path)
            _check_log(path)
            connection = _connect(path)
            try:
                # Takes the lock: with the log in use, an exclusive reader locks the whole file.
                connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                _check_owner(path, connection)
                for setting in (
                    "journal_mode = WAL",
                    "synchronous = FULL",
                    f"wal_autocheckpoint = {LOG_PAGES_MAX}",
                    f"cache_size = -{CACHE_KIB}",
                    "cell_size_check = ON",
                    "secure_delete = OFF",
                    "temp_store = MEMORY",
                ):
                    connection.execute(f"PRAGMA {setting}")
                tree, totals = _load(path, connection)
            except BaseException:
                connection.close()
                raise
        return cls(path, connection), tree, totals

    def write(self, change: Change) -> None:
        """One durable commit. Raises sqlite3.Error; then nothing of it has happened (but see `is_passing`)."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(UPSERT, change.upserts)
            connection.executemany(DELETE, change.deletes)
            connection.execute(COUNT, change.totals)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Copies the log into the file and removes it; on a full disk the log stays, and the next open reads it."""
        with contextlib.suppress(sqlite3.Error):
            self._connection.close()


def is_passing(error: Exception) -> bool:
    """True when the write failed for want of space and a later one may succeed.

    After any other fault (fsync, read, damage) what the disk holds is unknown, and nothing more may be promised.
    """
    return isinstance(error, sqlite3.Error) and error_name(error) in ("SQLITE_FULL", "SQLITE_IOERR_WRITE")


def error_name(error: Exception) -> str:
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


@contextlib.contextmanager
def _faults_named(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFileError(path, f"cannot be opened: {error.strerror or error}") from error
    except (ValueError, TypeError, struct.error) as error:  # columns of types that were never written
        raise StoreDamagedError(path, f"is damaged: {error}") from error
    except sqlite3.Error as error:
        name = error_name(error)
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise StoreLockedError(path, "is in use by another process") from error
        if name.startswith("SQLITE_NOTADB"):
            raise StoreForeignError(path, "is not a metadata store, or its first page is damaged") from error
        if name.startswith(("SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_FULL")):
            raise StoreFileError(path, f"cannot be opened: {error}") from error
        raise StoreDamagedError(path, f"is damaged: {error} ({name})") from error


def _connect(path: str) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=0, isolation_level=None)


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
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _write_empty(path: str) -> None:
    connection = _connect(path)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.executescript(
            f"BEGIN; PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {LAYOUT_VERSION}; {LAYOUT}"
        )
        row = _row("/", Node(b"", 0, 0, 0))
        assert row is not None
        connection.execute(UPSERT, row)
        connection.execute("INSERT INTO meta VALUES (0, 1, ?)", row[-1:])
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")
    finally:
        connection.close()


def _check_log(path: str) -> None:
    """Raises StoreDamagedError. Comes before SQLite opens the file: it would drop the damaged part for good."""
    log_path = f"{path}-wal"
    while True:
        try:
            log = _read(log_path)
        except FileNotFoundError:
            return
        offset = find_damage(log, PAGE_BYTES)
        if offset is None:
            return
        if log == _read(log_path):  # else another process is writing it: the lock will say so
            raise StoreDamagedError(log_path, f"is damaged at offset {offset}, before its last transaction")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _check_owner(path: str, connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreForeignError(path, "is not a metadata store")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version != LAYOUT_VERSION:
        raise StoreForeignError(path, f"has layout version {version}; this server knows {LAYOUT_VERSION}")


def _load(path: str, connection: sqlite3.Connection) -> tuple[Tree, Totals]:
    tree = Tree()
    records = digest = 0

    def checked(rows: Iterable[Row]) -> Iterator[tuple[str, Node]]:
        nonlocal records, digest
        for record_path, value, version, created_ms, modified_ms, sequence, crc in rows:
            if created_ms == modified_ms:
                modified_ms = created_ms  # one number in memory: most records are never changed
            if not isinstance(record_path, str) or not isinstance(value, bytes):
                raise StoreDamagedError(path, f"is damaged: no record can be {record_path!r}")
            node = Node(value, version, created_ms, modified_ms, sequence=sequence)
            if row_crc(record_path, node) != crc:
                raise StoreDamagedError(path, f"is damaged: record {record_path} is not as it was written")
            records += 1
            digest += crc
            yield record_path, node

    # Closed in any case: a cursor left open in a traceback would keep the file locked.
    with contextlib.closing(connection.execute("SELECT * FROM record ORDER BY path")) as rows:
        try:
            tree.load(checked(rows))  # a parent's path sorts before its child's
        except NoNodeError as error:
            raise StoreDamagedError(path, f"is damaged: record {error.path} is lost") from error
    totals = Totals(records, digest)
    counted = connection.execute("SELECT records, digest FROM meta").fetchone()
    if counted != totals:
        raise StoreDamagedError(path, f"is damaged: {records} records with sum {digest}, {counted} were written")
    return tree, totals
