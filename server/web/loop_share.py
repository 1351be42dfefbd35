"""The web port's share of the event loop, so that calls of administrators never starve clients' messages.

A call runs in steps, from one await to the next. All steps together may take half of the time: while others run, or
nobody does, the web port earns as long for itself, of which it saves up SAVED_SECONDS_MAX. Steps that find nothing
earned wait, in the order in which they came; urgent ones go first. The pause is left where the loop would be idle too:
the journal's thread needs the interpreter, and a message that comes meanwhile is served at once. A step cannot be
interrupted: work that may take long goes `in_portions` (`magnetar.server.process.turns`).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

SAVED_SECONDS_MAX = 0.005
"""How long the web port may keep the loop after a time without calls."""

TICK_SECONDS = 0.001
"""Steps that wait are let go so often, those for which there is time."""

STEP_WEIGHT = 0.1
"""Of the latest step in the average, by which waiting steps are let go."""


class LoopShare:
    """Lives on one event loop. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._balance_s = SAVED_SECONDS_MAX
        self._settled_s = clock()
        """Up to when the balance is right."""
        self._spent_s = 0.0
        """Since then."""
        self._timer: asyncio.TimerHandle | None = None
        """While somebody waits."""
        self._step_s = TICK_SECONDS
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._urgent: deque[asyncio.Future[None]] = deque()
        self.longest_step_s = 0.0
        """Of all so far."""

    def run(self, call: Coroutine[Any, Any, T], *, is_urgent: bool = False) -> Awaitable[T]:
        """To be awaited: the result of the call, whose every step has waited for its turn."""
        return _CallSteps(self, call, is_urgent=is_urgent)

    def spend(self, seconds: float) -> None:
        """Counts time that the web port has taken."""
        self._spent_s += seconds

    def ended(self, seconds: float) -> None:
        """Counts a step."""
        self.spend(seconds)
        self._step_s += (seconds - self._step_s) * STEP_WEIGHT
        self.longest_step_s = max(self.longest_step_s, seconds)

    def has_time(self, *, is_urgent: bool) -> bool:
        """Whether a step may run now: nobody waits before it, and there is time for it."""
        self._settle()
        return self._balance_s > 0 and not self._urgent and (is_urgent or not self._waiting)

    def turn(self, *, is_urgent: bool) -> asyncio.Future[None]:
        """Done when a step that found no time may run."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        (self._urgent if is_urgent else self._waiting).append(waiter)
        if self._timer is None:
            self._timer = loop.call_later(TICK_SECONDS, self._tick)
        return waiter

    @property
    def is_ticking(self) -> bool:
        return self._timer is not None

    def _settle(self) -> None:
        now_s = self.clock()
        others_s = now_s - self._settled_s - self._spent_s
        self._balance_s = min(SAVED_SECONDS_MAX, self._balance_s - self._spent_s + others_s)
        self._settled_s, self._spent_s = now_s, 0.0

    def _tick(self) -> None:
        self._settle()
        promised_s = 0.0
        while promised_s < self._balance_s and (self._urgent or self._waiting):
            waiter = (self._urgent or self._waiting).popleft()
            if not waiter.done():
                waiter.set_result(None)
                promised_s += self._step_s
        some_wait = bool(self._urgent or self._waiting)
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick) if some_wait else None


class _CallSteps(Awaitable[T]):
    """Runs a coroutine step by step, each in its turn and measured."""

    def __init__(self, share: LoopShare, call: Coroutine[Any, Any, T], *, is_urgent: bool) -> None:
        self._share = share
        self._call = call
        self._is_urgent = is_urgent

    def __await__(self) -> Generator[Any, None, T]:
        share = self._share
        fault: BaseException | None = None
        while True:
            if fault is None and not share.has_time(is_urgent=self._is_urgent):
                try:
                    yield from share.turn(is_urgent=self._is_urgent)
                except asyncio.CancelledError as cancelled:
                    fault = cancelled
            began_s = share.clock()
            try:
                waited_for = self._call.send(None) if fault is None else self._call.throw(fault)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                share.ended(share.clock() - began_s)
            try:
                yield waited_for
                fault = None
            except GeneratorExit:
                self._call.close()
                raise
            except BaseException as raised:
                fault = raised
