"""One timer for everything that is done to all topics once in a while: a table of jobs, each with its interval.

A job visits one topic after the other and lets the loop serve others in between; while one round of a job lasts, the
next one of the same job does not begin. What a visit raises concerns that topic alone.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

log = logging.getLogger(__name__)

VISITS_AT_ONCE = 100
"""Visits that waited for nothing, after which the loop serves others."""

T = TypeVar("T")


class Job(NamedTuple, Generic[T]):
    name: str
    """For logs."""
    interval_seconds: float
    visit: Callable[[T, int], Awaitable[None] | None]
    """(topic, ms since the epoch). What it returns is waited for."""


class Scheduler(Generic[T]):
    """`start` once, then `close`. `topics()` are those to visit now."""

    def __init__(
        self,
        topics: Callable[[], Iterable[T]],
        jobs: Sequence[Job[T]],
        *,
        clock_ms: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.jobs = {job.name: job for job in jobs}
        self._topics = topics
        self._clock_ms = clock_ms
        self._now = now
        self._due = {job.name: now() + job.interval_seconds for job in jobs}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._due:
            delay = max(0.0, min(self._due.values()) - self._now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    async def close(self) -> None:
        """No visit is under way any more."""
        if self._timer is not None:
            self._timer.cancel()
        running = list(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)

    async def run(self, name: str) -> None:
        """One round of a job, now."""
        job = self.jobs[name]
        waited_for_nothing = 0
        for topic in list(self._topics()):
            try:
                visiting = job.visit(topic, self._clock_ms())
                if visiting is not None:
                    await visiting
                    continue
            except Exception as error:
                log.warning("%s: %s failed: %s: %s", topic, job.name, type(error).__name__, error)
            waited_for_nothing += 1
            if waited_for_nothing % VISITS_AT_ONCE == 0:
                await asyncio.sleep(0)

    def _tick(self) -> None:
        now = self._now()
        for name, due in self._due.items():
            if due <= now:
                self._due[name] = now + self.jobs[name].interval_seconds
                if name not in self._running:
                    task = self._running[name] = asyncio.get_running_loop().create_task(self.run(name))
                    task.add_done_callback(lambda _, name=name: self._running.pop(name))  # type: ignore[misc]
        self.start()
