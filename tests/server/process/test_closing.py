"""Parts are closed in order, and a part that hangs does not keep the others from being closed."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

from magnetar.server.process.closing import close_within


class Parts:
    """Parts that note their end, in a stack."""

    def __init__(self) -> None:
        self.stack = AsyncExitStack()
        self.ended: list[str] = []

    def add(self, name: str, *, hangs: bool = False) -> None:
        self.stack.push_async_callback(partial(self._close, name, hangs))

    async def _close(self, name: str, hangs: bool) -> None:
        if hangs:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)
        self.ended.append(name)


async def test_all_parts_are_closed_the_last_first() -> None:
    parts = Parts()
    for name in "abc":
        parts.add(name)
    assert await close_within(parts.stack, 60)
    assert parts.ended == ["c", "b", "a"]


async def test_parts_that_hang_are_cut_off_at_the_deadline_and_the_others_are_closed() -> None:
    parts = Parts()
    for name in "abcd":
        parts.add(name, hangs=name in "bd")
    async with asyncio.timeout(30):
        assert not await close_within(parts.stack, 0.01)
    assert parts.ended == ["c", "a"]


async def test_the_error_of_a_part_is_raised_after_the_others_were_closed() -> None:
    parts = Parts()
    parts.add("a")

    async def fail() -> None:
        raise OSError("broken")

    parts.stack.push_async_callback(fail)
    with pytest.raises(OSError, match="broken"):
        await close_within(parts.stack, 60)
    assert parts.ended == ["a"]
