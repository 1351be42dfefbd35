"""The rates of the entry cache: what it gave and lacked in the last period."""

from magnetar.storage.managed.cache_rates import CacheFigures, CacheRates
from magnetar.storage.managed.tail_cache import TailCache


def test_rates_are_those_of_the_last_period() -> None:
    cache = TailCache(10_000)
    rates = CacheRates(cache)
    cache.add(1, 0, [b"x" * 100] * 4, 400, 0, 0.0)
    assert cache.get(1, 0, 4, 10_000) is not None
    assert cache.get(1, 2, 2, 10_000) is not None
    cache.missed(10, 5_000, 0.5)
    cache.evict_before(1.0)
    rates.roll(2.0)
    assert rates.per_second == CacheFigures(3, 300, 5, 2_500, 1)
    assert (cache.entries_added, cache.entries_evicted) == (4, 4)
    rates.roll(2.0)
    assert rates.per_second == CacheFigures(0, 0, 0, 0, 0)
