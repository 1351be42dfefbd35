"""Callers at the same time share a result that is not older than their calls."""

import asyncio

import pytest

from magnetar.server.process.fresh_results import FreshResults
from tests.waiting import until


class Making:
    """Makes results, each of which waits until the test lets it go."""

    def __init__(self) -> None:
        self.gates: list[asyncio.Future[str]] = []
        self.results = FreshResults(self.make)

    async def make(self, key: str) -> str:
        gate: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        return f"{key} {await gate}"

    def ask(self, key: str = "k") -> "asyncio.Task[str]":
        return asyncio.ensure_future(self.results.get(key))

    async def begun(self, count: int) -> None:
        await until(lambda: len(self.gates) >= count)


async def test_who_comes_while_a_result_is_made_shares_the_next_one() -> None:
    making = Making()
    first = making.ask()
    await making.begun(1)
    later = [making.ask() for _ in range(5)]
    other = making.ask("other")
    await making.begun(2)
    making.gates[1].set_result("at once")
    assert await other == "other at once", "keys do not wait for each other"
    making.gates[0].set_result("old")
    await making.begun(3)
    making.gates[2].set_result("new")
    assert await first == "k old"
    assert await asyncio.gather(*later) == ["k new"] * 5
    assert len(making.gates) == 3
    again = making.ask()
    await making.begun(4)
    making.gates[3].set_result("newest")
    assert await again == "k newest"


async def test_a_failure_reaches_who_shares_it_and_nobody_else() -> None:
    making = Making()
    first = making.ask()
    await making.begun(1)
    later = making.ask()
    making.gates[0].set_exception(ValueError("lost"))
    with pytest.raises(ValueError, match="lost"):
        await first
    await making.begun(2)
    making.gates[1].set_result("new")
    assert await later == "k new"


async def test_a_caller_who_gives_up_does_not_stop_the_others() -> None:
    making = Making()
    first = making.ask()
    await making.begun(1)
    gives_up, stays = making.ask(), making.ask()
    await asyncio.sleep(0)
    first.cancel()
    gives_up.cancel()
    making.gates[0].set_result("old")
    await making.begun(2)
    making.gates[1].set_result("new")
    assert await stays == "k new"
