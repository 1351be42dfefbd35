"""Long lists are sorted in portions, between which other tasks run."""

import asyncio
import random

import pytest

from magnetar.metadata.long_lists import SORTED_AT_ONCE, sorted_in_portions

MANY = 20 * SORTED_AT_ONCE


@pytest.mark.parametrize("count", [0, 1, SORTED_AT_ONCE, SORTED_AT_ONCE + 1, MANY])
@pytest.mark.parametrize("order", ["shuffled", "sorted", "reversed", "one name", "few names"])
async def test_the_result_is_the_sorted_list(count: int, order: str) -> None:
    names = [f"parts-{number // 1000}-partition-{number % 1000}" for number in range(count)]
    if order == "shuffled":
        random.Random(count).shuffle(names)
    elif order == "sorted":
        names.sort()
    elif order == "reversed":
        names.sort(reverse=True)
    else:
        names = [str(number % (1 if order == "one name" else 7)) for number in range(count)]
    before = list(names)
    assert await sorted_in_portions(names) == sorted(names)
    assert names == before, "the caller's list stays as it was"


async def test_other_tasks_run_while_a_long_list_is_sorted() -> None:
    names = [str(number) for number in range(MANY)]
    random.Random(1).shuffle(names)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count())
    await sorted_in_portions(names)
    counting.cancel()
    assert turns > MANY // SORTED_AT_ONCE
