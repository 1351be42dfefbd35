"""Reads a compacted ledger, whose entries are ordered by the positions that their messages have in the log.

Source: CompactedTopicImpl.
"""

from collections.abc import Sequence
from typing import NamedTuple

from magnetar.server.compaction.compacted_entries import decode_entry, position_of
from magnetar.storage.ledger.ledger_client import BookKeeper
from magnetar.storage.ledger.read_handle import ReadHandle
from pulsar_proto.errors import MalformedFrame, MalformedRecord
from pulsar_proto.ids import Position
from pulsar_proto.records.payload import publish_time_of

PLACES_KEPT_MAX = 256
"""The positions of this many entries are remembered, so that binary searches do not read an entry again and again."""


class KeptMessage(NamedTuple):
    """A message that compaction kept, or the part of a batch that compaction kept."""

    position: Position
    payload: bytes


class CompactedLedger:
    """One compacted ledger, which never changes. `horizon` is the last position of the log that compaction looked at:
    messages up to this position are read from this ledger, and later messages from the log."""

    def __init__(self, handle: ReadHandle, horizon: Position) -> None:
        self.horizon = horizon
        self._handle = handle
        self._places: dict[int, Position] = {}

    @classmethod
    async def open(cls, bookkeeper: BookKeeper, ledger_id: int, horizon: Position) -> "CompactedLedger":
        """Opens the ledger. Raises LedgerError."""
        handle = await bookkeeper.open_ledger(ledger_id)
        return cls(handle, horizon)

    @property
    def ledger_id(self) -> int:
        return self._handle.ledger_id

    @property
    def entries(self) -> int:
        return self._handle.last_add_confirmed + 1

    @property
    def size_bytes(self) -> int:
        return self._handle.length

    async def read(self, index: int, max_entries: int, max_bytes: int) -> Sequence[KeptMessage]:
        """Returns entries from the `index`-th on. Returns at least one entry, even if it is larger than `max_bytes`;
        the result is empty only after the last entry. Raises LedgerError, MalformedRecord."""
        if index >= self.entries:
            return []
        last = min(index + max_entries, self.entries) - 1
        entries = await self._handle.read(index, last, max_bytes)
        offset = self._handle.payload_offset
        return [KeptMessage(*decode_entry(entry, offset)) for entry in entries]

    async def index_of(self, position: Position) -> int:
        """Returns the index of the first entry at or after `position`, or the number of entries when there is none.
        Reads about log2(entries) single entries. Raises LedgerError, MalformedRecord."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if await self._place(middle) < position:
                low = middle + 1
            else:
                high = middle
        return low

    async def index_at_time(self, publish_time_ms: int) -> int:
        """Returns the index of the first entry that was published at `publish_time_ms` or later, or the number of
        entries when there is no such entry. Raises LedgerError, MalformedRecord."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            if _published_ms((await self.read(middle, 1, 1))[0].payload) < publish_time_ms:
                low = middle + 1
            else:
                high = middle
        return low

    async def last(self) -> KeptMessage | None:
        """Returns the last message, or None when the ledger is empty. Raises LedgerError, MalformedRecord."""
        found = await self.read(self.entries - 1, 1, 1) if self.entries else []
        return found[0] if found else None

    async def _place(self, index: int) -> Position:
        known = self._places.get(index)
        if known is None:
            entry = (await self._handle.read(index, index, 1))[0]
            if len(self._places) >= PLACES_KEPT_MAX:
                self._places.clear()
            known = self._places[index] = position_of(entry, self._handle.payload_offset)
        return known


def _published_ms(payload: bytes) -> int:
    try:
        return publish_time_of(payload)
    except MalformedFrame as error:
        raise MalformedRecord(str(error)) from error
