"""Decides when a bookie takes writes: the modes of a bookie, and the rules that derive the mode from the room on the
disks.

The only I/O of this module is statvfs and stat of folders.
"""

import os
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from magnetar.storage.bookie.bookie_config import BookieConfig


class BookieMode(Enum):
    """Whether a bookie takes writes. Transitions: WRITABLE <-> READ_ONLY; WRITABLE and READ_ONLY -> FAILED when a sync
    failed, after which only a restart helps; every mode -> CLOSED."""

    WRITABLE = "writable"
    READ_ONLY = "read-only"
    FAILED = "failed"
    CLOSED = "closed"


_NEXT = {
    BookieMode.WRITABLE: frozenset({BookieMode.READ_ONLY, BookieMode.FAILED, BookieMode.CLOSED}),
    BookieMode.READ_ONLY: frozenset({BookieMode.WRITABLE, BookieMode.FAILED, BookieMode.CLOSED}),
    BookieMode.FAILED: frozenset({BookieMode.CLOSED}),
    BookieMode.CLOSED: frozenset(),
}


def may_change(before: BookieMode, after: BookieMode) -> bool:
    return after in _NEXT[before]


class DiskUsage(NamedTuple):
    """The smallest number of free bytes and the largest used share (0 to 1) of the disks of some folders."""

    free_bytes: int
    used_share: float
    reserve_is_whole: bool = True
    """Whether the room that the next start may need is set aside (`reserve`)."""

    def sentence(self) -> str:
        """Returns the reason why a full disk takes no writes."""
        lack = "" if self.reserve_is_whole else ", it has no room for the reserve that a start needs"
        return f"the disk is {self.used_share:.1%} full{lack}"


def file_systems(directories: Sequence[str]) -> list[os.statvfs_result]:
    """Returns the state of the folders' file systems. Folders on one file system count once (DiskChecker of BookKeeper
    4.17). Raises OSError."""
    folder_of = {os.stat(directory).st_dev: directory for directory in directories}
    return [os.statvfs(directory) for directory in folder_of.values()]


def usage_of(systems: Sequence[os.statvfs_result]) -> DiskUsage:
    """Returns the room that an unprivileged user has on the fullest of the file systems."""
    free, share = 1 << 63, 0.0
    for status in systems:
        available = status.f_bavail * status.f_frsize
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        free = min(free, available)
        share = max(share, used / (used + available) if used + available else 1.0)
    return DiskUsage(free, share)


def measure(directories: Sequence[str]) -> DiskUsage:
    """Measures the room that an unprivileged user has on the folders' disks. Raises OSError."""
    return usage_of(file_systems(directories))


def space_of(systems: Sequence[os.statvfs_result]) -> tuple[int, int]:
    """Returns the total and the free bytes of all the file systems together."""
    total = sum(status.f_blocks * status.f_frsize for status in systems)
    return total, sum(status.f_bavail * status.f_frsize for status in systems)


class DiskSpace:
    """Measures the file systems of some folders."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = tuple(directories)

    def __call__(self) -> tuple[int, int]:
        """Returns the total and the free bytes. Raises OSError."""
        return space_of(file_systems(self._directories))


_SPARES_ARE_ONE_IN = 8
"""An old journal is kept to be written over only while the disk has room for this many full journal files."""


class DiskRules:
    """Judges a measured usage by the configured thresholds (Apache: LedgerDirsMonitor, DiskChecker)."""

    def __init__(self, config: BookieConfig) -> None:
        self._forced = config.force_read_only_bookie
        self._threshold = config.disk_usage_threshold
        self._low_water = config.disk_usage_lwm_threshold
        self._warn = config.disk_usage_warn_threshold
        self._min_free = config.min_usable_bytes_for_writes
        self._room_of_spares = _SPARES_ARE_ONE_IN * config.journal_file_bytes
        self._min_free_high_priority = config.min_usable_size_for_high_priority_writes

    def is_full(self, usage: DiskUsage) -> bool:
        return usage.used_share > self._threshold or not usage.reserve_is_whole

    def is_usable_again(self, usage: DiskUsage) -> bool:
        """Returns whether a read-only bookie may take writes again. The low-water mark is below the threshold of
        `is_full`, so that the mode does not swing to and fro."""
        if self._forced:
            return False
        has_room = usage.used_share <= self._low_water and usage.free_bytes >= self._min_free
        return has_room and usage.reserve_is_whole

    def takes_high_priority(self, usage: DiskUsage) -> bool:
        """Returns whether a bookie whose disk is full still takes the adds of recovering clients."""
        return usage.free_bytes >= self._min_free_high_priority

    def may_keep_spares(self, usage: DiskUsage) -> bool:
        """Returns whether journals that no replay reads any more may be kept to be written over."""
        return usage.used_share <= self._low_water and usage.free_bytes >= self._room_of_spares

    def may_compact(self, usage: DiskUsage) -> bool:
        return usage.used_share <= self._warn

    def warning(self, usage: DiskUsage) -> str | None:
        """Returns what an operator has to know about a disk that is nearly full, or None. A full disk is told by
        `sentence`."""
        if usage.used_share <= self._warn or self.is_full(usage):
            return None
        return f"{usage.sentence()}, and above {self._threshold:.1%} no message can be stored"
