"""Objects that went out of use although their parts refer to each other, as those of an unloaded topic do. Python's
collector does not look at them any more, because they are old (`garbage_collection`); here they wait for the second
look that `second_look` gives them.

A second look takes a millisecond or two, and many topics may be unloaded at once, when a bundle moves. So the looks are
spread over time, and the new objects that they make are collected as soon as there are some thousands of them. An
object that is still new when it is left, as a topic that is made and deleted soon, dies without a second look.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import Self
from weakref import ref

WAIT_SECONDS = 5.0
"""How long an object waits for its second look. By then the tasks are over that closed it, or that still used it."""

STEP_SECONDS = 0.01
"""The time between two looks, so that they take a tenth of a core at most."""

WAITING_MAX = 10_000
"""How many objects may wait. Those that come when so many wait are left to a full collection."""

COLLECTED_TOGETHER = 5_000
"""After looks at so many objects they are collected, together with all new ones, which takes up to 8 ms."""

_current: "LeftObjects | None" = None
"""What a running server has; None in a process whose objects are never exempt from collections."""


def leave(what: object) -> None:
    """Called when an object has been closed for ever, which weak references can refer to. Its memory and that of its
    parts is free some seconds later, unless something else still refers to them."""
    if _current is not None:
        _current.add(what)


class LeftObjects:
    """The objects that wait for their second look. A context manager, which is entered and left on the event loop's
    thread; meanwhile it serves `leave`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[float, ref[object]]] = deque()
        """The objects, each with the time of its second look. They may die before."""
        self._look_again: Callable[[object], int] | None = None
        self._looked_at = 0
        """How many objects are to be collected."""
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        global _current
        _current = self
        return self

    def __exit__(self, *_: object) -> None:
        global _current
        _current = None
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def add(self, what: object) -> None:
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append((self._loop.time() + WAIT_SECONDS, ref(what)))
            if self._timer is None:
                self._timer = self._loop.call_later(WAIT_SECONDS, self._step)

    def _step(self) -> None:
        self._timer = None
        if self._look_again is None:
            self._loop.run_in_executor(None, _import).add_done_callback(self._imported)
            return
        if self._looked_at >= COLLECTED_TOGETHER:
            self._looked_at = 0
            gc.collect(0)
        elif (what := self._next_due()) is not None:
            self._looked_at += self._look_again(what)
        if self._waiting:
            seconds = max(self._waiting[0][0] - self._loop.time(), STEP_SECONDS)
            self._timer = self._loop.call_later(seconds, self._step)

    def _next_due(self) -> object:
        """Returns the next object whose time has come, or None."""
        now_s = self._loop.time()
        while self._waiting and now_s >= self._waiting[0][0]:
            what = self._waiting.popleft()[1]()
            if what is not None:
                return what
        return None

    def _imported(self, done: "asyncio.Future[Callable[[object], int]]") -> None:
        if self._waiting:  # otherwise the server has ended meanwhile
            self._look_again = done.result()
            self._step()


def _import() -> "Callable[[object], int]":
    look_again: Callable[[object], int] = import_module("magnetar.server.process.second_look").look_again
    return look_again
