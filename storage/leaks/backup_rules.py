"""The manifest of a backup, which lists what the backup holds and proves that it is whole. No I/O.

A backup is a folder: `manifest.json`, `records/N` with the value of the N-th record of the manifest, and
`entries/LEDGER` with entries of a ledger, each as `u64 entry id | u32 size | entry` (big endian). An entry is stored as
the bookies have it, with header and digest.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from struct import Struct

from magnetar.metadata.tree_rules import check_path
from pulsar_proto.records.ledger_record import ledger_id_of_path

FORMAT = "magnetar-leaks-backup"
VERSION = 1
ENTRY_HEAD = Struct(">QI")
ENTRY_BYTES_MAX = 256 << 20
"""A frame that claims a longer entry is damaged: no bookie takes one."""


class BackupDamaged(Exception):
    """The backup cannot be used: it is not whole, or it is not one. The error's text says what is wrong."""


@dataclass(frozen=True, slots=True)
class StoredEntries:
    count: int
    file_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class BackupItem:
    """One record of a backup."""

    store: str
    """The name of the metadata store; empty for the store of the ledgers."""
    path: str
    version: int
    value_bytes: int
    sha256: str
    reason: str
    ledger_id: int | None = None
    """The ledger whose record this is; None for other records."""
    entries: StoredEntries | None = None

    def holds(self, value: bytes) -> bool:
        """Returns whether this is the item's value."""
        return len(value) == self.value_bytes and digest(value) == self.sha256

    def check(self) -> None:
        """Raises ValueError for what no backup holds. A ledger has to be that of the record: otherwise a restoration
        would write the entries into another ledger."""
        texts = [self.store, self.path, self.sha256, self.reason]
        numbers = [self.version, self.value_bytes]
        if self.entries is not None:
            texts.append(self.entries.sha256)
            numbers += [self.entries.count, self.entries.file_bytes]
        if not all(isinstance(each, str) for each in texts) or not all(type(each) is int for each in numbers):
            raise ValueError("a record's fields have other types")
        check_path(self.path)
        if self.ledger_id is not None and (type(self.ledger_id), self.ledger_id) != (int, ledger_id_of_path(self.path)):
            raise ValueError(f"{self.path} is not the record of ledger {self.ledger_id}")


@dataclass(frozen=True, slots=True)
class Manifest:
    made_ms: int
    """When the look ended that found these records."""
    instance_id: str
    """The id of the BookKeeper cluster, so that a backup is not restored into another one."""
    stores: tuple[str, ...]
    items: tuple[BackupItem, ...]

    def serialize(self) -> bytes:
        return json.dumps({"format": FORMAT, "version": VERSION, **asdict(self)}, indent=1).encode()

    @staticmethod
    def parse(data: bytes) -> "Manifest":
        """Raises BackupDamaged for anything but a manifest."""
        try:
            fields = json.loads(data)
            if (fields.pop("format"), fields.pop("version")) != (FORMAT, VERSION):
                raise ValueError("another format or version")
            items = [
                BackupItem(**{**item, "entries": item["entries"] and StoredEntries(**item["entries"])})
                for item in fields.pop("items")
            ]
            manifest = Manifest(**{**fields, "stores": tuple(fields["stores"]), "items": tuple(items)})
            if type(manifest.made_ms) is not int or not isinstance(manifest.instance_id, str):
                raise ValueError("made_ms or instance_id has another type")
            for item in items:
                item.check()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise BackupDamaged(f"the manifest is damaged: {error}") from None
        return manifest


def digest(data: bytes) -> str:
    return sha256(data).hexdigest()


def frame(entry_id: int, entry: bytes) -> bytes:
    return ENTRY_HEAD.pack(entry_id, len(entry)) + entry


def frames(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields (entry id, start, end) of each whole frame in `data`, where `data[start:end]` is the entry."""
    at = 0
    while at + ENTRY_HEAD.size <= len(data):
        entry_id, size = ENTRY_HEAD.unpack_from(data, at)
        if size > ENTRY_BYTES_MAX:
            raise BackupDamaged(f"an entry claims {size} bytes")
        at += ENTRY_HEAD.size
        if at + size > len(data):
            return
        yield entry_id, at, at + size
        at += size
