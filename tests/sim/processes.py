"""Processes of a simulation: their callbacks and tasks stop while the process is paused, and end when it is killed.

All processes share one loop. Which process a callback belongs to is in the callback's context, which tasks and timers
inherit. A paused process keeps what is due, as a process does after SIGSTOP: timers that expire meanwhile run when the
process goes on. What a killed process would have done never happens; not even its `finally` blocks run.
"""

import asyncio
import gc
import heapq
import sys
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from magnetar.storage.managed.factory import ManagedLedgerFactory
from tests.sim.virtual_loop import SimLoop
from tests.storage.ledger.virtual_loop import StuckError

T = TypeVar("T")

EPOCH_S = 1_700_000_000
"""The time of day, in seconds, at which each history begins."""
PRUNE_TASKS = 5_000
ROUNDS_MAX = 500_000
"""How many rounds of the loop a history may take: more than ten times those of a long one."""
END_SECONDS = 60.0


class Process:
    """One process. Code belongs to it if `run_soon` or `spawn` started it, or if such code started it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_paused = False
        self.is_dead = False
        self.context = copy_context()
        self.context.run(PROCESS.set, self)
        self._parked: list[asyncio.Handle] = []
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ProcessLoop)
        self._loop = loop
        loop.processes.append(self)

    def run_soon(self, call: Callable[..., object], *args: Any) -> None:
        self._loop.call_soon(call, *args, context=self.context.copy())

    def run_later(self, delay: float, call: Callable[..., object], *args: Any) -> None:
        self._loop.call_later(delay, call, *args, context=self.context.copy())

    def spawn(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        return self._loop.create_task(work, context=self.context.copy())

    def pause(self) -> None:
        self.is_paused = True

    def wake(self) -> None:
        """Lets the process go on. What became due meanwhile runs first, in its order."""
        self.is_paused = False
        parked, self._parked = self._parked, []
        self._loop.run_first(parked)

    def kill(self) -> None:
        self.is_dead = True
        self._parked.clear()

    def holds_back(self, handle: asyncio.Handle) -> bool:
        """Returns whether the callback must not run now."""
        if self.is_dead:
            return True
        if self.is_paused:
            self._parked.append(handle)
        return self.is_paused


PROCESS: ContextVar[Process | None] = ContextVar("PROCESS", default=None)
"""The process to which the running code belongs; None for the world around the processes."""


def at_home(home: Context, call: Callable[[], object]) -> None:
    """Calls `call` in the process that the context `home` belongs to. Without a process, calls it at once."""
    if home.get(PROCESS) is None:
        call()
    else:
        asyncio.get_running_loop().call_soon(call, context=home.copy())


class _Handle(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or not process.holds_back(self):
            super()._run()


class _Timer(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        process = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or not process.holds_back(self):
            super()._run()


class ProcessLoop(SimLoop):
    """The virtual loop of a simulation with processes."""

    def __init__(self, rng: Random) -> None:
        super().__init__(rng)
        self.processes: list[Process] = []
        self.faults: list[str] = []
        """Errors that code raised and nobody expected."""
        self._rounds = 0
        self._tasks: list[asyncio.Task[Any]] = []
        """Holds every task, because a task of a killed process must not be collected: that would run its `finally`."""
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._fault)

    def run_first(self, handles: list[asyncio.Handle]) -> None:
        self._ready.extendleft(reversed(handles))  # type: ignore[attr-defined]

    def _run_once(self) -> None:
        self._rounds += 1
        if self._rounds == ROUNDS_MAX:
            raise StuckError(f"the history does not end, it is at {self.time():.3f} s")
        super()._run_once()  # type: ignore[misc]

    def _call_soon(self, callback: Any, args: Any, context: Context | None) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]  # of any callback
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _make_task(self, loop: Any, work: Any, context: Context | None = None) -> "asyncio.Task[Any]":
        if len(self._tasks) > PRUNE_TASKS:
            self._tasks = [task for task in self._tasks if not task.done()]
        task = asyncio.Task(work, loop=loop, context=context)
        self._tasks.append(task)
        return task

    def _fault(self, loop: Any, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "handle" in context and error is not None:
            self.faults.append(f"{context['message']}: {error!r}")


@contextmanager
def virtual_clocks(loop: ProcessLoop) -> Iterator[None]:
    """Has the product read the loop's time instead of the machine's clocks."""

    def now_ns() -> int:
        return int((EPOCH_S + loop.time()) * 1e9)

    defaults = {**(ManagedLedgerFactory.__init__.__kwdefaults__ or {}), "monotonic_s": loop.time}
    with (
        patch.multiple(time, monotonic=loop.time, perf_counter=loop.time, time_ns=now_ns, time=lambda: now_ns() / 1e9),
        patch.object(ManagedLedgerFactory.__init__, "__kwdefaults__", defaults),
    ):
        yield


def run(rng: Random, program: Coroutine[Any, Any, T]) -> T:
    """Runs the program to its end in virtual time. Processes and tasks that are left are ended afterwards."""
    loop = ProcessLoop(rng)
    asyncio.set_event_loop(loop)
    gc.disable()  # the collector's moments would be another source of chance
    try:
        with virtual_clocks(loop):
            try:
                return loop.run_until_complete(program)
            finally:
                loop._rounds = 0
                for process in loop.processes:
                    process.is_dead = process.is_paused = False
                left = asyncio.all_tasks(loop)
                for task in left:
                    task.cancel()
                if left:
                    loop.run_until_complete(asyncio.wait(left, timeout=END_SECONDS))
                _forget([task for task in left if not task.done()])
    finally:
        asyncio.set_event_loop(None)
        loop.close()
        gc.enable()


def _forget(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    """Ends tasks whose process was killed before their first step, and collects the coroutines that killed processes
    have left and that nobody will await. Without this, Python would warn of them during another test. Nobody is told of
    what such a coroutine raises at its end, when it asks for the loop that is gone."""
    told, sys.unraisablehook = sys.unraisablehook, lambda _: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            for task in tasks:
                task.get_coro().close()
            gc.collect()
    finally:
        sys.unraisablehook = told
