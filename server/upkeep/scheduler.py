"""One timer for everything that is done to all topics once in a while: a table of jobs, each with its interval.

A job visits one topic after the other and lets the loop serve others in between; while one round of a job lasts, the
next one of the same job does not begin. What a visit raises concerns that topic alone, and so does a visit that takes
long: after VISIT_SECONDS the round goes on with the other topics, and the late visit runs to its end beside it, because
it may be changing the topic. Until then the job passes that topic over.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from magnetar.server.process.turns import in_portions

log = logging.getLogger(__name__)

VISIT_SECONDS = 5.0
"""How long a round waits for the visit to one topic."""

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
        self._visits: dict[tuple[str, T], asyncio.Task[None]] = {}
        """Under way, by the job's name and the topic."""
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if self._due:
            delay = max(0.0, min(self._due.values()) - self._now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    async def close(self) -> None:
        """No visit is under way any more."""
        if self._timer is not None:
            self._timer.cancel()
        under_way = [*self._running.values(), *self._visits.values()]
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)

    async def run(self, name: str) -> None:
        """One round of a job, now."""
        job = self.jobs[name]
        async for topic in in_portions(list(self._topics())):
            if (name, topic) in self._visits:
                continue
            try:
                visiting = job.visit(topic, self._clock_ms())
            except Exception as error:
                _log_failure(job, topic, error)
            else:
                if visiting is not None:
                    await self._wait_for(job, topic, visiting)

    async def _wait_for(self, job: Job[T], topic: T, visiting: Awaitable[None]) -> None:
        visit = self._visits[job.name, topic] = asyncio.ensure_future(_end_of(job, topic, visiting))
        visit.add_done_callback(lambda _: self._visits.pop((job.name, topic)))
        done, _ = await asyncio.wait([visit], timeout=VISIT_SECONDS)
        if not done:
            log.warning(
                "%s: %s takes more than %s s: the other topics do not wait for it", topic, job.name, VISIT_SECONDS
            )

    def _tick(self) -> None:
        now = self._now()
        for name, due in self._due.items():
            if due <= now:
                self._due[name] = now + self.jobs[name].interval_seconds
                if name not in self._running:
                    task = self._running[name] = asyncio.get_running_loop().create_task(self.run(name))
                    task.add_done_callback(lambda _, name=name: self._running.pop(name))  # type: ignore[misc]
        self.start()


async def _end_of(job: Job[T], topic: T, visiting: Awaitable[None]) -> None:
    try:
        await visiting
    except Exception as error:
        _log_failure(job, topic, error)


def _log_failure(job: Job[T], topic: T, error: Exception) -> None:
    log.warning("%s: %s failed: %s: %s", topic, job.name, type(error).__name__, error)
