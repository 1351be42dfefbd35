"""Questions about what a managed ledger holds, and reads of its entries."""

from collections.abc import Callable, Mapping

from magnetar.storage.managed.entry_run import EntryRun
from magnetar.storage.managed.gaps import Gaps
from magnetar.storage.managed.ledger_reader import LedgerReader
from magnetar.storage.managed.list_store import ListStore
from pulsar_proto.ids import EARLIEST, Position


class ManagedLedgerView:
    """The methods of a `ManagedLedger` that ask and read. None of them changes the managed ledger."""

    __slots__ = ("_ledgers", "_lists", "_reader")

    def __init__(self, lists: ListStore, reader: LedgerReader) -> None:
        self._lists = lists
        self._ledgers = lists.ledgers
        self._reader = reader

    @property
    def last_confirmed(self) -> Position:
        """The last confirmed entry, or a position with entry id -1 when there never was one. The position does not go
        back when that entry is trimmed."""
        return self._ledgers.last_confirmed

    @property
    def first_position(self) -> Position:
        """Returns the first existing entry, or the position of the next one when there is none."""
        return self._ledgers.first_position

    @property
    def terminated(self) -> Position | None:
        """Returns the last position if the managed ledger is terminated, else None."""
        return self._lists.terminated

    @property
    def number_of_entries(self) -> int:
        return self._ledgers.entries

    @property
    def total_size(self) -> int:
        """Payload bytes of all entries."""
        return self._ledgers.size

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties in ManagedLedgerInfo: the topic's own, `pulsar.topic.epoch` and the like."""
        return self._lists.properties

    def is_after_last(self, position: Position) -> bool:
        """Whether no confirmed entry stands at or after `position`."""
        return position > self._ledgers.last_confirmed

    @property
    def gaps(self) -> Gaps:
        """Entries that are known to be lost, because a read or `scan` has asked for them."""
        return self._reader.gaps

    def next_position(self, position: Position) -> Position:
        """Returns the first existing entry after `position`, or the position behind the last entry."""
        return self._ledgers.next_position(position)

    def previous_position(self, position: Position) -> Position:
        """Returns the last existing entry before `position`, or the position before the first entry when there is
        none."""
        return self._ledgers.previous_position(position)

    def entry_at(self, rank: int) -> Position:
        """Returns the entry that has `rank` entries before it; 0 <= rank < entries."""
        return self._ledgers.entry_at(rank)

    def entries_between(self, after: Position, upto: Position) -> int:
        """Returns how many entries are in (after, upto]; 0 when `upto` is not after `after`."""
        return self._ledgers.entries_between(after, upto)

    def size_after(self, position: Position) -> int:
        """Returns an estimate of the payload bytes after `position`."""
        return self._ledgers.size_after(position)

    # ---- reading (see `LedgerReader`)

    def cached(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun | None:
        """Returns entries from exactly `position` on, at least one, if they are in memory; otherwise None."""
        return self._reader.cached(position, max_entries, max_bytes)

    async def read(self, position: Position, max_entries: int, max_bytes: int) -> EntryRun:
        """Returns entries of one ledger, beginning with the first existing entry at or after `position`. The run is
        empty at the end. Raises EntriesLost, EntryReadFault, LedgerGone."""
        return await self._reader.read(position, max_entries, max_bytes)

    async def scan(self, after: Position, until_s: float) -> Position:
        """Reads all entries after `after`, so that `gaps` knows the lost ones, until the loop's time reaches `until_s`.
        Returns the last position that it read. Raises EntryReadFault, LedgerGone."""
        return await self._reader.scan(after, until_s)

    async def find_first(self, predicate: Callable[[bytes], bool], after: Position = EARLIEST) -> Position:
        """Returns the first entry after `after` for whose payload `predicate` holds, or the position after the last
        entry when there is none. If `predicate` holds for an entry, it must hold for all entries after that one. Raises
        the errors of `read`."""
        return await self._reader.find_first(predicate, after)
