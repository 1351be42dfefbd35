"""While work is under way, all callers that ask for its result share one run of it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from magnetar.server.process.shared_result import SharedResult
from tests.waiting import until


class Work:
    """Work whose runs wait until the test lets them go. Each run returns its number."""

    def __init__(self) -> None:
        self.runs: list[asyncio.Future[None]] = []

    async def __call__(self) -> int:
        number = len(self.runs)
        self.runs.append(asyncio.get_running_loop().create_future())
        await self.runs[number]
        return number


async def asked(shared: SharedResult[int], work: Callable[[], Awaitable[int]], times: int) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(shared.get(work)) for _ in range(times)]
    await asyncio.sleep(0)
    return tasks


async def test_who_asks_while_it_is_made_gets_the_same_and_who_asks_later_gets_it_anew() -> None:
    shared, work = SharedResult[int](), Work()
    tasks = await asked(shared, work, 5)
    assert len(work.runs) == 1
    work.runs[0].set_result(None)
    assert await asyncio.gather(*tasks) == [0] * 5
    (later,) = await asked(shared, work, 1)
    work.runs[1].set_result(None)
    assert await later == 1


@pytest.mark.parametrize("fault", ["fails", "is cancelled"])
async def test_where_the_one_who_makes_it_gives_up_another_one_does(fault: str) -> None:
    shared, work = SharedResult[int](), Work()
    first, second, third = await asked(shared, work, 3)
    if fault == "fails":
        work.runs[0].set_exception(ZeroDivisionError())
    else:
        first.cancel()
    with pytest.raises((ZeroDivisionError, asyncio.CancelledError)):
        await first
    await until(lambda: len(work.runs) == 2)
    work.runs[1].set_result(None)
    assert list(await asyncio.gather(second, third)) == [1, 1]


async def test_one_who_waits_may_leave() -> None:
    shared, work = SharedResult[int](), Work()
    first, second = await asked(shared, work, 2)
    second.cancel()
    await asyncio.sleep(0)
    work.runs[0].set_result(None)
    assert await first == 0
    assert second.cancelled()
