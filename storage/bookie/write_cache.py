"""Entries between their journal write and their place in an entry log: two halves, one filling, one being flushed.

The entries are the very bytes objects that were added, never copies. An entry added again replaces the older one. All
calls come from the loop's thread; the flush thread only reads the half that was handed to it, which changes no more.
"""

from collections.abc import Sequence

ENTRY_OVERHEAD_BYTES = 128
"""What the bound counts for an entry besides its bytes: their header, an integer and a slot of a dict."""


class LedgerEntries:
    __slots__ = ("entries", "first", "last")

    def __init__(self) -> None:
        self.entries: dict[int, bytes] = {}
        self.first = 1 << 63
        self.last = -(1 << 63)


class CacheHalf:
    __slots__ = ("ledgers", "size")

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerEntries] = {}
        self.size = 0
        """Bytes, with ENTRY_OVERHEAD_BYTES for each entry added (also for one that replaced another)."""

    def put(self, ledger_id: int, entry_ids: Sequence[int], entries: Sequence[bytes], size: int) -> None:
        """`size` is the sum of the entries' lengths; a range of ids ascends."""
        ledger = self.ledgers.get(ledger_id)
        if ledger is None:
            ledger = self.ledgers[ledger_id] = LedgerEntries()
        count = len(entries)
        if count == 1:
            first = last = entry_ids[0]
            ledger.entries[first] = entries[0]
        else:
            ledger.entries.update(zip(entry_ids, entries, strict=True))
            if type(entry_ids) is range:
                first, last = entry_ids[0], entry_ids[-1]
            else:
                first, last = min(entry_ids), max(entry_ids)
        if first < ledger.first:
            ledger.first = first
        if last > ledger.last:
            ledger.last = last
        self.size += size + ENTRY_OVERHEAD_BYTES * count


class WriteCache:
    """Bounded by its user: `has_room` before `put`."""

    def __init__(self, half_bytes: int) -> None:
        self._half_bytes = half_bytes
        self.active = CacheHalf()
        self.flushing: CacheHalf | None = None

    def has_room(self, size: int) -> bool:
        """A group larger than a half is admitted to an empty one."""
        return self.active.size + size <= self._half_bytes or self.active.size == 0

    def swap(self) -> CacheHalf:
        """The active half becomes the one to flush; `flushed` must have been called for the one before."""
        assert self.flushing is None
        self.flushing = self.active
        self.active = CacheHalf()
        return self.flushing

    def flushed(self) -> None:
        """The other half can be read from the entry logs now."""
        self.flushing = None

    @property
    def size(self) -> int:
        return self.active.size + (self.flushing.size if self.flushing is not None else 0)

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        ledger = self.active.ledgers.get(ledger_id)
        if ledger is not None and (entry := ledger.entries.get(entry_id)) is not None:
            return entry
        if self.flushing is not None and (ledger := self.flushing.ledgers.get(ledger_id)) is not None:
            return ledger.entries.get(entry_id)
        return None

    def run(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Consecutive entries from `first_entry_id` on, none or at least one; more than one only within `max_bytes`."""
        tables = [
            half.ledgers[ledger_id].entries
            for half in (self.active, self.flushing)
            if half is not None and ledger_id in half.ledgers
        ]
        found: list[bytes] = []
        if not tables:
            return found
        get, older = tables[0].get, tables[1].get if len(tables) > 1 else None
        room = max_bytes
        for entry_id in range(first_entry_id, first_entry_id + max_entries):
            entry = get(entry_id)
            if entry is None and (older is None or (entry := older(entry_id)) is None):
                break
            room -= len(entry)
            if room < 0 and found:
                break
            found.append(entry)
        return found

    def last_entry_id(self, ledger_id: int) -> int | None:
        """The highest id that stands here."""
        lasts = [
            half.ledgers[ledger_id].last
            for half in (self.active, self.flushing)
            if half is not None and ledger_id in half.ledgers
        ]
        return max(lasts, default=None)

    def entry_ids(self, ledger_id: int) -> list[int]:
        """The ids that stand here, ascending."""
        tables = [half.ledgers.get(ledger_id) for half in (self.active, self.flushing) if half is not None]
        return sorted({entry_id for ledger in tables if ledger is not None for entry_id in ledger.entries})

    def touches(self, ledger_id: int, first: int, last: int) -> bool:
        """True when ids between `first` and `last` may stand here, newer than what was read from a log."""
        for half in (self.active, self.flushing):
            ledger = half.ledgers.get(ledger_id) if half is not None else None
            if ledger is not None and ledger.first <= last and first <= ledger.last:
                return True
        return False

    def drop(self, ledger_id: int) -> None:
        """Forgets a deleted ledger. The half that is being flushed keeps it: the deletion follows on that thread."""
        self.active.ledgers.pop(ledger_id, None)
