"""Delivers entries in holes again without any client's help. A hole is an unacknowledged entry with an acknowledged
entry after it. Holes that are older than the policy's interval are delivered again to the consumers that are connected
(`fill_ack_holes_interval_seconds`, off by default). Without this feature, a message that a client has lost holds back
the mark-delete position, and keeps the backlog from shrinking, until an operator notices.

Apache's broker has no such feature. `hole_rules` decides which entries have waited long enough.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from pyroaring import BitMap

from magnetar.server.topics.subscriptions.hole_rules import LOOKS, HoleWatch
from magnetar.server.topics.subscriptions.subscription import Subscription

log = logging.getLogger(__name__)

AT_ONCE_MAX = 5_000
"""How many entries are delivered again before the event loop runs other tasks."""


class HoleFiller:
    """Delivers entries again that have been in holes for too long, for all subscriptions of one topic."""

    __slots__ = ("_interval", "_subscriptions", "_timer", "_watches")

    def __init__(self, subscriptions: Callable[[], Iterable[Subscription]]) -> None:
        """`subscriptions()` returns the subscriptions that exist now."""
        self._subscriptions = subscriptions
        self._interval = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._watches: dict[Subscription, tuple[tuple[int, int], HoleWatch]] = {}

    def follow(self, interval_seconds: float) -> None:
        """Applies the interval that the policy names; 0 turns the filling of holes off."""
        if interval_seconds == self._interval:
            return
        self.close()
        self._interval = interval_seconds
        if interval_seconds > 0:
            self._wait()

    def close(self) -> None:
        self._interval = 0.0
        self._watches.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval / LOOKS, self._look)

    def _look(self) -> None:
        watches = self._watches
        self._watches = {}
        for subscription in self._subscriptions():
            if subscription.dispatcher is not None and subscription.consumers:
                # After a rewind the dispatcher sends all entries again, so entries in holes were sent only recently.
                moved = subscription.cursor.resets, subscription.dispatcher.rewinds
                before, watch = watches.get(subscription, (moved, HoleWatch()))
                if before != moved:
                    watch = HoleWatch()
                self._watches[subscription] = moved, watch
                self._fill(subscription, watch)
        self._wait()

    def _fill(self, subscription: Subscription, watch: HoleWatch) -> None:
        dispatcher = subscription.dispatcher
        assert dispatcher is not None
        loop = asyncio.get_running_loop()
        holes = dict(subscription.cursor.holes_before(dispatcher.read_position))
        old = watch.look(loop.time(), holes, self._interval)
        if not old:
            return
        log.info("%s: fills %d holes", subscription, sum(map(len, old.values())))
        for ledger_id, entries in old.items():
            while entries:
                some = BitMap(entries[:AT_ONCE_MAX])
                entries -= some
                loop.call_soon(subscription.fill, ledger_id, some)
