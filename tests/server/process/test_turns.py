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
