"""Makes the index's writes durable: syncs RocksDB's log in place of RocksDB.

A synced write of RocksDB would do the same, but rocksdict holds the interpreter while RocksDB writes. The event loop
would stand still until the disk has answered, for 100 ms when the disk is busy. Therefore all writes to the index are
unsynced, which leaves them with the kernel, and `IndexLog.sync` follows them, during which other threads run.

RocksDB begins another log file when it begins to write the records of the file before into a table. It deletes the old
file when that table is durable. So the records that a crash could lose are in the files that exist.
"""

import os
import re
from contextlib import suppress

from magnetar.storage.bookie.durable_file import DurableFile, sync_directory

_NAME = re.compile(r"[0-9]{6,}\.log")


class IndexLog:
    """The log files in the folder of an open index. One thread uses this object."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._failure: OSError | None = None
        self._known: set[str] = set()
        """The files whose names are durable."""

    def sync(self) -> None:
        """Makes all records durable that RocksDB has written to its log. Raises OSError.

        After an error nobody knows which records are on the disk, though look-ups find them all. Therefore each
        further call raises the same error; only opening the index anew, with another IndexLog, helps.
        """
        if self._failure is not None:
            raise self._failure
        try:
            self._sync()
        except OSError as error:
            self._failure = error
            raise

    def _sync(self) -> None:
        names = sorted(filter(_NAME.fullmatch, os.listdir(self._directory)))
        for name in names:
            with suppress(FileNotFoundError):  # Meanwhile its records are in a table.
                file = DurableFile(os.path.join(self._directory, name))
                try:
                    file.sync()
                finally:
                    file.close()
        if not self._known.issuperset(names):
            sync_directory(self._directory)
        self._known = set(names)
