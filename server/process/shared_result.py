"""One piece of work for all who ask for its result while it is under way."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedResult(Generic[T]):
    """Bounds what many callers at once may cost: the result is made once, and held once. It may have been begun a
    little before a caller asked."""

    def __init__(self) -> None:
        self._under_way: asyncio.Future[T] | None = None

    async def get(self, make: Callable[[], Awaitable[T]]) -> T:
        """Raises what `make` raises, to the caller whose work it is; the others then do it themselves."""
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
