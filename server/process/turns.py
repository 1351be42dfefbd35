"""Long work on the event loop, in portions: whoever has a message to send waits for one portion, not for all of it.

Work whose length a client decides is written as a generator that yields where others may run, often enough that what
lies between two yields takes far less than a portion. What spends its time in a compression library goes to a thread
instead: such libraries let the interpreter go meanwhile, which Python code on a thread would not.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterable
from typing import TypeVar

T = TypeVar("T")

PORTION_SECONDS = 0.004
"""Then others have their turn."""

FIRST_PORTION_PARTS = 8
"""So much shorter is the first portion of one who finds others waiting."""

Steps = Generator[None, None, T]
"""Work in steps; what it returns is its result."""


class Turns:
    """One for each piece of long work, which may be many `run`s after another."""

    __slots__ = ("_ends_at",)

    def __init__(self) -> None:
        self._ends_at = time.monotonic() + PORTION_SECONDS

    async def run(self, steps: Steps[T]) -> T:
        """Raises what the work raises."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            await self.breathe()

    async def breathe(self) -> None:
        """Lets others run, if this portion has taken its time."""
        if time.monotonic() >= self._ends_at:
            await asyncio.sleep(0)
            self._ends_at = time.monotonic() + PORTION_SECONDS


class TurnQueue:
    """What many have left of their work: one portion of one of them in each turn of the loop, in the order in which
    they came. If each took its own portion in every turn, a turn would be as long as all portions together, and a
    message needs several turns from its arrival to its receipt."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def portion_seconds(self) -> float:
        """For who comes newly: short when others wait already."""
        return PORTION_SECONDS / FIRST_PORTION_PARTS if self._waiting else PORTION_SECONDS

    def add(self, run: Callable[[], None]) -> None:
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


async def in_portions(items: Iterable[T]) -> AsyncIterator[T]:
    """The items one by one; when a portion has taken its time, others run before the next item."""
    turns = Turns()
    for item in items:
        yield item
        await turns.breathe()
