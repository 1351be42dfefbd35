"""Computes the rates of all loaded topics periodically, in portions, because a broker may have tens of thousands."""

import asyncio
import time
from collections.abc import Callable, Iterable

from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.process.turns import in_portions
from magnetar.server.topics.base_topic import BaseTopic


class RateRolling:
    """The two periods of the process: one for the rates of topics and their clients (statsUpdateFrequencyInSecs), and
    one for managed ledgers and their cache (managedLedgerStatsPeriodSeconds). All calls are made on the loop's
    thread."""

    def __init__(
        self, topics: Callable[[], Iterable[BaseTopic]], settings: TopicSettings, roll_cache: Callable[[float], None]
    ) -> None:
        """`topics()` returns all loaded topics, in an object that later loads do not change. `roll_cache(elapsed_s)`
        computes the rates of the entry cache."""
        self._periods = (
            _Period(settings.stats_update_frequency_in_secs, topics, lambda topic, s: topic.roll_rates(s)),
            _Period(
                settings.managed_ledger_stats_period_seconds, topics, lambda topic, s: topic.roll_storage(s), roll_cache
            ),
        )

    def start(self) -> None:
        """Begins the first periods. Called once."""
        for period in self._periods:
            period.start()

    def stop(self) -> None:
        """Ends the work. Has no effect before `start`."""
        for period in self._periods:
            period.stop()


class _Period:
    """Calls `visit(topic, elapsed seconds)` for each topic at the end of each period, and `first(elapsed seconds)`
    before that."""

    def __init__(
        self,
        seconds: float,
        topics: Callable[[], Iterable[BaseTopic]],
        visit: Callable[[BaseTopic, float], None],
        first: Callable[[float], None] = lambda elapsed_s: None,
    ) -> None:
        self._seconds = seconds
        self._topics = topics
        self._visit = visit
        self._first = first
        self._timer: asyncio.TimerHandle | None = None
        self._rolling: asyncio.Task[None] | None = None
        self._rolled_s = time.monotonic()

    def start(self) -> None:
        self._rolled_s = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._roll)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._rolling is not None:
            self._rolling.cancel()

    def _roll(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._seconds, self._roll)
        if self._rolling is not None and not self._rolling.done():
            return  # So many topics that a period is too short for them: their next period is longer.
        now_s = time.monotonic()
        elapsed_s, self._rolled_s = now_s - self._rolled_s, now_s
        self._rolling = loop.create_task(self._roll_all(elapsed_s))

    async def _roll_all(self, elapsed_s: float) -> None:
        self._first(elapsed_s)
        async for topic in in_portions(self._topics()):
            self._visit(topic, elapsed_s)
