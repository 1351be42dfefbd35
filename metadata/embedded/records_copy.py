"""A copy of all records of a store at one moment, in memory.

A backup reads the copy in portions, while the store goes on with its file. SQLite's backup interface makes the copy
without holding the interpreter.
"""

import contextlib
import sqlite3
import threading

from magnetar.metadata.embedded.record_rows import Row

_ROW_BYTES = 128
"""About how many bytes a row has besides its value."""


class RecordsCopy:
    """The records of a store's file, as they were when the copy was made. Any thread may use it."""

    def __init__(self, source: sqlite3.Connection) -> None:
        """Copies the whole file, on the thread that owns `source`. Raises sqlite3.Error."""
        self._lock = threading.Lock()
        """Held during every call, because `close` may come while another thread reads."""
        self._memory = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        try:
            source.backup(self._memory)
            self.history = bytes(self._memory.execute("SELECT identity FROM meta").fetchone()[0])
            """The identity of the file's history: a file that was restored or accepted gets another one."""
            self._rows = self._memory.execute("SELECT * FROM record ORDER BY path")
        except BaseException:
            self._memory.close()
            raise

    def next_rows(self, bytes_wanted: int) -> list[Row]:
        """Returns further rows by ascending path, until their values have so many bytes; none at the end. Raises
        sqlite3.Error."""
        rows: list[Row] = []
        size = 0
        with self._lock:
            while size < bytes_wanted and (row := self._rows.fetchone()) is not None:
                rows.append(row)
                size += _ROW_BYTES + len(row[1])
        return rows

    def value(self, path: str) -> bytes | None:
        """Returns the value of one record, or None when there is no such record. Raises sqlite3.Error."""
        with self._lock:
            row = self._memory.execute("SELECT value FROM record WHERE path = ?", (path,)).fetchone()
        return None if row is None else bytes(row[0])

    def close(self) -> None:
        """Frees the memory. A second call has no effect."""
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._memory.close()
