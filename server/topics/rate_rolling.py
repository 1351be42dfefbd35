"""Computes the rates of all loaded topics periodically, in portions, because a broker may have tens of thousands."""

import asyncio
import time
from collections.abc import Callable, Iterable

from magnetar.server.process.turns import in_portions
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import RATE_PERIOD_SECONDS


class RateRolling:
    """One object serves the process. All calls are made on the loop's thread."""

    def __init__(self, topics: Callable[[], Iterable[BaseTopic]]) -> None:
        """`topics()` returns all loaded topics, in an object that later loads do not change."""
        self._topics = topics
        self._timer: asyncio.TimerHandle | None = None
        self._rolling: asyncio.Task[None] | None = None
        self._rolled_s = time.monotonic()

    def start(self) -> None:
        """Begins the first period. Called once."""
        self._rolled_s = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(RATE_PERIOD_SECONDS, self._roll)

    def stop(self) -> None:
        """Ends the work. Has no effect before `start`."""
        if self._timer is not None:
            self._timer.cancel()
        if self._rolling is not None:
            self._rolling.cancel()

    def _roll(self) -> None:
        now_s = time.monotonic()
        elapsed_s, self._rolled_s = now_s - self._rolled_s, now_s
        loop = asyncio.get_running_loop()
        self._rolling = loop.create_task(self._roll_all(elapsed_s))
        self._timer = loop.call_later(RATE_PERIOD_SECONDS, self._roll)

    async def _roll_all(self, elapsed_s: float) -> None:
        async for topic in in_portions(self._topics()):
            topic.roll_rates(elapsed_s)
