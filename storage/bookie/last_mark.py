"""The file `lastMark`: the positions from which the journals are replayed, and the least that the index must contain.

docs/DATA_FILES.md describes its bytes, in "5. Mark: `lastMark`". An index that is older than the mark would lack
entries whose journals are gone, and RocksDB itself does not notice that an index is old. Therefore the mark holds two
things that a start compares with the index:

- RocksDB's sequence number, which grows with each record: an index that lost records at its end has a lower number.
- RocksDB's manifest (`index_manifest`): an old index that was put back has another manifest.

The mark also holds the id of the next entry log, so that no new log gets the name of a lost log, whose file may be put
back.
"""

import struct
from typing import NamedTuple

from magnetar.storage.bookie.bookie_errors import MarkDamaged
from magnetar.storage.bookie.durable_file import replace_file
from magnetar.storage.bookie.index_manifest import Manifest
from magnetar.storage.bookie.journal_format import JournalPosition
from pulsar_proto.checksum import crc32c

_HEAD = struct.Struct(">4sI")
_COUNT = struct.Struct(">I")
_POSITION = struct.Struct(">QQQ")
_SEQUENCE = struct.Struct(">Q")
_REST = struct.Struct(">QQII")
_CRC = struct.Struct(">I")
_MAGIC = b"MGMK"
_ONE_JOURNAL = 1
_SEVERAL_JOURNALS = 2
_WITH_REST = 3

Positions = tuple[JournalPosition, ...]
"""A position for each journal, in the order of the configuration."""


class LastMark(NamedTuple):
    """The state after one checkpoint: everything before `positions` is in the entry logs and the index."""

    positions: Positions
    index_sequence: int
    manifest: Manifest | None = None
    """The state of RocksDB's manifest; None in a mark of format 1 or 2, which earlier versions of this server wrote."""
    next_log_id: int = 0


class LastMarkFile:
    """The file, which is always replaced as a whole. `last` is the mark that was loaded or saved last."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.last: LastMark | None = None

    def load(self) -> LastMark | None:
        """Reads and returns the mark, or returns None when there is no file. Raises MarkDamaged."""
        try:
            with open(self._path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            return None
        if len(data) < _CRC.size or _CRC.unpack(data[-_CRC.size :])[0] != crc32c(data[: -_CRC.size]):
            raise MarkDamaged(f"{self._path} is damaged: checksum mismatch")
        try:
            self.last = _parse(data[: -_CRC.size])
        except (struct.error, ValueError):
            raise MarkDamaged(f"{self._path} is not a mark that this program knows") from None
        return self.last

    def save(self, mark: LastMark) -> None:
        """Replaces the file durably. Raises OSError; AssertionError for a mark that would move back."""
        if mark == self.last:
            return
        before = self.last.positions if self.last is not None else mark.positions
        pairs = zip(mark.positions, before, strict=True)
        assert all(new >= old for new, old in pairs), f"mark would move back: {mark}"
        data = _format(mark)
        replace_file(self._path, data + _CRC.pack(crc32c(data)))
        self.last = mark


def _format(mark: LastMark) -> bytes:
    assert mark.manifest is not None
    head = _HEAD.pack(_MAGIC, _WITH_REST) + _COUNT.pack(len(mark.positions))
    positions = b"".join([_POSITION.pack(*each) for each in mark.positions])
    return head + positions + _SEQUENCE.pack(mark.index_sequence) + _REST.pack(*mark.manifest, mark.next_log_id)


def _parse(data: bytes) -> LastMark:
    """Returns the mark in `data`. Raises ValueError, struct.error."""
    magic, version = _HEAD.unpack_from(data)
    if magic != _MAGIC or version not in (_ONE_JOURNAL, _SEVERAL_JOURNALS, _WITH_REST):
        raise ValueError(version)
    start, count = _HEAD.size, 1
    if version != _ONE_JOURNAL:
        count, start = _COUNT.unpack_from(data, start)[0], start + _COUNT.size
    end = start + count * _POSITION.size
    rest = _REST.size if version == _WITH_REST else 0
    if len(data) != end + _SEQUENCE.size + rest:
        raise ValueError(len(data))
    positions = tuple(JournalPosition(*each) for each in _POSITION.iter_unpack(data[start:end]))
    (sequence,) = _SEQUENCE.unpack_from(data, end)
    if not rest:
        return LastMark(positions, sequence)
    *manifest, next_log_id = _REST.unpack_from(data, end + _SEQUENCE.size)
    return LastMark(positions, sequence, Manifest(*manifest), next_log_id)
