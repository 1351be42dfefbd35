"""Does a piece of work once for all callers who ask for its result while it is under way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedResult(Generic[T]):
    """Bounds the cost of many callers at the same time: the result is made once and kept in memory once. The work may
    have begun shortly before a caller asked, so the result may be slightly older than the request."""

    def __init__(self) -> None:
        self._under_way: asyncio.Future[T] | None = None

    async def get(self, make: Callable[[], Awaitable[T]]) -> T:
        """Returns the result of the work that is under way, or calls `make` to do the work when no work is under way.
        Raises the errors of `make`. If `make` fails, only its caller gets the error; each waiting caller tries
        again."""
        while self._under_way is not None:
            others = self._under_way
            await asyncio.wait((others,))
            if not others.cancelled():
                return others.result()
        ours: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._under_way = ours
        try:
            result = await make()
        except BaseException:
            ours.cancel()
            raise
        finally:
            self._under_way = None
        ours.set_result(result)
        return result
