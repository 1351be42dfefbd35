"""A task goes on, whatever becomes of those who wait for it."""

import asyncio

import pytest

from magnetar.server.process.task_waits import ended_within
from tests.server.fakes import settle


async def test_the_wait_ends_with_the_task_or_with_the_time() -> None:
    gate = asyncio.Event()
    task = asyncio.ensure_future(gate.wait())
    assert not await ended_within(task, 0.001)
    waits = [asyncio.ensure_future(ended_within(task, 60)) for _ in range(2)]
    await settle()
    gate.set()
    assert await asyncio.gather(*waits) == [True, True]
    assert await ended_within(task, 60), "a task that has ended is not waited for"


async def test_neither_a_failure_nor_a_caller_that_is_cancelled_reaches_the_other_side() -> None:
    gate = asyncio.Event()

    async def fail() -> None:
        await gate.wait()
        raise ValueError("failed")

    task = asyncio.ensure_future(fail())
    waits = [asyncio.ensure_future(ended_within(task, 60)) for _ in range(2)]
    await settle()
    waits[0].cancel()
    await settle()
    assert waits[0].cancelled()
    assert not task.done()
    gate.set()
    assert await waits[1]
    with pytest.raises(ValueError, match="failed"):
        await task
