"""How much a dispatcher reads and sends at once.

Permits count messages, reads count entries, and an entry may be a batch: the plan divides by the number of messages
that entries had lately. It only sizes reads; what is sent is counted exactly.

Pure. Source: AbstractPersistentDispatcherMultipleConsumers.calculateToRead, Consumer.avgMessagesPerEntry; facts 5.2.
"""

from collections.abc import Sequence
from itertools import accumulate

SMOOTHING = 0.9
"""Weight of the past in the moving average."""


class EntryAverage:
    """Messages per entry, as an exponential moving average over the groups that were sent; at least 1. The first
    group sets it (Consumer.sendMessages)."""

    __slots__ = ("is_new", "value")

    def __init__(self) -> None:
        self.value = 1.0
        self.is_new = True
        """Nothing was sent yet."""

    def add(self, entries: int, messages: int) -> None:
        """`entries` > 0 were sent, holding `messages`."""
        if self.is_new:
            self.is_new = False
            self.value = max(1.0, messages / entries)
            return
        if messages == entries and self.value == 1.0:
            return
        self.value = max(1.0, SMOOTHING * self.value + (1 - SMOOTHING) * messages / entries)


def entries_to_read(permits: int, messages_per_entry: float, entries_max: int) -> int:
    """Entries whose messages use up `permits`: 0 without permits, else 1 to `entries_max`."""
    if permits <= 0:
        return 0
    if messages_per_entry <= 1.0:
        return permits if permits < entries_max else entries_max
    return max(1, min(entries_max, int(permits / messages_per_entry)))


def entries_within(counts: Sequence[int], total: int, start: int, permits: int) -> int:
    """How many entries from `start` on are sent for `permits`: the one that crosses the limit is the last one.

    `counts` are messages per entry, each at least 1; `total` is their sum. 0 without permits.
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
