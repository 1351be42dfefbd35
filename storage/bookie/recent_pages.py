"""Limits how many written bytes of the entry logs stay in the kernel's memory: the bytes that were written last stay.

The kernel keeps every page that is written until it runs out of memory. A bookie writes without end, so each of its
writes takes either a page that was never used or a page that the kernel has to reclaim first. Either page costs several
times as much as the copying of its bytes. A bookie that gives its oldest written pages back gets the same pages again
for the next write. On a virtual machine with free memory this halved the CPU time of publishing. A consumer that is
less than the kept bytes behind still reads from memory; one that is further behind reads from the disk.

Apache's bookie does the same with its journal (journalRemoveFromPageCache, NativeIO.bestEffortRemoveFromPageCache).
Here the journal writes over its old files instead (`old_journals`), so its pages are used again anyway.
"""

import os
from collections import deque
from contextlib import suppress

_MEMORY_PART = 32
_RANGE_BYTES = 4 << 20
"""Writes that follow each other are given back together, up to this many bytes."""


def kept_bytes() -> int:
    """Returns how much of its entry logs a bookie leaves in memory by default: a 32nd part of the machine's memory."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // _MEMORY_PART


class RecentPages:
    """The ranges of files that were written last. One thread uses it."""

    __slots__ = ("_kept", "_kept_max", "_ranges")

    def __init__(self, kept_max: int) -> None:
        """`kept_max` is the number of written bytes that may stay in memory."""
        self._kept_max = kept_max
        self._kept = 0
        self._ranges: deque[tuple[str, int, int]] = deque()

    def synced(self, path: str, start: int, end: int) -> None:
        """Notes that a file's bytes from `start` to `end` were written and are on the disk, and gives back the pages of
        the oldest ranges while more than `kept_max` bytes are kept. The bytes must be on the disk, because the kernel
        does not give up a page that it still has to write."""
        self._kept += end - start
        if self._ranges:
            last_path, last_start, last_end = self._ranges[-1]
            if last_path == path and last_end == start and end - last_start <= _RANGE_BYTES:
                start = last_start
                self._ranges.pop()
        self._ranges.append((path, start, end))
        while self._kept > self._kept_max and len(self._ranges) > 1:
            path, start, end = self._ranges.popleft()
            self._kept -= end - start
            # The file may have been deleted. Any other failure costs memory that the kernel can take back by itself.
            with suppress(OSError):
                _give_back(path, start, end)


def _give_back(path: str, start: int, end: int) -> None:
    if not hasattr(os, "posix_fadvise"):
        return  # macOS has no such call.
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.posix_fadvise(fd, start, end - start, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
