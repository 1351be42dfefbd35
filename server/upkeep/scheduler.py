"""Runs the jobs that visit all topics at intervals. One timer serves all jobs.

A job visits one topic after the other, in portions, and other work of the event loop runs in between. Jobs whose rounds
fall together take turns: most intervals are a minute, and if each job did its portion in every turn of the loop, a
message would wait for all of these portions several times on its way.

The next round of a job begins only after the previous round of that job has ended. An error of a visit affects only the
topic that is visited. When a visit takes longer than VISIT_SECONDS, the round goes on with the other topics; the slow
visit is not cancelled, because the visit may be changing the topic. Until the slow visit ends, the job skips that
topic."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from magnetar.server.process.turns import PORTION_SECONDS
from pulsar_proto.histogram import Histogram

log = logging.getLogger(__name__)

VISIT_SECONDS = 5.0
"""How long a round waits for the visit to one topic."""

ROUND_BOUNDS_S = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0)
"""The bounds of the histograms of how long rounds take."""

T = TypeVar("T")


class Job(NamedTuple, Generic[T]):
    name: str
    """The job's name in log lines."""
    interval_seconds: float
    visit: Callable[[T, int], Awaitable[None] | None]
    """A function that does the job's work for one topic. Its arguments are the topic and the time in ms since the
    epoch. A visit that has to wait returns an awaitable, for which the round waits."""


class Scheduler(Generic[T]):
    """Runs the jobs at their intervals. Call `start` once, and `close` at the end. `topics()` returns the topics that a
    round visits."""

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
        """(name of the job, topic) -> the task of the visit, for all visits under way."""
        self._timer: asyncio.TimerHandle | None = None
        self._portion = asyncio.Lock()
        """Held by the round that does its portion, until the loop has had another turn."""
        self.round_times = {job.name: Histogram(ROUND_BOUNDS_S) for job in jobs}
        """The seconds that the rounds of each job took."""

    def start(self) -> None:
        if self._due:
            delay = max(0.0, min(self._due.values()) - self._now())
            self._timer = asyncio.get_running_loop().call_later(delay, self._tick)

    def set_interval(self, name: str, seconds: float) -> None:
        """Changes how often a job runs. The job's next round begins when the new interval has passed."""
        self.jobs[name] = self.jobs[name]._replace(interval_seconds=seconds)
        self._due[name] = self._now() + seconds
        if self._timer is not None:
            self._timer.cancel()
            self.start()

    async def close(self) -> None:
        """Cancels all rounds and visits, and returns when these tasks have ended."""
        if self._timer is not None:
            self._timer.cancel()
        under_way = [*self._running.values(), *self._visits.values()]
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)

    async def run_all(self) -> None:
        """Runs one round of each job now, one job after the other."""
        for name in self.jobs:
            await self.run(name)

    async def run(self, name: str) -> None:
        """Runs one round of a job now."""
        began_s = self._now()
        job = self.jobs[name]
        topics = iter(list(self._topics()))
        is_over = False
        while not is_over:
            async with self._portion:
                is_over, visit = self._do_portion(job, topics)
                await asyncio.sleep(0)
            if visit is not None:
                await self._wait_for(job, *visit)
        self.round_times[name].add(self._now() - began_s)

    def _do_portion(self, job: Job[T], topics: Iterator[T]) -> tuple[bool, tuple[T, asyncio.Task[None]] | None]:
        """Visits topics for PORTION_SECONDS, or until a visit has to wait. Returns whether all topics were visited, and
        the topic with the task of the visit that has to wait, or None."""
        ends_at = time.monotonic() + PORTION_SECONDS
        for topic in topics:
            if (job.name, topic) in self._visits:
                continue
            try:
                visiting = job.visit(topic, self._clock_ms())
            except Exception as error:
                _log_failure(job, topic, error)
            else:
                if visiting is not None:
                    return False, (topic, self._begin_visit(job, topic, visiting))
            if time.monotonic() >= ends_at:
                return False, None
        return True, None

    def _begin_visit(self, job: Job[T], topic: T, visiting: Awaitable[None]) -> asyncio.Task[None]:
        visit = self._visits[job.name, topic] = asyncio.create_task(_end_of(job, topic, visiting))
        visit.add_done_callback(lambda _: self._visits.pop((job.name, topic)))
        return visit

    async def _wait_for(self, job: Job[T], topic: T, visit: asyncio.Task[None]) -> None:
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
