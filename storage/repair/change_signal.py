"""Waiting for "something changed" without losing a change that comes between the look and the wait."""

import asyncio
from contextlib import suppress


class Changes:
    """Take `count`, look, and if there was nothing to do: `after(count)`. On one loop."""

    def __init__(self) -> None:
        self.count = 0
        self._waiters: set[asyncio.Future[None]] = set()

    def note(self, *_: object) -> None:
        """Something changed; also a callback of whatever tells so."""
        self.count += 1
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def after(self, count: int, seconds: float | None = None) -> None:
        """Returns when something changed since `count`, or after so many seconds."""
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
