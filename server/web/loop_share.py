"""The web port's share of the event loop, so that calls of administrators never starve clients' messages.

A call runs in steps, each from one await to the next. All steps of all calls together take at most half of the time.
`LoopShare` keeps a balance. The time that steps take is subtracted from the balance. The time in which no step runs is
added to the balance, whether the loop is busy with other tasks or idle, until the balance is SAVED_SECONDS_MAX:

    runs        | a step | messages, or nothing | a step | messages
    for         | 3 ms   | 5 ms                 | 8 ms   | 4 ms
    balance 5   | 2      | 5, not 7             | -3     | 1: the next step may run

A step may run while the balance is positive. Otherwise the step waits: urgent steps go first, then the steps of calls
that have begun, then the first steps of new calls, each in the order in which they came. Otherwise a call of a hundred
steps would wait a hundred times for a thousand others. Every NEW_CALL_EVERY-th turn is a new call's, so that calls that
never end keep nobody out. A step waits even when the loop is idle, because the journal's thread needs the interpreter
meanwhile, and because a message that comes in this pause is served at once. A step cannot be interrupted, so work that
may take long goes `in_portions` (`magnetar.server.process.turns`)."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")

SAVED_SECONDS_MAX = 0.005
"""The largest balance: how long steps may keep the loop after a time without calls."""

TICK_SECONDS = 0.001
"""While steps wait, the balance is checked at this interval, and then as many steps may run as the balance has time
for."""

NEW_CALL_EVERY = 8
"""Which share of the turns new calls have, while calls that have begun wait, too."""

STEP_WEIGHT = 0.1
"""The weight of the latest step in the moving average of the lengths of steps. From this average `LoopShare` estimates
for how many steps the balance has time."""


class LoopShare:
    """The balance of one event loop. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._balance_s = SAVED_SECONDS_MAX
        self._settled_s = clock()
        """The time at which the balance was last brought up to date."""
        self._spent_s = 0.0
        """The time that steps have taken since `_settled_s`."""
        self._timer: asyncio.TimerHandle | None = None
        """The timer that runs while steps wait."""
        self._step_s = TICK_SECONDS
        """The moving average of the lengths of steps."""
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._begun: deque[asyncio.Future[None]] = deque()
        self._new: deque[asyncio.Future[None]] = deque()
        self._turns_of_begun = 0
        """How many turns calls that have begun have had since a new call had one."""
        self.longest_step_s = 0.0
        """The longest step so far."""

    def run(self, call: Coroutine[Any, Any, T], *, is_urgent: bool = False) -> Awaitable[T]:
        """Returns an awaitable that runs the call, and makes every step of the call wait for its turn. The awaitable
        returns what the call returns, and raises what the call raises."""
        return _CallSteps(self, call, is_urgent=is_urgent)

    def spend(self, seconds: float) -> None:
        """Subtracts time that the web port has used, for whatever purpose, from the balance."""
        self._spent_s += seconds

    def ended(self, seconds: float) -> None:
        """Subtracts the time of a step that has ended from the balance."""
        self.spend(seconds)
        self._step_s += (seconds - self._step_s) * STEP_WEIGHT
        self.longest_step_s = max(self.longest_step_s, seconds)

    def has_time(self, *, is_urgent: bool) -> bool:
        """Returns whether a step may run now: the balance is positive and no step waits that comes first."""
        self._settle()
        return self._balance_s > 0 and not self._urgent and (is_urgent or not (self._begun or self._new))

    def turn(self, *, is_urgent: bool, has_begun: bool) -> asyncio.Future[None]:
        """Returns a future that is done when a step, for which `has_time` was False, may run. `has_begun` says whether
        the call has had a step before."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        (self._urgent if is_urgent else self._begun if has_begun else self._new).append(waiter)
        if self._timer is None:
            self._timer = loop.call_later(TICK_SECONDS, self._tick)
        return waiter

    @property
    def is_ticking(self) -> bool:
        """Returns whether the timer runs. The timer runs only while steps wait."""
        return self._timer is not None

    def _settle(self) -> None:
        now_s = self.clock()
        others_s = now_s - self._settled_s - self._spent_s
        self._balance_s = min(SAVED_SECONDS_MAX, self._balance_s - self._spent_s + others_s)
        self._settled_s, self._spent_s = now_s, 0.0

    def _tick(self) -> None:
        self._settle()
        promised_s = 0.0
        while promised_s < self._balance_s and (waiting := self._next_queue()):
            waiter = waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                promised_s += self._step_s
        some_wait = bool(self._urgent or self._begun or self._new)
        self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick) if some_wait else None

    def _next_queue(self) -> deque[asyncio.Future[None]]:
        """Returns the queue whose first step has the next turn. The queue is empty if no step waits."""
        if self._urgent:
            return self._urgent
        if self._begun and (not self._new or self._turns_of_begun < NEW_CALL_EVERY - 1):
            self._turns_of_begun += 1
            return self._begun
        self._turns_of_begun = 0
        return self._new


class _CallSteps(Awaitable[T]):
    """Runs a coroutine step by step, as the task that awaits this object would: what the coroutine waits for is passed
    up to the task, and what the task sends or throws is passed down. In between, each step waits for its turn and is
    measured."""

    def __init__(self, share: LoopShare, call: Coroutine[Any, Any, T], *, is_urgent: bool) -> None:
        self._share = share
        self._call = call
        self._is_urgent = is_urgent

    def __await__(self) -> Generator[Any, None, T]:
        share = self._share
        fault: BaseException | None = None
        has_begun = False
        while True:
            if fault is None and not share.has_time(is_urgent=self._is_urgent):
                try:
                    yield from share.turn(is_urgent=self._is_urgent, has_begun=has_begun)
                except asyncio.CancelledError as cancelled:
                    fault = cancelled
            has_begun = True
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
