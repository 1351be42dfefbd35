"""The newest entries in memory, for consumers that keep up: one cache for the process, bounded in bytes.

Entries come and go in groups, as they were confirmed. When the bound is reached, the oldest groups of the whole process
leave first; groups also leave when they are older than a configured age, so that an idle process gives memory back.
Nothing is copied: the cache holds the lists of bytes that were appended, and a read of exactly one whole group returns
its list. Entries are added only for managed ledgers with active cursors; `Appender.caching` sees to that.

    TailCache._groups      g2(B)  g3(A)  g4(A)  g5(B)              by age, over all ledgers
    _CachedLedger A        [None, g3, g4]   firsts [0, 20, 45]     head 1: g1 has left

Invariants:

- The groups of one ledger are consecutive: each begins where the one before it ends. A gap empties the ledger's part. A
  read checks the newest group first, where consumers that keep up read, and finds any other group by one bisection in
  `firsts`.
- Both orders agree: a ledger's oldest group is the first of its groups in `_groups`. Eviction therefore pops the left
  end of `_groups` and moves the `head` of one ledger; it never searches.
- A group that left with its ledger (`drop_ledger`) stays in `_groups` with cost 0 until its turn comes, because taking
  it out of the middle would cost a search. The entries of that group are given up at once.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

from magnetar.storage.managed.entry_run import EntryRun

ENTRY_OVERHEAD_BYTES = 64
"""How many bytes of memory an entry costs beside its own bytes: the object's header, a slot in the list, and its share
of the group."""


class _CachedGroup:
    """Entries that were confirmed together. `cost` says how many bytes the group counts in the cache's limit; 0 says
    that the group was dropped."""

    __slots__ = ("added_s", "cost", "end", "entries", "first", "ledger", "size")

    def __init__(
        self, ledger: "_CachedLedger", first: int, entries: list[bytes], size: int, cost: int, added_s: float
    ) -> None:
        self.ledger = ledger
        self.size = size
        self.first = first
        self.end = first + len(entries)
        self.entries = entries
        self.cost = cost
        self.added_s = added_s


class _CachedLedger:
    """A ledger's groups, oldest first. The first `head` of them have left already."""

    __slots__ = ("firsts", "groups", "head", "ledger_id", "payload_offset")

    def __init__(self, ledger_id: int, payload_offset: int) -> None:
        self.ledger_id = ledger_id
        self.payload_offset = payload_offset
        self.groups: list[_CachedGroup | None] = []
        self.firsts: list[int] = []
        self.head = 0

    def pop_oldest(self) -> None:
        """Drops the oldest group. Dropped groups are deleted from the beginning of the lists only when they are more
        than half of the lists, so that the deletion costs O(1) per group on average."""
        self.groups[self.head] = None
        self.head += 1
        if self.head * 2 > len(self.groups) > 64:
            del self.groups[: self.head], self.firsts[: self.head]
            self.head = 0


class TailCache:
    """The cache of the newest entries. Every method is called on the loop's thread. `bytes_max` 0 turns the cache
    off."""

    __slots__ = (
        "_groups",
        "_ledgers",
        "bytes_held",
        "bytes_max",
        "entries_added",
        "entries_evicted",
        "evictions",
        "hit_bytes",
        "hit_entries",
        "hits",
        "missed_bytes",
        "missed_entries",
        "missed_reads",
        "missed_seconds",
        "misses",
    )

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_held = 0
        self.hits = 0
        self.misses = 0
        self.hit_entries = 0
        self.hit_bytes = 0
        """The payload bytes of all entries that `get` returned. A part of a group counts by the group's average
        entry."""
        self.missed_reads = 0
        self.missed_seconds = 0.0
        self.missed_entries = 0
        self.missed_bytes = 0
        self.entries_added = 0
        self.entries_evicted = 0
        self.evictions = 0
        """How often a group was dropped, because the cache was full or the group too old."""
        self._ledgers: dict[int, _CachedLedger] = {}
        self._groups: deque[_CachedGroup] = deque()

    def add(
        self, ledger_id: int, first: int, entries: list[bytes], size: int, payload_offset: int, now_s: float
    ) -> None:
        """Adds the next confirmed entries of a ledger, which have `size` payload bytes together. If they do not follow
        the cached entries of the ledger, those are dropped first."""
        count = len(entries)
        cost = size + count * (payload_offset + ENTRY_OVERHEAD_BYTES)
        if cost > self.bytes_max:
            self.drop_ledger(ledger_id)
            return
        ledger = self._ledgers.get(ledger_id)
        if ledger is not None and ledger.groups:
            last = ledger.groups[-1]
            if last is None or last.end != first:
                self.drop_ledger(ledger_id)
                ledger = None
        if ledger is None:
            ledger = self._ledgers[ledger_id] = _CachedLedger(ledger_id, payload_offset)
        group = _CachedGroup(ledger, first, entries, size, cost, now_s)
        ledger.groups.append(group)
        ledger.firsts.append(first)
        self._groups.append(group)
        self.bytes_held += cost
        self.entries_added += count
        while self.bytes_held > self.bytes_max:
            self._evict_oldest()

    def get(self, ledger_id: int, entry_id: int, max_entries: int, max_bytes: int) -> EntryRun | None:
        """Returns entries from `entry_id` on, at least one, up to the limits; None when that entry is not in the
        cache."""
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            self.misses += 1
            return None
        groups = ledger.groups
        index = len(groups) - 1
        group = groups[index]
        assert group is not None
        if entry_id < group.first:
            index = bisect_right(ledger.firsts, entry_id, ledger.head) - 1
            found = groups[index] if index >= ledger.head else None
            if found is None:
                self.misses += 1
                return None
            group = found
        elif entry_id >= group.end:
            self.misses += 1
            return None
        self.hits += 1
        start = entry_id - group.first
        count = len(group.entries)
        whole = start == 0 and count <= max_entries and group.cost <= max_bytes
        if whole and (count == max_entries or index == len(groups) - 1):
            self.hit_entries += count
            self.hit_bytes += group.size
            return EntryRun(ledger_id, entry_id, group.entries, ledger.payload_offset)
        taken = _take(groups, index, start, max_entries, max_bytes)
        self.hit_entries += len(taken)
        self.hit_bytes += group.size * len(taken) // count
        return EntryRun(ledger_id, entry_id, taken, ledger.payload_offset)

    def missed(self, entries: int, size: int, seconds: float) -> None:
        """Counts a read of entries of `size` payload bytes from bookies, because the cache does not have them."""
        self.missed_reads += 1
        self.missed_seconds += seconds
        self.missed_entries += entries
        self.missed_bytes += size

    def drop_ledger(self, ledger_id: int) -> None:
        """Forgets a ledger, because it was deleted or nobody reads its tail any more."""
        ledger = self._ledgers.pop(ledger_id, None)
        if ledger is None:
            return
        for group in ledger.groups[ledger.head :]:
            assert group is not None
            self.entries_evicted += len(group.entries)
            self.bytes_held -= group.cost
            group.cost = 0
            group.entries = []
        ledger.groups.clear()  # Groups refer to their ledger, too: otherwise only a garbage collection would free them.

    def evict_before(self, added_s: float) -> None:
        """Drops the groups that were added before the time `added_s`, which is a time of the same clock as the `now_s`
        of `add`."""
        groups = self._groups
        while groups and (groups[0].added_s < added_s or not groups[0].cost):
            self._evict_oldest()

    def resize(self, bytes_max: int) -> None:
        """Changes the limit; entries beyond it are dropped, the oldest first."""
        self.bytes_max = bytes_max
        while self.bytes_held > bytes_max:
            self._evict_oldest()

    def _evict_oldest(self) -> None:
        group = self._groups.popleft()
        if not group.cost:
            return
        self.bytes_held -= group.cost
        self.evictions += 1
        self.entries_evicted += len(group.entries)
        ledger = group.ledger
        ledger.pop_oldest()
        if ledger.head == len(ledger.groups):
            del self._ledgers[ledger.ledger_id]


def _take(
    groups: Sequence[_CachedGroup | None], index: int, start: int, max_entries: int, max_bytes: int
) -> list[bytes]:
    """Returns entries from number `start` of the group at `index` on, and of the groups after it, at least one."""
    taken: list[bytes] = []
    left = max_bytes
    while index < len(groups):
        group = groups[index]
        assert group is not None
        room = max_entries - len(taken)
        if start == 0 and len(group.entries) <= room and group.cost <= left:
            taken += group.entries
            left -= group.cost
        else:
            for entry in group.entries[start : start + room]:
                left -= len(entry)
                if left < 0 and taken:
                    return taken
                taken.append(entry)
        if len(taken) >= max_entries or left <= 0:
            return taken
        index += 1
        start = 0
    return taken
