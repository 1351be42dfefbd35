"""Is the server's memory flat? Caches may grow up to their configured limits, and nothing else may grow."""

import statistics
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from compat_tests.harness import default_product
from compat_tests.products import MagnetarCluster

CACHES_MB = {
    "managedLedgerCacheSizeMB": 8,
    "dbStorage_writeCacheMaxSizeMb": 8,
    "dbStorage_readAheadCacheMaxSizeMb": 4,
}
"""Configuration keys for the caches of the server under test. These are so small that they are full long before a soak
ends."""
INDEX_CACHE_MB = 2
"""The block cache of the bookie's index (`storage/bookie/entry_index.py`), for which there is no key."""
MEMBERS = 3 if isinstance(default_product(), MagnetarCluster) else 1
"""How many processes have these caches: three brokers and three bookies, or one server that is both."""
GROWTH_MAX_MB = MEMBERS * (sum(CACHES_MB.values()) + INDEX_CACHE_MB)
WARM_UP_SECONDS = 15.0
TREND_MAX_MB = GROWTH_MAX_MB
AT_END = 4
"""How many samples at each end are taken for their median."""


@dataclass(frozen=True, slots=True)
class Sample:
    life: int
    """The number of the server's process; each kill is followed by a new process."""
    age: float
    """The seconds since that process was ready."""
    megabytes: float


@dataclass(slots=True)
class Memory:
    samples: list[Sample] = field(default_factory=list)

    def lives(self) -> list[list[Sample]]:
        """Returns the samples of each process, in order, without those from its warm-up."""
        found: dict[int, list[Sample]] = {}
        for sample in self.samples:
            if sample.age >= WARM_UP_SECONDS:
                found.setdefault(sample.life, []).append(sample)
        return [samples for samples in found.values() if len(samples) >= 2]

    def growth_in_a_life(self) -> float:
        """Returns the largest growth within a process, from its first samples after the warm-up to its last."""
        return max((_late(samples) - _early(samples) for samples in self.lives()), default=0.0)

    def growth_over_lives(self) -> float:
        """Returns the growth from the end of the first process to the end of the last one, which shows what a server
        keeps because its topics have a history."""
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
        """Returns a line with each process's first figure after the warm-up and its last one."""
        return ", ".join(f"{_early(samples):.0f}→{_late(samples):.0f}" for samples in self.lives())


def _early(samples: list[Sample]) -> float:
    return statistics.median(sample.megabytes for sample in samples[:AT_END])


def _late(samples: list[Sample]) -> float:
    return statistics.median(sample.megabytes for sample in samples[-AT_END:])


def pss_mb(pid: int) -> float:
    """Returns the proportional set size (PSS) of a process and its descendants in MB (10^6 bytes). Raises OSError when
    the process is gone."""
    try:
        pids = [pid, *(each.pid for each in psutil.Process(pid).children(recursive=True))]
    except psutil.NoSuchProcess:
        raise ProcessLookupError(pid) from None
    return sum(map(_own_pss_mb, pids))


def _own_pss_mb(pid: int) -> float:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise ProcessLookupError(f"no figure for {pid}")
