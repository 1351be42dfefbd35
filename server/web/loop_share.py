"""The web port's share of the event loop, so that calls of administrators never starve clients' messages.

A call runs in steps, each from one await to the next. All steps of all calls together take at most half of the time.
`LoopShare` keeps a balance. The time that steps take is subtracted from the balance. The time in which no step runs is
added to the balance, whether the loop is busy with other tasks or idle, until the balance is SAVED_SECONDS_MAX:

    runs        | a step | messages, or nothing | a step | messages
    for         | 3 ms   | 5 ms                 | 8 ms   | 4 ms
    balance 5   | 2      | 5, not 7             | -3     | 1: the next step may run

A step may run while the balance is positive, under two more conditions:

- In each turn of the loop one step runs at most. So the sockets are polled between two steps, and a message that comes
  in waits for one step, however many steps the balance has time for.
- No message is on its way to the bookies. Until its receipt is written, a step would only delay it: the journal's
  thread needs the interpreter, and the receipt needs the loop. As a busy broker always has messages on their way, a
  step runs nevertheless when no step has run for PATIENCE_SECONDS. Urgent steps do not wait for messages.

Steps that wait have an order: urgent steps go first, then the steps of calls that have begun, then the first steps of
new calls, each in the order in which they came. Otherwise a call of a hundred steps would wait a hundred times for a
thousand others. Every NEW_CALL_EVERY-th step is a new call's, so that calls that never end keep nobody out. Every
OLDEST_EVERY-th step of calls that have begun is the oldest call's, so that a call of thousands of steps, such as the
page of /metrics of many topics, ends in time however many short calls come meanwhile.

A step waits even when the loop is idle, because a message that comes in this pause is served at once. A step cannot be
interrupted, so work that may take long goes `in_portions` (`magnetar.server.process.turns`)."""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from magnetar.storage.ledger.appends_under_way import AppendsUnderWay

T = TypeVar("T")

SAVED_SECONDS_MAX = 0.005
"""The largest balance: how much time steps may take after a time without calls."""

TICK_SECONDS = 0.001
"""While steps wait for time, they look again at this interval."""

PATIENCE_SECONDS = 0.001
"""For how long after the last step the steps wait for messages that are on their way."""

NEW_CALL_EVERY = 8
"""Which share of the steps new calls have, while calls that have begun wait, too."""


OLDEST_EVERY = 2
"""Which share of the steps of calls that have begun the oldest of these calls has."""


class LoopShare:
    """The balance of one event loop. `appends` counts the messages on their way; `clock` returns seconds."""

    def __init__(self, appends: AppendsUnderWay, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._appends = appends
        self._balance_s = SAVED_SECONDS_MAX
        self._settled_s = clock()
        """The time at which the balance was last brought up to date."""
        self._spent_s = 0.0
        """The time that steps have taken since `_settled_s`."""
        self._stepped_s = self._settled_s
        """When the last step ended."""
        self._has_stepped = False
        """Whether this turn of the loop has had its step, or will have it."""
        self._timer: asyncio.Handle | None = None
        """Runs `_look` while steps wait for time."""
        self._urgent: deque[asyncio.Future[None]] = deque()
        self._begun: OrderedDict[int, asyncio.Future[None]] = OrderedDict()
        """The steps of calls that have begun, by the numbers of the calls."""
        self._new: deque[asyncio.Future[None]] = deque()
        self._turns_of_begun = 0
        """How many turns calls that have begun have had since a new call had one."""
        self._last_number = 0
        self.longest_step_s = 0.0
        """The longest step so far."""
        appends.when_none(self._messages_are_answered)

    def run(self, call: Coroutine[Any, Any, T], *, is_urgent: bool = False) -> Awaitable[T]:
        """Returns an awaitable that runs the call, and makes every step of the call wait for its turn. The awaitable
        returns what the call returns, and raises what the call raises."""
        return _CallSteps(self, call, is_urgent=is_urgent)

    def begin(self) -> int:
        """Returns the number of a call that has its first step now: a call with a smaller number is older."""
        self._last_number += 1
        return self._last_number

    def spend(self, seconds: float) -> None:
        """Subtracts time that the web port has used, for whatever purpose, from the balance."""
        self._spent_s += seconds

    def ended(self, seconds: float) -> None:
        """Subtracts the time of a step that has ended from the balance."""
        self.spend(seconds)
        self._stepped_s = self.clock()
        self.longest_step_s = max(self.longest_step_s, seconds)
        self._take_turn()

    def has_time(self, *, is_urgent: bool) -> bool:
        """Returns whether a step may run now: there is time for it and no step waits that comes first."""
        if self._has_stepped or self._urgent or (not is_urgent and (self._begun or self._new)):
            return False
        return self._is_time(is_urgent=is_urgent)

    def turn(self, *, is_urgent: bool, number: int | None) -> asyncio.Future[None]:
        """Returns a future that is done when a step, for which `has_time` was False, may run. `number` is the call's
        number, or None if the call has had no step before."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if is_urgent:
            self._urgent.append(waiter)
        elif number is None:
            self._new.append(waiter)
        else:
            self._begun[number] = waiter
        if not self._has_stepped and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._look)
        return waiter

    @property
    def is_ticking(self) -> bool:
        """Returns whether the timer runs. The timer runs only while steps wait."""
        return self._timer is not None

    def _is_time(self, *, is_urgent: bool) -> bool:
        now_s = self.clock()
        others_s = now_s - self._settled_s - self._spent_s
        self._balance_s = min(SAVED_SECONDS_MAX, self._balance_s - self._spent_s + others_s)
        self._settled_s, self._spent_s = now_s, 0.0
        if self._balance_s <= 0:
            return False
        return is_urgent or not self._appends.count or now_s - self._stepped_s >= PATIENCE_SECONDS

    def _take_turn(self) -> None:
        """Notes that this turn of the loop has its step. The next turn begins with `_begin_turn`."""
        if not self._has_stepped:
            self._has_stepped = True
            asyncio.get_running_loop().call_soon(self._begin_turn)

    def _begin_turn(self) -> None:
        self._has_stepped = False
        if self._timer is None:
            self._look()

    def _messages_are_answered(self) -> None:
        """Has the steps that wait look for time in the next turn of the loop, because the receipts are not written
        yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_soon(self._look)

    def _look(self) -> None:
        """Lets the next step run in the next turn of the loop if there is time. Otherwise looks again later."""
        self._timer = None
        if self._has_stepped:
            return  # `_begin_turn` will look again.
        while self._urgent or self._begun or self._new:
            is_urgent = bool(self._urgent)
            if not self._is_time(is_urgent=is_urgent):
                self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._look)
                return
            waiter = self._urgent.popleft() if is_urgent else self._next()
            if waiter.done():
                continue
            waiter.set_result(None)
            self._take_turn()
            return

    def _next(self) -> asyncio.Future[None]:
        """Takes the next step of the calls that are not urgent, of which at least one waits, out of its queue."""
        if not self._begun or (self._new and self._turns_of_begun >= NEW_CALL_EVERY - 1):
            self._turns_of_begun = 0
            return self._new.popleft()
        self._turns_of_begun += 1
        if self._turns_of_begun % OLDEST_EVERY == 0:
            return self._begun.pop(min(self._begun))
        return self._begun.popitem(last=False)[1]


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
        number: int | None = None
        while True:
            if fault is None and not share.has_time(is_urgent=self._is_urgent):
                try:
                    yield from share.turn(is_urgent=self._is_urgent, number=number)
                except asyncio.CancelledError as cancelled:
                    fault = cancelled
            if number is None:
                number = share.begin()
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
