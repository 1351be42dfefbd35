"""Is the server's memory flat? What may grow are caches, up to their configured limits; nothing else may."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

CACHES_MB = {
    "managedLedgerCacheSizeMB": 8,
    "dbStorage_writeCacheMaxSizeMb": 8,
    "dbStorage_readAheadCacheMaxSizeMb": 4,
}
"""Keys of the server under test: its caches are full long before a soak ends."""
INDEX_CACHE_MB = 2
"""Blocks of the bookie's index (`storage/bookie/entry_index.py`); it has no key."""
GROWTH_MAX_MB = sum(CACHES_MB.values()) + INDEX_CACHE_MB
WARM_UP_SECONDS = 15.0
TREND_MAX_MB = GROWTH_MAX_MB
AT_END = 4
"""Samples whose median counts, at either end."""


@dataclass(frozen=True, slots=True)
class Sample:
    life: int
    """Which process of the server: its number."""
    age: float
    """Seconds since that process was ready."""
    megabytes: float


@dataclass(slots=True)
class Memory:
    samples: list[Sample] = field(default_factory=list)

    def lives(self) -> list[list[Sample]]:
        """Of those that were warm, in order."""
        found: dict[int, list[Sample]] = {}
        for sample in self.samples:
            if sample.age >= WARM_UP_SECONDS:
                found.setdefault(sample.life, []).append(sample)
        return [samples for samples in found.values() if len(samples) >= 2]

    def growth_in_a_life(self) -> float:
        """The largest, from the first warm samples to the last."""
        return max((_late(samples) - _early(samples) for samples in self.lives()), default=0.0)

    def growth_over_lives(self) -> float:
        """From the first life's end to the last one's: what a server keeps because of its topics' history."""
        lives = self.lives()
        return _late(lives[-1]) - _late(lives[0]) if lives else 0.0

    def complaints(self) -> list[str]:
        found = []
        if self.growth_in_a_life() > GROWTH_MAX_MB:
            found.append(f"(13) memory grew by {self.growth_in_a_life():.1f} MB in one process: {self.told()}")
        if self.growth_over_lives() > TREND_MAX_MB:
            found.append(f"(13) memory grew by {self.growth_over_lives():.1f} MB over kills: {self.told()}")
        return found

    def told(self) -> str:
        """First and last warm figures of each process."""
        return ", ".join(f"{_early(samples):.0f}→{_late(samples):.0f}" for samples in self.lives())


def _early(samples: list[Sample]) -> float:
    return statistics.median(sample.megabytes for sample in samples[:AT_END])


def _late(samples: list[Sample]) -> float:
    return statistics.median(sample.megabytes for sample in samples[-AT_END:])


def pss_mb(pid: int) -> float:
    """Proportional set of one process in MB (10^6 bytes). Raises OSError when it is gone."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(f"no figure for {pid}")
