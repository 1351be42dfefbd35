"""Delayed delivery of one topic: Shared and Key_Shared subscriptions pass over messages that are not due yet, and send
each message when it is due.

A dispatcher that reads a message before its delivery time adds the message to the topic's index (`delay_index`) and
reads on. When the message is due, the message leaves the index. Every dispatcher whose read position is after the
message has passed over it, and now sends the message before any new message. A subscription without consumers needs no
index: when a consumer connects, the new dispatcher reads again from the first unacknowledged message, as after a
restart.

Messages are due to the millisecond, by this machine's clock; Apache's `delayedDeliveryTickTimeMillis`, which makes
delays coarser, has no effect. Exclusive and Failover ignore delays, as in Apache
(AbstractBaseDispatcher.trackDelayedDelivery)."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.subscriptions.delay_index import DelayIndex

log = logging.getLogger(__name__)

AT_ONCE_MAX = 5_000
"""How many messages leave the index before the event loop runs other tasks."""

LOOK_SECONDS_MAX = 60.0
"""The longest timer. Timers for later messages end after this time and look at the clock again, because the clock may
have been set meanwhile."""


NOTHING_DELAYED = DelayIndex()
"""The index of all topics that have no delayed messages. Nothing is ever added to it."""


class DelayingDispatcher(Protocol):
    """`DelayedDelivery` uses dispatchers that obey delays through this interface."""

    def due(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        """Called when these entries are due. The dispatcher sends the entries that it has passed over."""

    def kick(self) -> None: ...


class DelayingTopic(Protocol):
    """`DelayedDelivery` uses its topic through this interface."""

    def obeying_delays(self) -> Iterable[DelayingDispatcher]:
        """Returns the dispatchers of the topic's subscriptions that have consumers."""

    @property
    def first_ledger_id(self) -> int:
        """The id of the oldest ledger that was not deleted."""


class DelayedDelivery:
    """Knows which messages of one topic are delayed, and wakes the dispatchers when messages are due."""

    __slots__ = (
        "_timer",
        "_timer_ms",
        "_topic",
        "_warned_full",
        "clock_ms",
        "index",
        "is_enabled",
    )

    def __init__(self, topic: DelayingTopic, enabled: bool) -> None:
        self.index = NOTHING_DELAYED
        """The delayed messages. An index of its own is made for the topic's first delayed message."""
        self.is_enabled = enabled
        self.clock_ms = now_ms
        self._topic = topic
        self._timer: asyncio.Handle | None = None
        self._timer_ms = 0
        self._warned_full = False

    def delay(self, ledger_id: int, entry_id: int, due_ms: int) -> bool:
        """Remembers that the message is not due before `due_ms` (ms since the epoch). Returns False when the index is
        full; the caller tries again after some entry has become due."""
        if self.index is NOTHING_DELAYED:
            self.index = DelayIndex()
        if not self.index.add(ledger_id, entry_id, due_ms):
            if not self._warned_full:
                self._warned_full = True
                log.warning(
                    "%s: %d delayed messages wait, no more are read until some are due", self._topic, len(self.index)
                )
            return False
        if self._timer is None or due_ms < self._timer_ms:
            self._arm(due_ms)
        return True

    def enable(self, enabled: bool) -> None:
        """Turns delays on or off, by policy. When delays are turned off, all waiting messages are due at once."""
        if enabled != self.is_enabled:
            self.is_enabled = enabled
            if not enabled and self.index:
                self._arm(self.clock_ms())

    def clock_jumped(self) -> None:
        """Looks at the clock again now: what is due by it is delivered."""
        if self.index:
            self._arm(self.clock_ms())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.index = NOTHING_DELAYED

    def _arm(self, due_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        loop = asyncio.get_running_loop()
        seconds = (due_ms - self.clock_ms()) / 1000
        if seconds <= 0:
            self._timer = loop.call_soon(self._fire)
        else:
            self._timer = loop.call_later(min(seconds, LOOK_SECONDS_MAX), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.index.forget_before(self._topic.first_ledger_id)
        due = self.index.pop_due(self.clock_ms() if self.is_enabled else 2**63 - 1, AT_ONCE_MAX)
        if due:
            self._warned_full = False
            for dispatcher in list(self._topic.obeying_delays()):
                for ledger_id, entry_ids in due.items():
                    dispatcher.due(ledger_id, entry_ids)
                dispatcher.kick()
        next_ms = self.index.next_due_ms()
        if next_ms is not None:
            self._arm(next_ms if self.is_enabled else 0)
