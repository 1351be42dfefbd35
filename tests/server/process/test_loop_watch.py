"""The watch reports each callback that holds the event loop, with its place and its CPU time, and reports no other
callback, on asyncio's loop and on uvloop."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from types import FrameType

import pytest
import uvloop

from compat_tests.harness import LOOP_WATCH
from magnetar.server.process import loop_watch
from magnetar.server.process.loop_watch import CPU_LIMIT_VARIABLE, GAP_LIMITS, LoopWatch, Stall, stack_of

LIMIT_SECONDS = 0.05
LONG_SECONDS = 6 * LIMIT_SECONDS
ROOT = Path(__file__).parents[3]


def burn(seconds: float) -> None:
    ends = time.thread_time() + seconds
    while time.thread_time() < ends:
        sum(range(1000))


async def timer_ran(loop: asyncio.AbstractEventLoop) -> None:
    """Returns when a timer has run that was due after the watch's next one."""
    ran = asyncio.Event()
    loop.call_later(LIMIT_SECONDS, ran.set)
    await ran.wait()


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.Loop], ids=["asyncio", "uvloop"])
def stalls_of(request: pytest.FixtureRequest) -> Callable[..., list[Stall]]:
    """Returns a function that runs a coroutine function under a watch, on either loop, and returns the stalls."""

    def run(body: Callable[[], Awaitable[None]], *, by_cpu: bool = True) -> list[Stall]:
        found: list[Stall] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            with LoopWatch(loop, LIMIT_SECONDS, found.append, by_cpu=by_cpu):
                await timer_ran(loop)
                await body()
                await timer_ran(loop)

        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())
        return found

    return run


def test_a_long_callback_is_named_once_with_its_time_and_place(stalls_of: Callable[..., list[Stall]]) -> None:
    async def body() -> None:
        asyncio.get_running_loop().call_soon(burn, LONG_SECONDS)
        await asyncio.sleep(0)

    (stall,) = stalls_of(body)
    assert LIMIT_SECONDS <= stall.seconds <= LONG_SECONDS + LIMIT_SECONDS
    assert "test_loop_watch.py" in stall.place
    assert " burn" in stall.place


def test_the_place_is_the_last_one_in_the_callbacks_own_code(stalls_of: Callable[..., list[Stall]]) -> None:
    """When the last sample is taken, nothing of the callback's Python code runs any more."""
    steps = chain(map(burn, [LONG_SECONDS]), map(time.sleep, [LONG_SECONDS]))

    async def body() -> None:
        asyncio.get_running_loop().call_soon(list, steps)
        await asyncio.sleep(0)

    (stall,) = stalls_of(body, by_cpu=False)
    assert " burn" in stall.place


def test_a_loop_that_turns_in_time_is_never_looked_at(
    stalls_of: Callable[..., list[Stall]], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def look() -> dict[int, FrameType]:
        looks.append("at the frames of all threads")
        return {}

    monkeypatch.setattr(sys, "_current_frames", look)

    async def body() -> None:
        for _ in range(10):
            await timer_ran(asyncio.get_running_loop())

    assert stalls_of(body) == []
    assert looks == []


@pytest.mark.slow
def test_a_call_that_never_gives_up_the_interpreter_is_found(
    stalls_of: Callable[..., list[Stall]], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampled = threading.Event()

    def sample(ident: int) -> list[FrameType]:
        frames = stack_of(ident)
        sampled.set()
        return frames

    monkeypatch.setattr(loop_watch, "stack_of", sample)
    rows = [{"number": number} for number in range(100_000)]
    began = time.thread_time()
    json.dumps(rows)
    copies = int(1 + 3 * GAP_LIMITS * LIMIT_SECONDS / (time.thread_time() - began))

    async def body() -> None:
        json.dumps(rows * copies)
        sampled.clear()
        sampled.wait()  # or the first sample may come when the callback has returned to the loop

    (stall,) = stalls_of(body)
    assert stall.seconds >= GAP_LIMITS * LIMIT_SECONDS
    assert " main" in stall.place


def test_many_short_callbacks_are_no_stall(stalls_of: Callable[..., list[Stall]]) -> None:
    """The callbacks run one after the other in one turn of the loop, and as steps of one task in many turns."""

    async def body() -> None:
        for _ in range(20):
            asyncio.get_running_loop().call_soon(burn, LIMIT_SECONDS / 10)
        for _ in range(20):
            burn(LIMIT_SECONDS / 10)
            await asyncio.sleep(0)

    assert stalls_of(body) == []


def test_callbacks_before_a_late_sample_do_not_count_for_the_callback_that_it_shows(
    stalls_of: Callable[..., list[Stall]], monkeypatch: pytest.MonkeyPatch
) -> None:
    last_began = threading.Event()

    def late_sample(ident: int) -> list[FrameType]:
        last_began.wait()  # as the watching thread waits for the interpreter after it has read the clock
        return stack_of(ident)

    monkeypatch.setattr(loop_watch, "stack_of", late_sample)

    def last() -> None:
        last_began.set()
        burn(LIMIT_SECONDS / 2)

    async def body() -> None:
        for _ in range(20):
            asyncio.get_running_loop().call_soon(burn, LIMIT_SECONDS / 10)
        asyncio.get_running_loop().call_soon(last)
        await asyncio.sleep(0)

    assert stalls_of(body) == []
    assert last_began.is_set()


def test_waiting_without_work_counts_by_the_wall_clock_alone(stalls_of: Callable[..., list[Stall]]) -> None:
    async def body() -> None:
        threading.Event().wait(LONG_SECONDS)

    assert stalls_of(body, by_cpu=True) == []
    (stall,) = stalls_of(body, by_cpu=False)
    assert stall.seconds >= LIMIT_SECONDS
    assert " body" in stall.place


def test_the_garbage_collector_is_left_out_of_cpu_time(stalls_of: Callable[..., list[Stall]]) -> None:
    """The collector runs in whatever code allocates, and visits the objects of all other code."""
    made: list[list[object]] = [[] for _ in range(1_000_000)]

    async def body() -> None:
        ends = time.thread_time() + LONG_SECONDS
        while time.thread_time() < ends:
            gc.collect()

    assert stalls_of(body) == []
    assert made


@pytest.mark.process
@pytest.mark.parametrize(("environment", "level"), [({}, "WARNING"), (LOOP_WATCH, "ERROR")])
def test_a_server_logs_what_held_its_loop(environment: dict[str, str], level: str) -> None:
    """The tests with real servers set this variable, and fail when the log has an ERROR line."""
    assert set(LOOP_WATCH) == {CPU_LIMIT_VARIABLE}
    program = textwrap.dedent("""
        import asyncio, os, signal, time
        from magnetar.server.process.running import run_app

        class App:
            async def start(self): ...
            async def stop(self): ...
            def ready_line(self): return "ready"
            def uses(self): return 0
            async def failed(self):
                await asyncio.sleep(0.3)
                ends = time.thread_time() + 2
                while time.thread_time() < ends: sum(range(1000))
                return "done"

        run_app(App(), log_level="INFO")
        """)
    without = {key: value for key, value in os.environ.items() if key != CPU_LIMIT_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**without, **environment}, capture_output=True, text=True
    )
    (line,) = [line for line in done.stderr.splitlines() if "magnetar.server.process.loop_watch" in line]
    assert f" {level} " in line
    assert " failed" in line


SAMPLES = 100
DEPTH = 30


async def suspends_at(depth: int) -> None:
    """Suspends below `depth` frames of coroutines."""
    if depth:
        await suspends_at(depth - 1)
    else:
        burn(0.001)
        await asyncio.sleep(0)


@pytest.mark.slow
def test_a_stack_is_that_of_one_moment() -> None:
    """Coroutines of the watched thread end and suspend all the time, which cuts their frames off from those below. A
    stack that is read while that goes on would end in the middle. The collector, which runs at almost every allocation
    here, lets the other thread go on each time."""
    ended, began = threading.Event(), threading.Event()

    def let_others_run(phase: str, _: dict[str, int]) -> None:
        if threading.get_ident() != thread.ident:
            ended.wait(0.0005)

    async def main() -> None:
        began.set()
        while not ended.is_set():
            await suspends_at(DEPTH)

    def run() -> None:
        asyncio.run(main())

    thread = threading.Thread(target=run)
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    thread.start()
    began.wait()
    try:
        sys.setswitchinterval(1e-6)
        gc.callbacks.append(let_others_run)
        gc.set_threshold(1)
        assert thread.ident is not None
        outermost = {stack_of(thread.ident)[-1].f_code.co_name for _ in range(SAMPLES)}
    finally:
        gc.callbacks.remove(let_others_run)
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
    assert outermost == {"_bootstrap"}
    assert gc.isenabled()
    assert stack_of(thread.ident) == []
