"""The sums of all topics' counters, made at most once a second however many people watch."""

import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from magnetar.server.process.shared_result import SharedResult
from magnetar.server.process.turns import in_portions
from magnetar.server.topics.base_topic import BaseTopic

PERIOD_SECONDS = 1.0
SHARE_MAX = 0.005
"""The sums may take this share of a core; with very many topics they are therefore made less often."""
OLD_PERIODS = 5
"""Sums that are older than so many periods, because nobody watched meanwhile, tell no present rate."""


class Totals(NamedTuple):
    """Sums over the loaded topics, at one moment of a monotonic clock."""

    at_s: float
    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    stored_bytes: int = 0
    topics: int = 0
    producers: int = 0
    subscriptions: int = 0
    consumers: int = 0


class LiveTotals:
    """Sums and their growth. Nothing is computed while nobody asks."""

    def __init__(
        self, topics: Callable[[], Iterable[BaseTopic]], clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._topics = topics
        self._clock_s = clock_s
        self._shared: SharedResult[tuple[Totals, Totals]] = SharedResult()
        self._previous = self._current = Totals(-math.inf)
        self._period_s = PERIOD_SECONDS
        self.streams = 0
        """How many callers watch the broker or one of its topics now."""
        self.told: tuple[Totals, bytes] | None = None
        """The event about the newest sums, which is made once for all callers."""

    async def growth(self) -> tuple[Totals, Totals]:
        """Returns the sums before and now; they are from one to OLD_PERIODS periods apart. When nobody has watched
        until now, there is nothing to compare with: then both are the same."""
        if self._clock_s() - self._current.at_s < self._period_s:
            return self._previous, self._current
        return await self._shared.get(self._sum)

    async def _sum(self) -> tuple[Totals, Totals]:
        is_old = self._clock_s() - self._current.at_s > OLD_PERIODS * self._period_s
        busy_s = time.thread_time()
        messages_in = bytes_in = messages_out = bytes_out = stored = producers = subscriptions = consumers = count = 0
        async for topic in in_portions(self._topics()):
            count += 1
            messages_in += topic.publishing.counters.messages_in
            bytes_in += topic.publishing.counters.bytes_in
            producers += len(topic.publishing.by_name)
            stored += topic.stored_bytes
            out = topic.counters_out()
            messages_out += out.messages_out
            bytes_out += out.bytes_out
            subscriptions += len(topic.subscriptions)
            consumers += topic.consumer_count
        # Other work of the thread counts too, so a busy broker is asked less often still.
        self._period_s = max(PERIOD_SECONDS, (time.thread_time() - busy_s) / SHARE_MAX)
        made = Totals(
            self._clock_s(), messages_in, bytes_in, messages_out, bytes_out, stored, count, producers, subscriptions,
            consumers,
        )  # fmt: skip
        self._previous, self._current = (made if is_old else self._current), made
        return self._previous, self._current
