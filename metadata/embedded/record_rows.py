"""Computes the rows in the file of the embedded store with their checksums, plans which rows a commit writes, and
builds the tree from rows.

The module does no I/O itself; rows are handed in. SQLite has no checksums of its own, and a metadata record that is
quietly lost would have its ledgers deleted as garbage. So each row has a `crc`, the CRC-32 of its other columns, and
the file has a `digest`, the sum of the checksums of all rows.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from magnetar.metadata.embedded.file_format import FileFormat, RecordTotals, RowChange
from magnetar.metadata.errors import NoNodeError, StoreDamagedError
from magnetar.metadata.tree_rules import PERSISTENT, RecordNode, Staged, Tree

_NUMBERS = struct.Struct(">qqqq")

Row = tuple[str, bytes, int, int, int, int, int]
"""The columns of the table `record`: path, value, version, created_ms, modified_ms, sequence, crc."""


ROOT = RecordNode(b"", 0, 0, 0)
"""The only record of a new store, "/"."""


def row_crc(path: str, node: RecordNode) -> int:
    numbers = _NUMBERS.pack(node.version, node.created_ms, node.modified_ms, node.sequence)
    return zlib.crc32(path.encode(), zlib.crc32(node.value, zlib.crc32(numbers)))


def row_of(path: str, node: RecordNode) -> Row:
    return path, node.value, node.version, node.created_ms, node.modified_ms, node.sequence, row_crc(path, node)


def _persistent_row(path: str, node: RecordNode | None) -> Row | None:
    return None if node is None or node.owner != PERSISTENT else row_of(path, node)


def plan_change(tree: Tree, staged: Staged, totals: RecordTotals) -> RowChange | None:
    """Returns the change after which the file has the tree's records with the changes of `staged`; None when no
    persistent record changes.

    Ephemeral records are never written, because they end with the process at the latest.
    """
    upserts: list[tuple[Any, ...]] = []
    deletes: list[tuple[Any]] = []
    records, digest = totals
    for path, node in staged.items():
        old = _persistent_row(path, tree.find(path))
        new = _persistent_row(path, node)
        if old == new:
            continue  # the record is ephemeral, or only the number of its children changed
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
    return RowChange(upserts, deletes, RecordTotals(records, digest))


def load_tree(path: str, rows: Iterable[tuple[Any, ...]]) -> tuple[Tree, RecordTotals]:
    """Builds the tree of all rows, which come by ascending path; returns the tree and the totals of the rows.

    `path` is the path of the file, for messages. Raises StoreDamagedError when a checksum, the order or a parent is
    wrong.
    """
    tree = Tree()
    records = digest = 0

    def checked() -> Iterator[tuple[str, RecordNode]]:
        nonlocal records, digest
        for record_path, value, version, created_ms, modified_ms, sequence, crc in rows:
            if created_ms == modified_ms:
                modified_ms = created_ms  # one object serves both fields, because most records never change
            if not isinstance(record_path, str) or not isinstance(value, bytes):
                raise StoreDamagedError(path, f"is damaged: no record can be {record_path!r}")
            node = RecordNode(value, version, created_ms, modified_ms, sequence=sequence)
            if row_crc(record_path, node) != crc:
                raise StoreDamagedError(path, f"is damaged: record {record_path} is not as it was written")
            records += 1
            digest += crc
            yield record_path, node

    try:
        tree.load(checked())  # parents come first, as a parent's path sorts before its child's
    except NoNodeError as error:
        raise StoreDamagedError(path, f"is damaged: record {error.path} is lost") from error
    return tree, RecordTotals(records, digest)


RECORDS = FileFormat(
    application_id=0x4D474E54,  # "MGNT"
    version=2,
    table="""
CREATE TABLE record (
    path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, created_ms INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL, sequence INTEGER NOT NULL, crc INTEGER NOT NULL
) WITHOUT ROWID;
""",
    columns=7,
    first_rows=(row_of("/", ROOT),),
    load=load_tree,
    holder="what the bookie holds",
    restore=", or the bookie's folders,",
    acceptance=(
        "then the metadata of that generation counts, what was recorded after it is lost, and the ledgers that only "
        "the bookie knows are kept"
    ),
    upgrades={
        # The first layout has neither identity nor generation.
        1: """
ALTER TABLE meta ADD COLUMN identity BLOB NOT NULL DEFAULT x'';
ALTER TABLE meta ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
"""
    },
)
"""The format of a standalone server's records."""
