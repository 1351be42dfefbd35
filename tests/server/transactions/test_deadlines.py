"""Transactions time out on time and once, those that ended do not, and many do not hold up the loop."""

from random import Random

from magnetar.server.transactions.deadlines import DUE_AT_ONCE, TICK_SECONDS, Deadlines
from tests.server.topics.scene import in_virtual_time, pass_time


@in_virtual_time
async def test_each_is_due_in_its_tick_and_once() -> None:
    due: list[int] = []
    deadlines = Deadlines(due.append)
    deadlines.add(1, 5.0)
    deadlines.add(2, 0.5)
    deadlines.add(3, -1.0)
    await pass_time(TICK_SECONDS)
    assert due == [3]
    await pass_time(0.4 - TICK_SECONDS)
    assert due == [3]
    await pass_time(0.1 + TICK_SECONDS)
    assert due == [3, 2]
    await pass_time(10.0)
    assert due == [3, 2, 1]
    assert len(deadlines) == 0


@in_virtual_time
async def test_what_ended_in_time_is_forgotten() -> None:
    due: list[int] = []
    deadlines = Deadlines(due.append)
    for least in range(10):
        deadlines.add(least, 1.0)
    for least in range(0, 10, 2):
        deadlines.discard(least)
    deadlines.discard(77)
    deadlines.add(4, 3.0)
    await pass_time(2.0)
    assert sorted(due) == [1, 3, 5, 7, 9]
    await pass_time(2.0)
    assert sorted(due) == [1, 3, 4, 5, 7, 9]


@in_virtual_time
async def test_many_that_are_due_at_once_come_in_portions() -> None:
    portions: list[int] = []
    due: list[int] = []
    deadlines = Deadlines(due.append)
    run = deadlines._run

    def counted() -> None:
        before = len(due)
        run()
        portions.append(len(due) - before)

    deadlines._run = counted  # type: ignore[method-assign]
    for least in range(3 * DUE_AT_ONCE + 1):
        deadlines.add(least, 1.0)
    await pass_time(2.0)
    assert sorted(due) == list(range(3 * DUE_AT_ONCE + 1))
    assert max(portions) == DUE_AT_ONCE


@in_virtual_time
async def test_random_deadlines_are_those_of_a_plain_list() -> None:
    rng = Random(5)
    due: list[int] = []
    deadlines = Deadlines(due.append)
    expected: dict[int, float] = {}
    now = 0.0
    for least in range(2_000):
        seconds = rng.choice([0.0, 0.2, 3.0, 7_000.0]) * rng.random()
        deadlines.add(least, seconds)
        expected[least] = now + seconds
        if rng.random() < 0.3:
            gone = rng.choice(list(expected))
            deadlines.discard(gone)
            del expected[gone]
        if rng.random() < 0.01:
            await pass_time(0.5)
            now += 0.5
            for each in due:
                expected.pop(each, None)
            assert not [each for each, at in expected.items() if at < now - 2 * TICK_SECONDS]
    left = sorted(expected)
    due.clear()
    await pass_time(8_000.0)
    assert sorted(due) == left


@in_virtual_time
async def test_after_the_close_nothing_times_out() -> None:
    due: list[int] = []
    deadlines = Deadlines(due.append)
    deadlines.add(1, 1.0)
    deadlines.close()
    await pass_time(5.0)
    assert due == []
