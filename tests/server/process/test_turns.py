"""Work in portions lets other tasks run when a portion has used up its time."""

import asyncio
from types import SimpleNamespace

import pytest

from magnetar.server.process import turns


async def test_items_in_portions_let_others_run_when_a_portion_has_taken_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 0.0
    monkeypatch.setattr(turns, "time", SimpleNamespace(monotonic=lambda: now_s))
    ran, taken = list[int](), list[int]()

    async def other() -> None:
        while True:
            ran.append(len(taken))
            await asyncio.sleep(0)

    others = asyncio.ensure_future(other())
    async for number in turns.in_portions(range(12)):
        taken.append(number)
        now_s += turns.PORTION_SECONDS / 4
    others.cancel()
    assert ran == [4, 8, 12]
    assert taken == list(range(12))


async def test_work_is_done_for_each_of_many_items_for_some_of_them_at_once() -> None:
    under_way, most, done = 0, 0, list[int]()

    async def work(item: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        done.append(item)

    tasks_before = len(asyncio.all_tasks())
    all_work = asyncio.ensure_future(turns.for_each(range(1_000), work, at_once=3))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) - tasks_before == 4
    await all_work
    assert (most, sorted(done)) == (3, list(range(1_000)))


async def test_the_first_error_is_raised_after_the_work_was_done_for_all_items() -> None:
    begun = []

    async def work(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(0)
        if item >= 3:
            raise ValueError(item)

    with pytest.raises(ValueError, match="3"):
        await turns.for_each(range(10), work, at_once=2)
    assert begun == list(range(10))


async def test_a_deadline_ends_the_work_of_very_many_items_at_once() -> None:
    begun = 0

    async def work(_: int) -> None:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(turns.for_each(range(1_000_000), work, at_once=64), 0.01)
    assert begun == 64
