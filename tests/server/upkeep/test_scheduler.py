"""The one timer of upkeep, in virtual time."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import pytest

from magnetar.server.process.turns import PORTION_SECONDS
from magnetar.server.upkeep.scheduler import VISIT_SECONDS, Job, Scheduler
from tests.server.topics.scene import in_virtual_time, pass_time


def scheduler(*jobs: Job[str], topics: tuple[str, ...] = ("a", "b")) -> Scheduler[str]:
    loop = asyncio.get_running_loop()
    made = Scheduler(lambda: topics, jobs, clock_ms=lambda: 7, now=loop.time)
    made.start()
    return made


@in_virtual_time
async def test_each_job_visits_every_topic_at_its_own_interval() -> None:
    visits: list[str] = []

    def visit(name: str, topic: str, now_ms: int) -> None:
        assert now_ms == 7
        visits.append(name + topic)

    upkeep = scheduler(
        Job("often", 2, lambda topic, now_ms: visit("o", topic, now_ms)),
        Job("seldom", 5, lambda topic, now_ms: visit("s", topic, now_ms)),
    )
    await pass_time(1.9)
    assert visits == []
    await pass_time(3.2)
    assert visits == ["oa", "ob", "oa", "ob", "sa", "sb"]
    await upkeep.close()
    await pass_time(20)
    assert len(visits) == 6


@in_virtual_time
async def test_a_slow_round_is_not_overtaken_and_holds_up_no_other_job() -> None:
    begun: list[str] = []
    quick: list[str] = []

    async def slow(topic: str, now_ms: int) -> None:
        begun.append(topic)
        await pass_time(VISIT_SECONDS - 1)

    upkeep = scheduler(Job("slow", 1, slow), Job("quick", 1, lambda topic, now_ms: quick.append(topic)))
    await pass_time(3.5)
    assert begun == ["a"]
    assert quick == ["a", "b"] * 3
    await pass_time(2 * VISIT_SECONDS - 1.5)
    assert begun == ["a", "b", "a"]
    await upkeep.close()


async def test_one_job_does_a_portion_in_each_turn_of_the_loop() -> None:
    """The rounds of all jobs begin together, once in a minute. Each visit takes longer than a portion here."""
    turn, seen = 0, list[tuple[int, str]]()

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def visit(name: str) -> Callable[[int, int], None]:
        def visit_topic(topic: int, now_ms: int) -> None:
            seen.append((turn, name))
            ends_s = time.monotonic() + PORTION_SECONDS
            while time.monotonic() < ends_s:
                continue

        return visit_topic

    jobs = [Job(name, 3600, visit(name)) for name in "abc"]
    upkeep = Scheduler(lambda: range(20), [*jobs], clock_ms=lambda: 7)
    counting = asyncio.ensure_future(count_turns())
    await asyncio.gather(*map(upkeep.run, "abc"))
    counting.cancel()
    assert len({turn for turn, _ in seen}) == len(seen) == 60
    assert {name for _, name in seen[:6]} == {*"abc"}, "the jobs take turns"


@in_virtual_time
async def test_one_topic_that_takes_long_holds_up_no_other_and_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    gate = asyncio.Event()
    visits: Counter[str] = Counter()

    async def visit(topic: str, now_ms: int) -> None:
        visits[topic] += 1
        if topic == "a":
            await gate.wait()

    upkeep = scheduler(Job("job", 1, visit), topics=("a", "b", "c"))
    await pass_time(VISIT_SECONDS + 20)
    assert visits["a"] == 1, "a visit that changes the topic is neither cut off nor begun twice"
    assert visits["b"] == visits["c"] >= 15
    (told,) = [record.getMessage() for record in caplog.records]
    assert told.startswith("a: job takes more than")
    gate.set()
    await pass_time(3)
    assert visits["a"] >= 3
    await upkeep.close()


@in_virtual_time
async def test_closing_ends_a_visit_that_is_late() -> None:
    ended: list[str] = []

    async def visit(topic: str, now_ms: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(topic)

    upkeep = scheduler(Job("job", 1, visit))
    await pass_time(1.5 * VISIT_SECONDS)
    await upkeep.close()
    assert ended == ["a", "b"]


@in_virtual_time
async def test_one_topic_s_failure_is_its_own() -> None:
    seen: list[str] = []

    def visit(topic: str, now_ms: int) -> None:
        seen.append(topic)
        if topic == "a":
            raise ValueError("broken")

    upkeep = scheduler(Job("job", 1, visit))
    await upkeep.run("job")
    assert seen == ["a", "b"]
    await upkeep.close()
