"""Decides how much a dispatcher reads and sends at once.

Permits count messages, reads count entries, and an entry may be a batch. Therefore the permits are divided by the
average number of messages in the entries that were sent lately. This estimate only decides the size of reads; sent
messages are counted exactly.

Does no I/O. Sources: AbstractPersistentDispatcherMultipleConsumers.calculateToRead, Consumer.avgMessagesPerEntry.
"""

from collections.abc import Sequence
from itertools import accumulate

SMOOTHING = 0.9
"""The weight of the past in the moving average."""


class EntryAverage:
    """Estimates the number of messages per entry, as an exponential moving average over the groups of entries that were
    sent; at least 1. The first group sets the average, as in Consumer.sendMessages."""

    __slots__ = ("is_new", "value")

    def __init__(self) -> None:
        self.value = 1.0
        self.is_new = True
        """Whether no group was counted yet."""

    def add(self, entries: int, messages: int) -> None:
        """Counts a group that was sent: `entries` > 0 entries with `messages` messages."""
        if self.is_new:
            self.is_new = False
            self.value = max(1.0, messages / entries)
            return
        if messages == entries and self.value == 1.0:
            return
        self.value = max(1.0, SMOOTHING * self.value + (1 - SMOOTHING) * messages / entries)


def entries_to_read(permits: int, messages_per_entry: float, entries_max: int) -> int:
    """Returns how many entries use up `permits`: 0 without permits, else 1 to `entries_max`."""
    if permits <= 0:
        return 0
    if messages_per_entry <= 1.0:
        return permits if permits < entries_max else entries_max
    return max(1, min(entries_max, int(permits / messages_per_entry)))


def entries_within(counts: Sequence[int], total: int, start: int, permits: int) -> int:
    """Returns how many entries, beginning with the entry at index `start`, may be sent for `permits`; 0 without
    permits. The last entry is the entry that uses up the permits, even if this entry holds more messages than permits
    are left.

    `counts` are the messages of each entry, at least 1; `total` is their sum.
    """
    if permits <= 0:
        return 0
    remaining = len(counts) - start
    if total <= permits:
        return remaining
    if total == len(counts):
        return min(remaining, permits)
    for taken, total in enumerate(accumulate(counts[start:]), 1):
        if total >= permits:
            return taken
    return remaining
