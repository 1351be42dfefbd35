"""The rates of the entry cache that all managed ledgers of the process share. Source: ManagedLedgerFactoryMBeanImpl."""

from typing import NamedTuple

from magnetar.storage.managed.tail_cache import TailCache


class CacheFigures(NamedTuple):
    """What the cache gave and lacked, in entries and payload bytes, and how often groups left it."""

    hit_entries: float
    hit_bytes: float
    missed_entries: float
    missed_bytes: float
    evictions: float


class CacheRates:
    """The figures of the last full period. `roll` is called at the end of each period."""

    def __init__(self, cache: TailCache) -> None:
        self._cache = cache
        self._seen = CacheFigures(0, 0, 0, 0, 0)
        self.per_second = self._seen
        """Each figure's growth in a second. `evictions` is the number in the whole period, as with Apache's broker."""

    def roll(self, elapsed_s: float) -> None:
        """Ends a period of `elapsed_s` seconds."""
        cache = self._cache
        now = CacheFigures(
            cache.hit_entries, cache.hit_bytes, cache.missed_entries, cache.missed_bytes, cache.evictions
        )
        grown = CacheFigures(*[after - before for after, before in zip(now, self._seen, strict=True)])
        per_second = CacheFigures(*[each / elapsed_s for each in grown])
        self.per_second = per_second._replace(evictions=grown.evictions)
        self._seen = now
