"""The virtual-time loop for the simulation: the work of a thread takes time too, but runs in the loop's own order."""

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from tests.storage.ledger import virtual_loop
from tests.storage.ledger.virtual_loop import VirtualLoop

T = TypeVar("T")

DISK_SECONDS_MAX = 0.004


class SimLoop(VirtualLoop):
    """Starts no threads. What an executor would run, the loop itself runs, at a moment that `rng` chooses."""

    def __init__(self, rng: Random) -> None:
        super().__init__()
        self._rng = rng

    def run_in_executor(  # type: ignore[override]  # of any function
        self, executor: object, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except Exception as error:
                future.set_exception(error)

        self.call_later(self._rng.uniform(0, DISK_SECONDS_MAX), work)
        return future


def run(rng: Random, program: Coroutine[Any, Any, T]) -> T:
    """Runs the program like `virtual_loop.run`, but does not print errors of tasks that nobody awaited: here they are
    part of a history."""
    loop = SimLoop(rng)
    loop.set_exception_handler(lambda _, context: None)
    return virtual_loop.run(program, loop)
