"""Decides where the next batch of a query ends, by the limits in the options.

A limit on messages is exact: each message up to it is counted (`MessageCounter`). A limit on bytes alone is kept by the
sizes of ledgers, which cost one admin call, and by counting when there is no admin URL.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from magnetar.spark.source.message_counter import MessageCounter
from magnetar.spark.source.options import ReadOptions
from magnetar.spark.source.planner import Planner
from magnetar.spark.source.ranges.bounds import Bound, Range
from magnetar.spark.source.ranges.counting_rules import Counts, Taken
from magnetar.spark.source.ranges.planning_rules import take

PEEK_MESSAGES = 100
"""About how many messages are read only to estimate how many there are in all."""


@dataclass(slots=True)
class _Left:
    """What a batch may still take. None means no limit."""

    messages: int | None
    size: int | None

    def is_used_up(self) -> bool:
        return (self.messages is not None and self.messages <= 0) or (self.size is not None and self.size <= 0)

    def use(self, taken: Taken) -> None:
        if self.messages is not None:
            self.messages -= taken.messages
        if self.size is not None:
            self.size -= taken.size


class Admission:
    """Keeps the counters of a query's partitions from batch to batch. The caller calls `close` at the end."""

    def __init__(self, planner: Planner, options: ReadOptions, clock: Callable[[], float] = time.monotonic) -> None:
        self._planner = planner
        self._options = options
        self._clock = clock
        self._counters: dict[str, MessageCounter] = {}
        self._last_batch: float | None = None
        self._turn = 0

    def close(self) -> None:
        for counter in self._counters.values():
            counter.close()
        self._counters.clear()

    def ends(self, wanted: Mapping[str, Range], *, may_wait: bool = True) -> dict[str, Bound]:
        """Returns the end of the next batch for each partition, within the limits on messages and bytes. With
        `may_wait` the batch is empty while fewer messages than minOffsetsPerTrigger are there."""
        options = self._options
        for name in set(self._counters) - set(wanted):
            self._counters.pop(name).close()
        busy = {name: each for name, each in wanted.items() if not each.is_empty}
        if may_wait and busy and self._has_to_wait(busy):
            return {name: each.after for name, each in wanted.items()}
        self._last_batch = self._clock() if busy else self._last_batch
        ends = {name: each.upto for name, each in wanted.items()}
        if options.max_messages or (options.max_bytes and not self._planner.has_admin):
            return ends | self._counted(busy)
        if options.max_bytes:
            share = max(1, options.max_bytes // max(1, len(busy)))
            ends |= {name: take(self._planner.ledgers(name, each), each, share) for name, each in busy.items()}
        return ends

    def _has_to_wait(self, busy: Mapping[str, Range]) -> bool:
        """Returns whether too few messages are there, and the last batch is not longer ago than maxTriggerDelay. As in
        Spark's source for Kafka, a query's first batch never waits."""
        least = self._options.min_messages
        if not least or self._last_batch is None:
            return False
        if self._clock() - self._last_batch >= self._options.max_delay_seconds:
            return False
        there = 0
        for name, each in busy.items():
            there += self.counter(name, each.after).count(each.upto, least - there)
            if there >= least:
                return False
        return True

    def _counted(self, busy: Mapping[str, Range]) -> dict[str, Bound]:
        """Returns the ends of a batch that is as large as the limits let it be. The partitions get equal shares; what
        one of them does not need goes to the others. Which of them is first changes from batch to batch, because with a
        limit smaller than their number the last ones get nothing."""
        self._turn += len(busy) > 0
        first = self._turn % max(1, len(busy))
        hungry = [*sorted(busy)[first:], *sorted(busy)[:first]]
        left = _Left(self._options.max_messages or None, self._options.max_bytes or None)
        ends = {name: each.after for name, each in busy.items()}

        def eat(name: str, parts: int, *, force: bool = False) -> bool:
            """Takes one partition's share, where `parts` partitions are still to get one. Returns whether the share had
            room for anything."""
            before = ends[name]
            ends[name] = self._share(name, Range(before, busy[name].upto), left, parts, force=force)
            return ends[name] > before

        while hungry and not left.is_used_up():
            ate = [eat(name, len(hungry) - place) for place, name in enumerate(hungry)]
            if not any(ate) and not any(eat(name, 1) for name in hungry):
                # The next entry of each partition is larger than what is left.
                if all(ends[name] == each.after for name, each in busy.items()):
                    eat(hungry[0], 1, force=True)
                break
            hungry = [name for name in hungry if ends[name] < busy[name].upto]
        return ends

    def _share(self, name: str, wanted: Range, left: _Left, parts: int, *, force: bool) -> Bound:
        """Takes a partition's share of what is left for `parts` partitions, and returns where it ends."""
        if left.is_used_up() and not force:
            return wanted.after
        messages = None if left.messages is None else -(-left.messages // parts)
        size = None if left.size is None else -(-left.size // parts)
        taken = self.counter(name, wanted.after).take(wanted.upto, messages, size, force=force)
        left.use(taken)
        return taken.end

    def peek(self, name: str, unread: Range) -> Counts:
        """Returns the counts of the first unread entries of a partition."""
        known = self._counters.get(name)
        if known is not None and known.place == unread.after:
            return known.peek(unread.upto)
        passing = self._planner.counter(name, unread.after, permits=PEEK_MESSAGES)
        try:
            return passing.peek(unread.upto)
        finally:
            passing.close()

    def counter(self, name: str, after: Bound) -> MessageCounter:
        """Returns the counter of a partition, which has counted up to `after`."""
        known = self._counters.get(name)
        if known is None or known.place != after:
            if known is not None:
                known.close()
            known = self._counters[name] = self._planner.counter(name, after)
        return known
