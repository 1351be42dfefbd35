"""A coroutine that is started eagerly runs to its first wait at once; its results, waits, errors and cancellation are
as in a task."""

import asyncio

import pytest

from magnetar.storage.bookie.eager_start import run_eagerly


async def test_what_never_waits_is_over_at_once_and_makes_no_task() -> None:
    steps: list[str] = []

    async def inner() -> str:
        return "read"

    async def work() -> None:
        steps.append(await inner())

    assert run_eagerly(asyncio.get_running_loop(), work()) is None
    assert steps == ["read"]


async def test_what_waits_goes_on_in_a_task() -> None:
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    steps: list[object] = []

    async def work() -> None:
        steps.append("begun")
        steps.append(await first)
        await asyncio.sleep(0)
        steps.append(await asyncio.shield(second))

    task = run_eagerly(loop, work())
    assert task is not None
    assert steps == ["begun"]
    first.set_result(1)
    second.set_result(2)
    await task
    assert steps == ["begun", 1, 2]


async def test_errors_come_out_where_they_happen() -> None:
    loop = asyncio.get_running_loop()
    failing: asyncio.Future[None] = loop.create_future()
    caught: list[str] = []

    async def at_once() -> None:
        raise ValueError("at once")

    async def later() -> None:
        try:
            await failing
        except OSError as error:
            caught.append(str(error))
        raise ValueError("later")

    with pytest.raises(ValueError, match="at once"):
        run_eagerly(loop, at_once())
    task = run_eagerly(loop, later())
    failing.set_exception(OSError("disk"))
    assert task is not None
    with pytest.raises(ValueError, match="later"):
        await task
    assert caught == ["disk"]


@pytest.mark.parametrize("steps_before", [0, 1, 2])
async def test_a_cancelled_task_cleans_up(steps_before: int) -> None:
    loop = asyncio.get_running_loop()
    waits_for: asyncio.Future[None] = loop.create_future()
    cleaned: list[bool] = []

    async def work() -> None:
        try:
            await waits_for
        finally:
            cleaned.append(True)

    task = run_eagerly(loop, work())
    assert task is not None
    for _ in range(steps_before):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.sleep(0)
    assert cleaned == [True]


async def test_a_future_that_is_done_before_the_task_begins_is_seen() -> None:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[int] = loop.create_future()
    found: list[int] = []

    async def work() -> None:
        found.append(await future)

    task = run_eagerly(loop, work())
    future.set_result(7)
    assert task is not None
    await task
    assert found == [7]
