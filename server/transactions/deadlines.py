"""When transactions time out: one timer for all transactions of a coordinator.

Time is counted in ticks, as in Apache's broker (TransactionTimeoutTrackerImpl), and the transactions that are due at
the same tick share a bucket. A transaction that ends in time is taken out of its bucket at once.
"""

import asyncio
import heapq
import math
from collections.abc import Callable

TICK_SECONDS = 0.1
TIMER_SECONDS_MAX = 3_600.0
"""For how long the timer is set at most. A deadline may be further away than a timer of the event loop can be set."""
DUE_AT_ONCE = 200
"""How many transactions time out before other tasks may run."""


class Deadlines:
    """The deadlines of one coordinator, by the event loop's clock."""

    def __init__(self, on_due: Callable[[int], None]) -> None:
        """`on_due(least)` is called with the id of each transaction that is due. It must not raise."""
        self._on_due = on_due
        self._tick_of: dict[int, int] = {}
        self._buckets: dict[int, set[int] | None] = {}
        """Tick -> the transactions that are due then. An empty bucket is None until its tick has come."""
        self._ticks: list[int] = []
        """A heap of the ticks that have buckets."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s = 0.0

    def __len__(self) -> int:
        return len(self._tick_of)

    def add(self, least: int, seconds: float) -> None:
        """Has the transaction time out in so many seconds."""
        tick = math.ceil((asyncio.get_running_loop().time() + max(0.0, seconds)) / TICK_SECONDS)
        self._tick_of[least] = tick
        if tick not in self._buckets:
            heapq.heappush(self._ticks, tick)
            self._buckets[tick] = None
        bucket = self._buckets[tick]
        if bucket is None:
            bucket = self._buckets[tick] = set()
        bucket.add(least)
        self._set_timer()

    def discard(self, least: int) -> None:
        """Forgets the deadline of a transaction, if it has one."""
        tick = self._tick_of.pop(least, None)
        bucket = None if tick is None else self._buckets[tick]
        if tick is not None and bucket is not None:
            bucket.discard(least)
            if not bucket:
                self._buckets[tick] = None

    def close(self) -> None:
        """Ends the timer; no transaction times out any more."""
        self._tick_of.clear()
        self._buckets.clear()
        self._ticks.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if not self._ticks:
            return
        due_s = self._ticks[0] * TICK_SECONDS
        if self._timer is not None:
            if self._timer_s <= due_s:
                return
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer_s = min(due_s, loop.time() + TIMER_SECONDS_MAX)
        self._timer = loop.call_at(self._timer_s, self._run)

    def _run(self) -> None:
        self._timer = None
        # The loop may call a timer one step of its clock too early.
        now_s = max(asyncio.get_running_loop().time(), self._timer_s)
        left = DUE_AT_ONCE
        while left and self._ticks and self._ticks[0] * TICK_SECONDS <= now_s:
            bucket = self._buckets[self._ticks[0]]
            while bucket and left:
                least = bucket.pop()
                del self._tick_of[least]
                self._on_due(least)
                left -= 1
            if not bucket:
                del self._buckets[heapq.heappop(self._ticks)]
        self._set_timer()
