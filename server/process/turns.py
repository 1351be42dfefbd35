"""Does long work on the event loop in portions, so that a message waits for one portion and not for all of the work.

Work whose length a client decides is written as a generator. The generator yields wherever other tasks may run, so
often that the time between two yields is far shorter than a portion. Work that spends its time in a compression library
is done on a thread instead: such a library releases the interpreter meanwhile, which Python code on a thread does not.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

PORTION_SECONDS = 0.0005
"""How long a portion of work takes before other tasks run. A callback shall stay below 5 ms, and there is more to it
than the portion: what prepares the work, and the last item."""

OWNER_PORTION_SECONDS = 0.004
"""How long the portion of an owner in a `TurnQueue` takes, whose frames are answered together."""

SLICE_ITEMS = 200
"""How many items `in_slices` yields together."""

FIRST_PORTION_PARTS = 8
"""If other work is waiting already, the first portion of new work is shorter than OWNER_PORTION_SECONDS by this
factor."""

Steps = Generator[None, None, T]
"""A piece of work: a generator that yields wherever other tasks may run, and returns the result of the work."""


class Turns:
    """The portions of one piece of long work. The work may consist of many calls of `run`, one after the other."""

    __slots__ = ("_ends_at",)

    def __init__(self) -> None:
        self._ends_at = time.monotonic() + PORTION_SECONDS

    async def run(self, steps: Steps[T]) -> T:
        """Does the work and returns its result. Raises the errors of the work."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.breathe()

    async def breathe(self) -> None:
        """Lets other tasks run if this portion of the work has taken PORTION_SECONDS."""
        if time.monotonic() >= self._ends_at:
            await asyncio.sleep(0)
            self._ends_at = time.monotonic() + PORTION_SECONDS


class TurnQueue:
    """A queue of unfinished work of many owners. In each turn of the loop one owner does one portion, in the order in
    which the owners came. If each owner did a portion in every turn, a turn would be as long as all portions together,
    and a message needs several turns of the loop from its arrival to its receipt."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def portion_seconds(self) -> float:
        """The length of the first portion of a newcomer's work, which is short when other work is waiting already."""
        return OWNER_PORTION_SECONDS / FIRST_PORTION_PARTS if self._waiting else OWNER_PORTION_SECONDS

    def add(self, run: Callable[[], None]) -> None:
        """Puts the next portion of an owner's work at the end of the queue. A `run` that does not finish its work adds
        itself again."""
        self._waiting.append(run)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._run_next)

    def _run_next(self) -> None:
        run = self._waiting[0]
        try:
            run()
        finally:
            self._waiting.popleft()
            if self._waiting:
                asyncio.get_running_loop().call_soon(self._run_next)


async def in_slices(items: Sequence[T], size: int = SLICE_ITEMS) -> AsyncIterator[Sequence[T]]:
    """Yields the items in slices, for work that takes less than a microsecond or two for each item. Whenever the caller
    has worked for PORTION_SECONDS, other tasks run before the next slice."""
    turns = Turns()
    for start in range(0, len(items), size):
        yield items[start : start + size]
        await turns.breathe()


async def in_portions(items: Iterable[T]) -> AsyncIterator[T]:
    """Yields the items one by one. Whenever the caller has worked for PORTION_SECONDS, other tasks run before the next
    item."""
    turns = Turns()
    for item in items:
        yield item
        await turns.breathe()


async def for_each(items: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int) -> None:
    """Does the work for each item, for `at_once` of them at the same time. An error of the work does not keep it from
    being done for the other items; the first error is raised after that. No task is made for each item: 100,000 tasks
    that wait for a semaphore hold the loop for minutes when they are cancelled."""
    left = iter(items)
    first: Exception | None = None

    async def one_by_one() -> None:
        nonlocal first
        turns = Turns()
        for item in left:
            try:
                await work(item)
            except Exception as error:
                first = first or error
            await turns.breathe()

    await asyncio.gather(*(one_by_one() for _ in range(at_once)))
    if first is not None:
        raise first
