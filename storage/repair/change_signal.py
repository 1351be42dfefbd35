"""Lets tasks wait until something has changed, without losing a change that comes after a task has looked for work and
before it waits."""

import asyncio
from contextlib import suppress


class ChangeSignal:
    """Counts changes, and wakes the tasks that wait for a change. All calls come from one event loop.

    A task first reads `count` and looks for work. If there is no work, the task awaits `after(count)`. A change that
    came meanwhile has raised the count, so that `after` returns at once.
    """

    def __init__(self) -> None:
        self.count = 0
        """How many changes were noted."""
        self._waiters: set[asyncio.Future[None]] = set()

    def note(self, *_: object) -> None:
        """Notes that something changed. Any arguments are accepted, so that this method can be the callback of any
        watch."""
        self.count += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def after(self, count: int, seconds: float | None = None) -> None:
        """Returns when something has changed since the caller read `count`, or at the latest after `seconds` if that is
        given."""
        if self.count != count:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await waiter
        finally:
            self._waiters.discard(waiter)
