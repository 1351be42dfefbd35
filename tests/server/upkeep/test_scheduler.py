"""The one timer of upkeep, in virtual time."""

import asyncio
from collections.abc import Awaitable

from server.upkeep.scheduler import Job, Scheduler
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
    gate = asyncio.Event()
    begun: list[str] = []
    quick: list[str] = []

    def slow(topic: str, now_ms: int) -> Awaitable[None]:
        begun.append(topic)
        return wait()

    async def wait() -> None:
        await gate.wait()

    upkeep = scheduler(Job("slow", 1, slow), Job("quick", 1, lambda topic, now_ms: quick.append(topic)))
    await pass_time(3.5)
    assert begun == ["a"]
    assert quick == ["a", "b"] * 3
    gate.set()
    await pass_time(1)
    assert begun == ["a", "b", "a", "b"]
    gate.clear()
    await upkeep.close()


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
