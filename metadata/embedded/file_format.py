"""Describes the format of a file of records: the id that marks the file, its tables, and how its rows become a tree.

The other modules of this package (locking, detection of damage, durable commits, the witness) work with any such
format. There are two formats: the records of a standalone server (`record_rows`) and those of the ZooKeeper server
(`metadata.zookeeper_server`). Every format keeps its rows in a table `record`, whose column `path` is the key, and has
the table `meta` below. Each row has a checksum, and `meta` holds the number of rows and the sum of their checksums.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, TypeVar

TreeT = TypeVar("TreeT")

Rows = Iterable[tuple[Any, ...]]

META = """
CREATE TABLE meta (
    id INTEGER PRIMARY KEY CHECK (id = 0), records INTEGER NOT NULL, digest INTEGER NOT NULL,
    identity BLOB NOT NULL DEFAULT x'', generation INTEGER NOT NULL DEFAULT 0
);
"""


class RecordTotals(NamedTuple):
    """The number of rows in the file, and the sum of their checksums."""

    records: int
    digest: int


class RowChange(NamedTuple):
    """The content of one commit: rows to insert or replace, keys of rows to delete, and the totals after the commit."""

    upserts: list[tuple[Any, ...]]
    deletes: list[tuple[Any]]
    totals: RecordTotals


@dataclass(frozen=True)
class FileFormat(Generic[TreeT]):
    """One format of file."""

    application_id: int
    """SQLite's application id, which marks a file of this format."""
    version: int
    """The version of the layout, which is SQLite's user_version. A file with an older version can be opened if
    `upgrades` has that version."""
    table: str
    """The SQL that makes the table `record`."""
    columns: int
    """How many columns `record` has."""
    first_rows: Rows
    """The rows of a new file. The last column of a row is its checksum."""
    load: Callable[[str, Rows], tuple[TreeT, RecordTotals]]
    """Builds the tree of all rows, which come by ascending key. The first argument is the file's path, for messages.
    Raises StoreDamagedError when the rows are damaged."""
    holder: str
    """The words with which messages name the data that contradicts a file that is too old, such as "what the bookie
    holds"."""
    restore: str
    """The part of the advice to an operator that follows "Restore FILE with its -wal", such as " and its witness". It
    names other data that may have to be restored. It may be empty."""
    acceptance: str
    """The end of a sentence that says what an operator accepts by setting `acceptMetadataGeneration`."""
    upgrades: Mapping[int, str] = field(default_factory=dict)
    """For each older version of the layout, the SQL that upgrades a file of that version, without BEGIN and COMMIT."""

    @property
    def upsert(self) -> str:
        return f"INSERT OR REPLACE INTO record VALUES ({', '.join('?' * self.columns)})"
