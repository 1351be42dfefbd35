"""How tests wait on the event loop for something that no event announces. No other module of tests sleeps."""

import asyncio
from collections.abc import Callable

DEADLINE_SECONDS = 120.0
EAGER_TURNS = 200
PAUSE_SECONDS = 0.001
MOMENT_SECONDS = 0.02


async def moment() -> None:
    """Pauses before the next look at something that other threads or processes change and do not tell. Whoever looks
    again and again sets a deadline; where the look is no coroutine, `until` does both."""
    await asyncio.sleep(MOMENT_SECONDS)


async def until(condition: Callable[[], object]) -> None:
    """Returns when the condition holds. Raises TimeoutError when that takes longer than any test should wait.

    At first the loop only gets turns, in which all that is in memory comes to rest. A condition that takes longer waits
    for a thread, a socket or a process, which gets on better while the loop pauses. In virtual time only a pause lets
    the time pass.
    """
    turns = 0
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0 if turns < EAGER_TURNS else PAUSE_SECONDS)
            turns += 1
