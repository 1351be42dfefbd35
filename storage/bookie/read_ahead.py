"""Keeps entries that were read from the logs in advance, so that a client that reads in order seldom needs the disk.

The cache holds runs of consecutive entries; beyond its bound in bytes, the run that was not used for longest is
dropped. All calls come from the loop's thread. The cache is no LRUCache of cachetools, because a run is found through a
list of the first ids of its ledger's runs, and this list must lose the run when the cache does.
"""

from bisect import bisect_right, insort
from collections import OrderedDict
from typing import NamedTuple

from magnetar.storage.bookie.write_cache import ENTRY_OVERHEAD_BYTES


class CachedRun(NamedTuple):
    """Consecutive entries, and their size in bytes as the cache's bound counts it."""

    entries: list[bytes]
    size: int


class ReadAheadCache:
    """The cached runs, by ledger and first entry id. Runs of a ledger may overlap."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._runs: OrderedDict[tuple[int, int], CachedRun] = OrderedDict()
        self._firsts: dict[int, list[int]] = {}
        self.size = 0

    def put(self, ledger_id: int, first_entry_id: int, entries: list[bytes]) -> None:
        """Keeps a run of consecutive entries, unless this run alone exceeds the bound."""
        size = sum(map(len, entries)) + ENTRY_OVERHEAD_BYTES * len(entries)
        if not entries or size > self._max_bytes:
            return
        key = (ledger_id, first_entry_id)
        if key in self._runs:
            self._remove(key)
        self._runs[key] = CachedRun(entries, size)
        insort(self._firsts.setdefault(ledger_id, []), first_entry_id)
        self.size += size
        while self.size > self._max_bytes:
            self._remove(next(iter(self._runs)))

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        """Returns an entry, or None when the cache does not hold it."""
        found = self._find(ledger_id, entry_id)
        return found[0][found[1]] if found is not None else None

    def run(self, ledger_id: int, first_entry_id: int, max_entries: int, max_bytes: int) -> list[bytes]:
        """Returns the consecutive entries from `first_entry_id` on that the cache holds: at most `max_entries`, and at
        most `max_bytes`, unless the first entry alone is longer."""
        found = self._find(ledger_id, first_entry_id)
        if found is None:
            return []
        entries, start = found
        return within_bytes(entries[start : start + max_entries], max_bytes)

    def _find(self, ledger_id: int, entry_id: int) -> tuple[list[bytes], int] | None:
        """Returns the entries of a run that holds the entry, and the entry's place in the run; None when no run holds
        it."""
        firsts = self._firsts.get(ledger_id)
        if firsts is None:
            return None
        for position in range(bisect_right(firsts, entry_id) - 1, -1, -1):
            key = (ledger_id, firsts[position])
            entries = self._runs[key].entries
            start = entry_id - key[1]
            if start < len(entries):
                self._runs.move_to_end(key)
                return entries, start
        return None

    def replaced(self, ledger_id: int, first: int, last: int) -> None:
        """Drops the runs that share ids with the interval from `first` to `last`, because entries were added again or
        the ledger is gone."""
        firsts = self._firsts.get(ledger_id)
        if firsts is None:
            return
        for start in [start for start in firsts if start <= last]:
            if start + len(self._runs[ledger_id, start].entries) > first:
                self._remove((ledger_id, start))

    def __contains__(self, ledger_id: int) -> bool:
        return ledger_id in self._firsts

    def _remove(self, key: tuple[int, int]) -> None:
        self.size -= self._runs.pop(key).size
        ledger_id, first = key
        firsts = self._firsts[ledger_id]
        firsts.remove(first)
        if not firsts:
            del self._firsts[ledger_id]


def within_bytes(entries: list[bytes], max_bytes: int) -> list[bytes]:
    """Returns as many of the first entries as have at most `max_bytes` together, but at least one."""
    if sum(map(len, entries)) <= max_bytes:
        return entries
    room = max_bytes
    for count, entry in enumerate(entries):
        room -= len(entry)
        if room < 0:
            return entries[: max(count, 1)]
    return entries
