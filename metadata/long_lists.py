"""Sorts long lists of names on the event loop. A list of 600,000 names takes most of a second to sort, and `list.sort`
never gives up the interpreter, not even on a thread of its own."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from operator import le

SORTED_AT_ONCE = 10_000
"""How many names are sorted before other tasks may run; this takes a few milliseconds."""
LOOKED_AT_AT_ONCE = 5_000
"""How many names are compared with their neighbours, or put into their parts, before other tasks may run."""
PART_SIZE = 4_000
"""About how many names a part has. Parts are sorted one by one."""
SAMPLES_PER_PART = 8
"""How many names decide where a part ends. With more of them, the parts differ less in size."""


async def sorted_in_portions(names: Sequence[str]) -> list[str]:
    """Returns the names sorted, as a new list. Lets other tasks run in between if there are many.

    The names are put into parts, so that every name is greater than all names of the parts before, and the parts are
    sorted one by one.
    """
    if len(names) <= SORTED_AT_ONCE:
        return sorted(names)
    if await _are_sorted(names):
        return list(names)
    samples = sorted(names[:: max(1, PART_SIZE // SAMPLES_PER_PART)])
    pivots = samples[SAMPLES_PER_PART::SAMPLES_PER_PART]
    parts: list[list[str]] = [[] for _ in range(len(pivots) + 1)]
    for start in range(0, len(names), LOOKED_AT_AT_ONCE):
        await asyncio.sleep(0)
        for name in names[start : start + LOOKED_AT_AT_ONCE]:
            parts[bisect_right(pivots, name)].append(name)
    result: list[str] = []
    since_turn = 0
    for part in parts:
        since_turn += len(part)
        if since_turn > SORTED_AT_ONCE:
            since_turn = 0
            await asyncio.sleep(0)
        part.sort()
        result += part
    return result


async def _are_sorted(names: Sequence[str]) -> bool:
    for start in range(0, len(names), LOOKED_AT_AT_ONCE):
        await asyncio.sleep(0)
        some = names[start : start + LOOKED_AT_AT_ONCE + 1]
        if not all(map(le, some, some[1:])):
            return False
    return True
