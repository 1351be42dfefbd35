"""Encodes answers as JSON, large ones in parts, so that the event loop runs other tasks in between."""

from itertools import chain, islice
from typing import Any

import orjson

from magnetar.server.process.turns import in_portions, in_slices

PART_VALUES_MAX = 1000
"""The largest number of values that are encoded in one step, which takes well under a millisecond."""

CONTAINERS = (dict, list, tuple)


async def encoded_parts(value: Any) -> list[bytes]:
    """Returns the parts whose concatenation `encoded` returns. The parts of a list are not joined: the list of all
    topics of a namespace may have tens of megabytes, and already to copy them holds the loop for too long."""
    if not isinstance(value, list | tuple) or weight(value, PART_VALUES_MAX) < PART_VALUES_MAX:
        return [await encoded(value)]
    parts = [b"["]
    async for part in _members(value):
        if len(parts) > 1:
            parts.append(b",")
        parts.append(part)
    parts.append(b"]")
    return parts


async def encoded(value: Any) -> bytes:
    """Returns the value as orjson encodes it. Keys may be other values than strings. Raises TypeError for a value that
    orjson cannot encode."""
    if weight(value, PART_VALUES_MAX) < PART_VALUES_MAX:
        return _dumps(value)
    if isinstance(value, dict):
        parts: list[bytes] = []
        async for name, member in in_portions(value.items()):
            key = _dumps({name: None})[1:-5]
            parts.append(key + await encoded(member))
        return b"{%b}" % b",".join(parts)
    if isinstance(value, list | tuple):
        return b"[%b]" % b",".join([part async for part in _members(value)])
    return _dumps(value)


async def _members(values: "list[Any] | tuple[Any, ...]") -> Any:
    """Yields the encoded members of a list, without the list's brackets. A large member is yielded by itself; small
    members are yielded together, PART_VALUES_MAX values at most."""
    run: list[Any] = []
    left = PART_VALUES_MAX
    start = 0
    async for some in in_slices(values, PART_VALUES_MAX):  # a list that begins with texts mostly has nothing else
        if not all(type(each) is str for each in some):
            break
        yield _dumps(some)[1:-1]
        start += len(some)
    async for member in in_portions(values[start:]):
        size = weight(member, PART_VALUES_MAX)
        if size >= left and run:
            yield _dumps(run)[1:-1]
            run, left = [], PART_VALUES_MAX
        if size >= PART_VALUES_MAX:
            yield await encoded(member)
        else:
            run.append(member)
            left -= size
    if run:
        yield _dumps(run)[1:-1]


def weight(value: Any, most: int) -> int:
    """Returns how many values a value holds, itself included, but at most `most`, because counting stops there.
    The function does no I/O."""
    counted, level = 0, [value]
    while level and counted < most:
        counted += len(level)
        inner = chain.from_iterable(
            each.values() if type(each) is dict else each for each in level if type(each) in CONTAINERS
        )
        level = list(islice(inner, most - counted)) if counted < most else []
    return counted


def _dumps(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)
