"""The list of a managed ledger's ledgers, and arithmetic of positions. Pure: no I/O, no clock.

A `LedgerList` holds closed ledgers, which never change, and at most one current ledger, the last one, which grows.
Every answer about entries (backlog, next and previous entry) follows from ledger ids and entry counts; no other counter
exists that could disagree with them. `ledger_rules` decides when ledgers are added and removed.

A position need not exist: its ledger may be trimmed, empty or not made yet. Such a position has its place in the order
of the existing positions, so methods accept it.

Source: ManagedLedgerImpl (its `ledgers` map).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass

from pulsar_proto.ids import EARLIEST, LATEST, Position

NOWHERE = Position(-1, -1)


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """One ledger, as the stored record of the list describes it. `extra` keeps the fields that we do not interpret,
    serialised."""

    ledger_id: int
    entries: int = 0
    size: int = 0
    """Bytes of payload."""
    closed_ms: int = 0
    """When the ledger was closed, in ms since the epoch; 0 while it is open."""
    offloaded_only: bool = False
    """Whether the ledger was offloaded and removed from the bookies, so that it cannot be read here."""
    extra: bytes = b""


class LedgerList:
    """Ledgers in the order of their ids. `current_*` describe the open ledger; its id is -1 when there is none."""

    __slots__ = ("_before", "_ids", "_infos", "_last", "current_entries", "current_id", "current_size")

    def __init__(self, infos: Iterable[LedgerInfo] = ()) -> None:
        """All `infos` are closed ledgers. Empty ledgers stay in the list until `remove`."""
        self._infos = sorted(infos, key=lambda info: info.ledger_id)
        self._ids = [info.ledger_id for info in self._infos]
        self._before = _sums(self._infos)
        self.current_id = -1
        self.current_entries = 0
        self.current_size = 0
        self._last: Position | None = self._last_existing() or NOWHERE
        """The last confirmed entry. None while it is the last one of the current ledger and nobody has asked for it."""

    # ---- what there is

    @property
    def last_confirmed(self) -> Position:
        """The last confirmed entry. It is not made anew for each group that is confirmed, because a topic without
        consumers has nobody who asks for it."""
        if self._last is None:
            self._last = Position(self.current_id, self.current_entries - 1)
        return self._last

    @last_confirmed.setter
    def last_confirmed(self, position: Position) -> None:
        self._last = position

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, ledger_id: int) -> bool:
        return self._index(ledger_id) is not None

    def info(self, ledger_id: int) -> LedgerInfo | None:
        """Returns the ledger's record, or None. The record of the current ledger has zero entries and bytes, as the
        stored record has."""
        index = self._index(ledger_id)
        return None if index is None else self._infos[index]

    @property
    def infos(self) -> Sequence[LedgerInfo]:
        return self._infos

    @property
    def last_id(self) -> int:
        """The id of the last ledger, -1 when there is none."""
        return self._ids[-1] if self._ids else -1

    @property
    def entries(self) -> int:
        """How many entries all ledgers have."""
        return self._before[-1] + self.current_entries

    @property
    def size(self) -> int:
        """How many payload bytes all ledgers have."""
        return sum(info.size for info in self._infos) + self.current_size

    def last_entry(self, ledger_id: int) -> int | None:
        """Returns the id of the ledger's last confirmed entry: -1 when the ledger is empty, None when it is not in the
        list."""
        if ledger_id == self.current_id:
            return self.current_entries - 1
        index = self._index(ledger_id)
        return None if index is None else self._infos[index].entries - 1

    def next_ledger(self, ledger_id: int) -> int | None:
        """Returns the first ledger after `ledger_id` that has entries, or None."""
        for index in range(bisect_right(self._ids, ledger_id), len(self._ids)):
            if self._entries_at(index):
                return self._ids[index]
        return None

    def last_before(self, ledger_id: int) -> Position | None:
        """Returns the last entry in the ledgers before `ledger_id`, or None."""
        for index in range(bisect_left(self._ids, ledger_id) - 1, -1, -1):
            entries = self._entries_at(index)
            if entries:
                return Position(self._ids[index], entries - 1)
        return None

    # ---- positions

    @property
    def first_position(self) -> Position:
        """Returns the first existing entry; without entries, the position of the next entry (`end`)."""
        return self.at_or_after(NOWHERE) or self.end

    @property
    def end(self) -> Position:
        """Returns the position of the next entry. Without a current ledger this is only a lower bound, because the next
        entry will go to a later ledger."""
        if self.current_id >= 0:
            return Position(self.current_id, self.current_entries)
        ledger_id, entry_id = self.last_confirmed
        return Position(ledger_id, entry_id + 1)

    def at_or_after(self, position: Position) -> Position | None:
        """Returns the first existing entry at or after `position`, or None at the end."""
        ledger_id, entry_id = position
        last = self.last_entry(ledger_id)
        if last is not None and entry_id <= last and last >= 0:
            return position if entry_id >= 0 else Position(ledger_id, 0)
        following = self.next_ledger(ledger_id)
        return None if following is None else Position(following, 0)

    def next_position(self, position: Position) -> Position:
        """Returns the first existing entry after `position`, or `end`."""
        ledger_id, entry_id = position
        return self.at_or_after(Position(ledger_id, entry_id + 1)) or self.end

    def previous_position(self, position: Position) -> Position:
        """Returns the last existing entry before `position`, or the position before the first entry when there is
        none."""
        ledger_id, entry_id = position
        last = self.last_entry(ledger_id)
        if last is not None and entry_id > 0 and last >= 0:
            return Position(ledger_id, min(entry_id - 1, last))
        return self.last_before(ledger_id) or Position(self._ids[0] if self._ids else -1, -1)

    def rank(self, position: Position) -> int:
        """Returns how many entries are at or before `position`."""
        ledger_id, entry_id = position
        index = bisect_right(self._ids, ledger_id) - 1
        if index < 0:
            return 0
        entries = self._entries_at(index)
        if self._ids[index] == ledger_id:
            entries = max(0, min(entry_id + 1, entries))
        return self._before[index] + entries

    def entry_at(self, rank: int) -> Position:
        """Returns the entry that has `rank` entries before it; 0 <= rank < entries."""
        assert 0 <= rank < self.entries, rank
        index = bisect_right(self._before, rank, 0, len(self._ids)) - 1
        return Position(self._ids[index], rank - self._before[index])

    def entries_between(self, after: Position, upto: Position) -> int:
        """Returns how many entries are in (after, upto]; 0 when `upto` is not after `after`."""
        return max(0, self.rank(upto) - self.rank(after))

    def size_after(self, position: Position) -> int:
        """Returns an estimate of the payload bytes after `position`: all bytes of the later ledgers, and a share of the
        bytes of its own ledger, in proportion to the entries after `position`."""
        total = self.current_size if position.ledger_id < self.current_id else 0
        for info in reversed(self._infos):
            if info.ledger_id < position.ledger_id:
                break
            if info.ledger_id > position.ledger_id:
                total += info.size
        last = self.last_entry(position.ledger_id)
        if last is not None and last > position.entry_id:
            own = self.current_size if position.ledger_id == self.current_id else self._size_of(position.ledger_id)
            total += own * (last - max(position.entry_id, -1)) // (last + 1)
        return total

    # ---- changes

    def grow(self, count: int, size: int) -> None:
        """Called when `count` more entries of the current ledger are confirmed, with `size` payload bytes together."""
        self.current_entries += count
        self.current_size += size
        self._last = None

    def add(self, ledger_id: int) -> None:
        """Adds a new, empty current ledger. The new ledger's id is greater than all others, because ids are never
        reused."""
        assert self.current_id < 0, (self.current_id, ledger_id)
        assert not self._ids or ledger_id > self._ids[-1], (self._ids[-1], ledger_id)
        self._ids.append(ledger_id)
        self._infos.append(LedgerInfo(ledger_id))
        self._before.append(self._before[-1])
        self.current_id = ledger_id
        if self.last_confirmed.entry_id < 0:
            self.last_confirmed = Position(ledger_id, -1)

    def close_current(self, closed_ms: int) -> None:
        """Closes the current ledger. The ledger stays in the list as a closed one, unless it is empty: then it leaves
        the list."""
        assert self.current_id >= 0
        self._last = self.last_confirmed
        entries, size, ledger_id = self.current_entries, self.current_size, self.current_id
        self.current_id, self.current_entries, self.current_size = -1, 0, 0
        if entries:
            self._infos[-1] = LedgerInfo(ledger_id, entries, size, closed_ms, extra=self._infos[-1].extra)
            self._before[-1] += entries
        else:
            self.remove({ledger_id})

    def remove(self, ledger_ids: Set[int]) -> None:
        """Removes closed ledgers from the list. `last_confirmed` does not change."""
        assert self.current_id not in ledger_ids
        self._infos = [info for info in self._infos if info.ledger_id not in ledger_ids]
        self._ids = [info.ledger_id for info in self._infos]
        self._before = _sums(self._infos)

    def copy(self) -> "LedgerList":
        """Returns a copy, on which a change can be tried."""
        twin = LedgerList()
        twin._infos, twin._ids, twin._before = self._infos[:], self._ids[:], self._before[:]
        twin.current_id, twin.current_entries = self.current_id, self.current_entries
        twin.current_size, twin._last = self.current_size, self.last_confirmed
        return twin

    # ---- inside

    def _index(self, ledger_id: int) -> int | None:
        index = bisect_left(self._ids, ledger_id)
        return index if index < len(self._ids) and self._ids[index] == ledger_id else None

    def start_of(self, position: Position) -> Position:
        """Returns where reading begins for EARLIEST, for LATEST (known by its ledger id alone, because C++ clients
        truncate the entry id) or for a position, which is clipped to the end."""
        if position.ledger_id == LATEST.ledger_id or position > self.end:
            return self.end
        return self.first_position if position <= EARLIEST else position

    def _entries_at(self, index: int) -> int:
        return self.current_entries if self._ids[index] == self.current_id else self._infos[index].entries

    def _size_of(self, ledger_id: int) -> int:
        info = self.info(ledger_id)
        return info.size if info else 0

    def _last_existing(self) -> Position | None:
        return self.last_before(self._ids[-1] + 1) if self._ids else None


def _sums(infos: Sequence[LedgerInfo]) -> list[int]:
    """Returns for each ledger how many entries are before it, and at the end the number of all entries. The current
    ledger counts as empty."""
    sums = [0]
    for info in infos:
        sums.append(sums[-1] + info.entries)
    return sums
