"""Shares results among simultaneous callers, so that the work for a result is not repeated for each caller."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class FreshResults(Generic[T]):
    """Bounds the cost of many callers at the same time, for results that must not be older than the call, such as the
    list of a namespace's topics.

    Callers that come while a result is being made share the next one, whose making begins when the present one is
    ready. So at most two results for one key are made and kept at the same time. `SharedResult` is for results that may
    be slightly older than the call.
    """

    def __init__(self, make: Callable[[str], Awaitable[T]]) -> None:
        """`make(key)` makes the result for a key."""
        self._make = make
        self._running: dict[str, asyncio.Task[T]] = {}
        self._next: dict[str, asyncio.Task[T]] = {}

    async def get(self, key: str) -> T:
        """Returns a result whose making began after this call. The result is shared, so the caller must not change it.
        Raises the errors of `make`. The cancellation of a caller does not end the work, which others may share."""
        loop = asyncio.get_running_loop()
        task = self._next.get(key)
        if task is None:
            running = self._running.get(key)
            if running is None:
                task = self._running[key] = loop.create_task(self._run(key))
            else:
                task = self._next[key] = loop.create_task(self._run_after(running, key))
        return await asyncio.shield(task)

    async def _run(self, key: str) -> T:
        try:
            return await self._make(key)
        finally:
            del self._running[key]

    async def _run_after(self, running: "asyncio.Task[T]", key: str) -> T:
        await asyncio.wait((running,))
        self._running[key] = self._next.pop(key)
        return await self._run(key)
