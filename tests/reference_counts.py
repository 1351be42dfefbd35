"""Shows that objects die by their reference counts alone, with the garbage collector off."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.waiting import moment

WAIT_SECONDS = 10
"""How long a loop and the kernel may still take before an object can die."""


@contextmanager
def collector_off() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def living(*kinds: type) -> list[Any]:
    """Returns all living objects of exactly these types."""
    return [each for each in gc.get_objects() if type(each) in kinds]


async def all_dead(*kinds: type) -> None:
    """Returns when no object of these types is left. Raises AssertionError with the chain of references that keeps one
    of them alive."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + WAIT_SECONDS
    while living(*kinds):
        if loop.time() > deadline:
            left = living(*kinds)
            referrers = [f"{type(each).__name__} {str(each)[:150]}" for each in gc.get_referrers(left[0])]
            raise AssertionError(f"{len(left)} of {type(left[0])} are left, held by {referrers}")
        await moment()
