"""An event loop without clock, threads or sockets: time jumps to the next timer, so the same program runs the same way
each time.

A program that waits for something that can no longer happen raises `StuckError` instead of hanging.
"""

import asyncio
from asyncio import base_events
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class StuckError(AssertionError):
    """Nothing is scheduled, but the program has not ended."""


class _Selector:
    def __init__(self) -> None:
        self.now = 0.0

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise StuckError("every task waits for something that nobody will do")
        self.now += timeout
        return []


class VirtualLoop(base_events.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._selector = _Selector()

    def time(self) -> float:
        return self._selector.now

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no events, because there are no sockets."""

    def _write_to_self(self) -> None:
        """No other thread wakes this loop."""


def run(program: Coroutine[Any, Any, T], loop: VirtualLoop | None = None) -> T:
    """Runs the program to its end in virtual time, on a new loop unless one is given. Tasks that are left are
    cancelled."""
    loop = loop or VirtualLoop()
    try:
        asyncio.set_event_loop(loop)
        try:
            return loop.run_until_complete(program)
        finally:
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        asyncio.set_event_loop(None)
        loop.close()
