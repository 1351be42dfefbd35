"""A lock that is made when it is needed first, because a broker has many topics and most of them are idle."""

import asyncio


class LazyLock:
    """The base of a class whose calls run one at a time, under `_lock`. `__init__` of the class sets `_lock_made` to
    None."""

    __slots__ = ("_lock_made",)

    _lock_made: asyncio.Lock | None

    @property
    def _lock(self) -> asyncio.Lock:
        if self._lock_made is None:
            self._lock_made = asyncio.Lock()
        return self._lock_made
