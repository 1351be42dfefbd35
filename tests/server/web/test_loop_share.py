"""The web port's share of the loop: turns, their order, and that a call behaves as if nobody had cut it into steps."""

import asyncio
import random
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from magnetar.server.web.loop_share import NEW_CALL_EVERY, PATIENCE_SECONDS, SAVED_SECONDS_MAX, LoopShare
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay
from tests.waiting import until

T = TypeVar("T")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def walk(clock: Clock, name: str, seconds: float, steps: int, seen: list[str]) -> str:
    """A call of `steps` steps, each of which takes `seconds` on the clock."""
    for _ in range(steps):
        clock.now_s += seconds
        seen.append(name)
        await asyncio.sleep(0)
    return name


async def wrapped(call: Awaitable[T]) -> T:
    return await call


async def test_the_web_port_takes_no_more_time_than_others_have() -> None:
    clock, seen = Clock(), list[str]()
    share = LoopShare(AppendsUnderWay(), clock)
    others_s = 0.0

    async def others() -> None:
        nonlocal others_s
        while True:
            clock.now_s += 0.00002
            others_s += 0.00002
            assert len(seen) * 0.001 <= others_s + SAVED_SECONDS_MAX + 0.002, "and what was under way"
            await asyncio.sleep(0)

    busy = asyncio.ensure_future(others())
    calls = [share.run(walk(clock, str(number), 0.001, 10, seen)) for number in range(10)]
    done, _ = await asyncio.wait((busy, asyncio.gather(*map(wrapped, calls))), return_when=asyncio.FIRST_COMPLETED)
    assert busy not in done, busy.exception()
    busy.cancel()
    assert len(seen) == 100


async def time_passes(clock: Clock) -> None:
    while True:
        clock.now_s += 0.0001
        await asyncio.sleep(0)


async def test_steps_wait_in_order_and_urgent_ones_go_first() -> None:
    clock, seen = Clock(), list[str]()
    share = LoopShare(AppendsUnderWay(), clock)
    share.spend(0.02)  # the balance is negative for a while
    passing = asyncio.ensure_future(time_passes(clock))
    calls = [asyncio.ensure_future(wrapped(share.run(walk(clock, name, 0.01, 1, seen)))) for name in "abc"]
    calls.append(asyncio.ensure_future(wrapped(share.run(walk(clock, "urgent", 0.01, 1, seen), is_urgent=True))))
    await asyncio.gather(*calls)
    passing.cancel()
    assert seen == ["urgent", "a", "b", "c"]


async def test_a_long_call_that_has_begun_does_not_wait_behind_all_new_ones() -> None:
    clock, seen = Clock(), list[str]()
    share = LoopShare(AppendsUnderWay(), clock)
    passing = asyncio.ensure_future(time_passes(clock))
    long = asyncio.ensure_future(wrapped(share.run(walk(clock, "long", 0.01, 20, seen))))
    await until(lambda: "long" in seen)
    many = [asyncio.ensure_future(wrapped(share.run(walk(clock, "new", 0.01, 1, seen)))) for _ in range(100)]
    await long
    assert seen.count("new") < 10, "each of them has a second step, with which it has begun, too"
    await asyncio.gather(*many)
    passing.cancel()


async def test_calls_that_go_on_for_ever_keep_no_new_call_out() -> None:
    clock, seen = Clock(), list[str]()
    share = LoopShare(AppendsUnderWay(), clock)
    passing = asyncio.ensure_future(time_passes(clock))
    endless = [asyncio.ensure_future(wrapped(share.run(walk(clock, old, 0.01, 1_000_000, seen)))) for old in "abc"]
    await until(lambda: {*seen} == {*"abc"})
    before = len(seen)
    await share.run(walk(clock, "new", 0.01, 1, seen))
    assert seen.index("new") - before <= NEW_CALL_EVERY
    for task in (passing, *endless):
        task.cancel()


async def test_a_long_call_gets_on_beside_many_that_end_soon() -> None:
    """The page of /metrics of ten thousand topics has thousands of steps. While a hundred short calls were in progress
    all the time, the page had a hundredth of the steps, and was not ready in 30 s."""
    clock, seen = Clock(), list[str]()
    share = LoopShare(AppendsUnderWay(), clock)
    passing = asyncio.ensure_future(time_passes(clock))

    async def one_after_the_other(name: str) -> None:
        while True:
            await share.run(walk(clock, name, 0.01, 5, seen))

    many = [asyncio.ensure_future(one_after_the_other(f"short {number}")) for number in range(50)]
    await until(lambda: len({*seen}) == 50)
    before = len(seen)
    await share.run(walk(clock, "long", 0.01, 200, seen))
    steps = len(seen) - before
    assert steps < 200 * 4, "the oldest call has every second step but those of new calls"
    shorts = [seen.count(f"short {number}") for number in range(50)]
    assert min(shorts) > max(shorts) / 3, "the others have equal shares of what is left"
    for task in (passing, *many):
        task.cancel()


async def test_results_faults_and_cancellation_pass_as_without_it() -> None:
    share = LoopShare(AppendsUnderWay())
    ended: list[str] = []

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("hang")

    async def survive() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "?"

    assert await share.run(walk(Clock(), "x", 0, 3, [])) == "x"
    assert await share.run(survive()) == "timed out"
    with pytest.raises(ZeroDivisionError):
        await share.run(fail())
    hanging = asyncio.ensure_future(wrapped(share.run(hang())))
    await asyncio.sleep(0)
    share.spend(0.5)
    hanging.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hanging
    assert ended == ["hang"]


async def test_who_is_cancelled_while_waiting_for_a_turn_ends_and_keeps_nobody_from_theirs() -> None:
    share = LoopShare(AppendsUnderWay())
    share.spend(0.05)
    seen: list[str] = []
    waiting = [asyncio.ensure_future(wrapped(share.run(walk(Clock(), name, 0, 1, seen)))) for name in "ab"]
    await asyncio.sleep(0)
    waiting[0].cancel()
    assert await waiting[1] == "b"
    assert seen == ["b"]
    with pytest.raises(asyncio.CancelledError):
        await waiting[0]


async def test_one_step_runs_in_each_turn_of_the_loop() -> None:
    """However much time the balance has, the sockets are polled between two steps."""
    share = LoopShare(AppendsUnderWay(), Clock())
    turns, seen = 0, list[int]()

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def note_turns() -> None:
        for _ in range(5):
            seen.append(turns)
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    await asyncio.gather(*(wrapped(share.run(note_turns())) for _ in range(10)))
    counting.cancel()
    assert len(seen) == len({*seen}) == 50


async def test_no_step_runs_while_a_message_is_on_its_way() -> None:
    clock, appends, seen = Clock(), AppendsUnderWay(), list[str]()
    share = LoopShare(appends, clock)
    appends.begins()
    call = asyncio.ensure_future(wrapped(share.run(walk(clock, "call", 0, 1, seen))))
    urgent = share.run(walk(clock, "urgent", 0, 1, seen), is_urgent=True)
    assert await urgent == "urgent"
    assert share.is_ticking
    assert seen == ["urgent"], "urgent calls, lookups for example, do not wait for messages"
    appends.ends()
    assert await call == "call"


async def test_a_step_waits_for_messages_only_for_so_long() -> None:
    """On a busy broker some message is always on its way."""
    clock, appends, seen = Clock(), AppendsUnderWay(), list[str]()
    share = LoopShare(appends, clock)
    appends.begins()
    call = asyncio.ensure_future(wrapped(share.run(walk(clock, "call", 0, 2, seen))))
    for step in (1, 2):
        await until(lambda: share.is_ticking)
        assert len(seen) == step - 1
        clock.now_s += PATIENCE_SECONDS
        await until(lambda: len(seen) == step)  # noqa: B023
    clock.now_s += PATIENCE_SECONDS
    assert await call == "call"


@pytest.mark.parametrize("seed", range(3))
async def test_a_message_waits_for_one_step_and_then_for_one_in_each_patience(seed: int) -> None:
    """However many calls wait, and however long messages and steps take. With the bound on the length of a step
    (`test_web_steps`), this bounds what all calls together add to the latency of publishing."""
    chance, clock, appends, seen = random.Random(seed), Clock(), AppendsUnderWay(), list[str]()
    share = LoopShare(appends, clock)

    async def call() -> None:
        while True:
            clock.now_s += chance.uniform(0.0001, 0.001)
            seen.append("step")
            await asyncio.sleep(0)

    calls = [asyncio.ensure_future(wrapped(share.run(call()))) for _ in range(50)]
    while len(seen) < 100:
        for _ in range(chance.randint(0, 3)):  # turns between two messages
            clock.now_s += 0.0001
            await asyncio.sleep(0)
        before, sent_s = len(seen), clock.now_s
        appends.begins()
        for _ in range(chance.randint(1, 10)):  # turns until the message is answered
            clock.now_s += chance.uniform(0, 0.0005)
            await asyncio.sleep(0)
        appends.ends()
        assert len(seen) - before <= 1 + (clock.now_s - sent_s) / PATIENCE_SECONDS
    for task in calls:
        task.cancel()


async def test_nothing_ticks_while_nobody_waits() -> None:
    share = LoopShare(AppendsUnderWay())
    await share.run(walk(Clock(), "x", 0, 3, []))
    assert not share.is_ticking
    share.spend(0.01)
    waiting = asyncio.ensure_future(wrapped(share.run(walk(Clock(), "x", 0, 1, []))))
    await asyncio.sleep(0)
    assert share.is_ticking
    await waiting
    await until(lambda: not share.is_ticking)
