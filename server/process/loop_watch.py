"""Finds callbacks that hold the event loop for long: reports how long each callback held the loop, and where in the
code the callback was.

The watch has a thread that takes samples of the loop's thread while the timer of the watch is late. Two samples in a
row show the same callback when the outermost frame above the loop is the same object in both, and the timer of the
watch did not run on the loop in between. In this case all of the time between the two samples was spent in that
callback:

    loop     |--- callback A -----------------------------|--- B ---|-- the timer --|
    samples  ^first A        ^A        ^A        ^A            ^B: A held the loop from the first A to the last A

The clock is read after the first sample and before the last one: between the clock and a sample, the watching thread
may wait for the interpreter while the loop runs other callbacks, most of all when other threads want the interpreter,
too.

A single sample proves no duration, because the callback may have just begun. There is one exception: a call that never
gives up the interpreter (`re`, `json`, protobuf) also keeps the watching thread from taking samples. When the timer and
the samples are both late by GAP_LIMITS limits, only such a call explains the delay, and the gap counts as the time of
that call.

Two clocks are used. Operators want to know why clients wait, whatever the reason is, so a server is watched by the wall
clock, with a limit that no healthy server reaches. Tests must not fail because the machine had other work, so they
watch the CPU time of the loop's thread. The time of Python's garbage collector does not count, because the collector
runs in whatever code happens to allocate. Page faults count with the CPU time that they take; waiting for a disk takes
no CPU time.
"""

import asyncio
import contextlib
import gc
import logging
import operator
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, repeat, zip_longest
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import Self

from magnetar.server.process.collector_pauses import collector_off

log = logging.getLogger(__name__)

WALL_LIMIT_SECONDS = 1.0
CPU_LIMIT_VARIABLE = "MAGNETAR_LOOP_CPU_LIMIT_MS"
"""The environment variable that tests set, in milliseconds: callbacks that take more CPU time are logged as errors."""
SAMPLES_PER_LIMIT = 8
LATE_SAMPLES = 2
"""No sample of the loop's thread is taken until the timer is late by this many samples, so that a healthy loop is never
looked at: CPython 3.11 may crash when one thread walks over the frames of another thread that runs meanwhile
(python/cpython issue 111363). `stack_of` does not let the other thread run."""
GAP_LIMITS = 5
"""When a sample shows a callback for the first time, the watch takes the later of two moments: the last sample and the
last run of the timer. If that moment is at least this many limits ago, the callback's time counts from that moment.
Otherwise its time counts from the present sample: the watching thread may only have been kept from the processor while
the loop ran many callbacks."""
FRAMES_SHOWN = 12
PARTS_OF_PATH_SHOWN = 3

_HANDLE_RUN = asyncio.Handle._run.__code__
"""The code of the frame below each callback of asyncio's own loops. uvloop has no such frame, because it calls from
C."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A callback that held the loop for `seconds`. `place` is the stack where it was last seen, innermost frame
    first."""

    seconds: float
    place: str


class LoopWatch:
    """Watches one loop from `start()` to `close()`, which are called on the loop's thread. The watch is also a context
    manager.

    When a callback that took at least `limit_seconds` is over, `on_stall` is called on the watching thread.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, limit_seconds: float, on_stall: Callable[[Stall], None], *, by_cpu: bool
    ) -> None:
        self._loop = loop
        self._limit_seconds = limit_seconds
        self._on_stall = on_stall
        self._by_cpu = by_cpu
        self._period_seconds = limit_seconds / SAMPLES_PER_LIMIT
        self._clock: Callable[[], float] = time.monotonic
        self._turns = 0
        self._turned_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._beneath_callbacks: FrameType | None = None
        self._collecting_since: float | None = None
        self._collector_seconds = 0.0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop-watch", daemon=True)

    def start(self) -> None:
        self._ident = threading.get_ident()
        # macOS cannot read the CPU time of another thread.
        if self._by_cpu and hasattr(time, "pthread_getcpuclockid"):
            self._clock = partial(self._own_cpu_seconds, time.pthread_getcpuclockid(self._ident))
        if self._by_cpu:
            gc.callbacks.append(self._collector_runs)
        self._turned_at = self._clock()
        self._timer = self._loop.call_later(self._period_seconds, self._turn)
        self._thread.start()

    def close(self) -> None:
        """Ends the watch. When this call returns, all earlier callbacks have been checked."""
        assert self._timer is not None
        self._timer.cancel()
        self._closing.set()
        self._thread.join()
        if self._by_cpu:
            gc.callbacks.remove(self._collector_runs)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _turn(self) -> None:
        self._turns += 1
        self._turned_at = self._clock()
        beneath = sys._getframe(1)
        if beneath.f_code is not _HANDLE_RUN:
            self._beneath_callbacks = beneath
        self._timer = self._loop.call_later(self._period_seconds, self._turn)

    def _collector_runs(self, phase: str, _: dict[str, int]) -> None:
        if threading.get_ident() != self._ident:
            return
        if phase == "start":
            self._collecting_since = time.thread_time()
        elif self._collecting_since is not None:
            self._collector_seconds += time.thread_time() - self._collecting_since
            self._collecting_since = None

    def _own_cpu_seconds(self, clock: int) -> float:
        """Returns the CPU time of the loop's thread without the garbage collector's time. The value stands still while
        the collector runs."""
        since = self._collecting_since
        return (time.clock_gettime(clock) if since is None else since) - self._collector_seconds

    def _watch(self) -> None:
        seen: FrameType | None = None
        turns, place, began, last = 0, "", 0.0, 0.0
        is_over = False
        while not is_over:
            is_over = self._closing.wait(self._period_seconds)
            now, turns_before = self._clock(), self._turns
            is_late = now - self._turned_at >= LATE_SAMPLES * self._period_seconds
            frames = stack_of(self._ident) if is_late else []
            callback = self._callback_of(frames)
            if callback is None or callback is not seen or turns != self._turns or is_over:
                self._judge(last - began, seen, place)
                seen, turns, place = callback, turns_before, ""
                unseen_since = max(last, self._turned_at)
                has_gap = now - unseen_since >= GAP_LIMITS * self._limit_seconds
                began = unseen_since if has_gap else self._clock()
            if callback is not None and (not place or frames[0].f_code is not _HANDLE_RUN):
                place = stack_text(frames, callback)  # unless the callback has just returned to the loop
            last = now
            del frames, callback

    def _judge(self, seconds: float, callback: FrameType | None, place: str) -> None:
        if callback is not None and seconds >= self._limit_seconds:
            self._on_stall(Stall(seconds, place))

    def _callback_of(self, frames: Sequence[FrameType]) -> FrameType | None:
        """Returns the outermost frame of the callback that runs, or None while the loop waits."""
        for frame, beneath in zip_longest(frames, frames[1:]):
            if frame.f_code is _HANDLE_RUN or (beneath is not None and beneath is self._beneath_callbacks):
                found: FrameType = frame
                return found
        return None


def stack_of(ident: int) -> list[FrameType]:
    """Returns the frames of another thread at one moment, innermost first. The list is empty when the thread has ended.

    All frames are collected by one call that runs no Python code, so that the other thread cannot go on meanwhile. A
    Python loop over `f_back` would let the other thread go on, and would then follow pointers of frames that have
    ended: CPython 3.11.7 crashes in PyFrame_GetBack. The garbage collector is off during the call, because its
    callbacks and finalizers are Python code.
    """
    frames: list[FrameType] = []
    innermost = map(itemgetter(ident), map(operator.call, (sys._current_frames,)))
    outwards = accumulate(chain(innermost, repeat("f_back")), getattr)
    # KeyError: there is no such thread. AttributeError: the outermost frame has None below it.
    with collector_off(), contextlib.suppress(KeyError, AttributeError):
        frames.extend(outwards)
    return frames[:-1]


def stack_text(frames: Sequence[FrameType], outermost: FrameType) -> str:
    """Returns `file:line function` of each frame from the first frame to `outermost`, FRAMES_SHOWN of them at most."""
    shown: list[str] = []
    for each in frames[:FRAMES_SHOWN]:
        path = "/".join(Path(each.f_code.co_filename).parts[-PARTS_OF_PATH_SHOWN:])
        shown.append(f"{path}:{each.f_lineno} {each.f_code.co_name}")
        if each is outermost:
            break
    return " < ".join(shown)


def make_loop_watch(loop: asyncio.AbstractEventLoop) -> LoopWatch:
    """Returns the watch of a server, which warns of long pauses by the wall clock. When a test has set
    CPU_LIMIT_VARIABLE, the watch goes by the CPU time and logs errors instead."""
    limit_ms = os.environ.get(CPU_LIMIT_VARIABLE)
    if limit_ms:
        return LoopWatch(loop, float(limit_ms) / 1000, _log_error, by_cpu=True)
    return LoopWatch(loop, WALL_LIMIT_SECONDS, _log_warning, by_cpu=False)


def _log_error(stall: Stall) -> None:
    log.error("one callback held the event loop for %d ms of CPU: %s", stall.seconds * 1000, stall.place)


def _log_warning(stall: Stall) -> None:
    log.warning("the event loop stood still for %d ms in %s", stall.seconds * 1000, stall.place)
