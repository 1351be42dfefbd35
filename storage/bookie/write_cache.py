"""The write cache, which keeps entries from their add until an entry log has them. The cache has two halves: the active
half fills while a checkpoint writes the other half to an entry log.

    adds ──► active ──swap──► flushing ──checkpoint──► entry log      a read asks active, then flushing,
               ▲                                                      then the entry logs: newest first
               └ a new, empty half

No lock is needed, because a half has one owner at a time. The active half belongs to the loop's thread. After `swap`
nobody changes it any more: the flush thread and the loop both only read it, until `flushed` drops it. A read is safe at
that moment because of the order: the entries can be read from the log before the half is dropped.

The entries are the very bytes objects that were added, never copies. An entry that is added again replaces an older
entry with its id in the active half, and hides such an entry in the half that is flushed.
"""

from collections.abc import Sequence

ENTRY_OVERHEAD_BYTES = 128
"""How much the cache's bound counts for an entry besides the entry's bytes: the header of a Python bytes object, an
integer, and a slot of a dict."""


class LedgerEntries:
    """The entries of one ledger in a half, and the bounds of their ids."""

    __slots__ = ("entries", "first", "last")

    def __init__(self) -> None:
        self.entries: dict[int, bytes] = {}
        self.first = 1 << 63
        self.last = -(1 << 63)


class CacheHalf:
    """One half of the cache: entries by ledger."""

    __slots__ = ("ledgers", "size")

    def __init__(self) -> None:
        self.ledgers: dict[int, LedgerEntries] = {}
        self.size = 0
        """Bytes of all entries that were added, and ENTRY_OVERHEAD_BYTES for each entry. An entry that was added twice
        is counted twice, which saves a look-up for each add."""

    def put(self, ledger_id: int, entry_ids: Sequence[int], entries: Sequence[bytes], size: int) -> None:
        """Adds entries of one ledger. `size` is the sum of their lengths. If `entry_ids` is a range, it ascends."""
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
    """Both halves of the cache. The caller enforces the bound: it asks `has_room` before it puts entries into
    `active`."""

    def __init__(self, half_bytes: int) -> None:
        self._half_bytes = half_bytes
        self.active = CacheHalf()
        self.flushing: CacheHalf | None = None

    def has_room(self, size: int) -> bool:
        """Returns whether a group of `size` bytes may be added. An empty half takes a group of any size."""
        return self.active.size + size <= self._half_bytes or self.active.size == 0

    def swap(self) -> CacheHalf:
        """Puts a new half in place of the active half, and returns the former active half, which the caller must flush.
        The caller must have called `flushed` for the previous half."""
        assert self.flushing is None
        self.flushing = self.active
        self.active = CacheHalf()
        return self.flushing

    def flushed(self) -> None:
        """Drops the half that was flushed: its entries can be read from the entry logs now."""
        self.flushing = None

    @property
    def size(self) -> int:
        return self.active.size + (self.flushing.size if self.flushing is not None else 0)

    @property
    def entries(self) -> int:
        """How many entries are in both halves, counted ledger by ledger."""
        halves = (self.active, self.flushing)
        return sum(len(ledger.entries) for half in halves if half is not None for ledger in half.ledgers.values())

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        """Returns the newest entry with this id, or None when the cache has no such entry."""
        ledger = self.active.ledgers.get(ledger_id)
        if ledger is not None and (entry := ledger.entries.get(entry_id)) is not None:
            return entry
        if self.flushing is not None and (ledger := self.flushing.ledgers.get(ledger_id)) is not None:
            return ledger.entries.get(entry_id)
        return None

    def run(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Returns the consecutive entries from `first_entry_id` on that the cache holds: at most `max_entries`, and at
        most `max_bytes`, unless the first entry alone is longer."""
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
        """Returns the highest entry id of the ledger in the cache, or None when the cache has no entry of the
        ledger."""
        lasts = [
            half.ledgers[ledger_id].last
            for half in (self.active, self.flushing)
            if half is not None and ledger_id in half.ledgers
        ]
        return max(lasts, default=None)

    def entry_ids(self, ledger_id: int) -> list[int]:
        """Returns all entry ids of the ledger in the cache, ascending."""
        tables = [half.ledgers.get(ledger_id) for half in (self.active, self.flushing) if half is not None]
        return sorted({entry_id for ledger in tables if ledger is not None for entry_id in ledger.entries})

    def touches(self, ledger_id: int, first: int, last: int) -> bool:
        """Returns whether the cache may hold entries from `first` to `last`, which would be newer than the entries in a
        log. The answer depends only on the lowest and the highest id of the ledger, so it may be True although the
        cache holds no entry of the interval."""
        for half in (self.active, self.flushing):
            ledger = half.ledgers.get(ledger_id) if half is not None else None
            if ledger is not None and ledger.first <= last and first <= ledger.last:
                return True
        return False

    def drop(self, ledger_id: int) -> None:
        """Forgets a deleted ledger. The half that is being flushed still holds its entries: the flush thread deletes
        the ledger from the index after that flush."""
        self.active.ledgers.pop(ledger_id, None)
