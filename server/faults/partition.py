"""A network that does not reach the bookie: requests wait, neither answered nor refused, until it is healed."""

import asyncio
from collections.abc import Callable


class Partition:
    """The way to the bookie, which a test cuts off and heals. Requests that come while the bookie is cut off are sent
    when it is healed, writes in their order and before any read, as TCP would send them again.

    What waits is bounded as it is without a fault: a broker stops reading from its clients when too much that they
    published is not answered, and a reader waits for each of its reads.
    """

    def __init__(self) -> None:
        self._healed = asyncio.Event()
        self._healed.set()
        self._waiting: list[Callable[[], None]] = []

    def cut_off(self) -> None:
        self._healed.clear()

    def heal(self) -> None:
        """Sends what waits. Has no effect when the bookie is not cut off."""
        waiting, self._waiting = self._waiting, []
        for send in waiting:
            send()
        self._healed.set()

    def pass_on(self, send: Callable[[], None]) -> None:
        """Calls `send` now, or when the bookie is healed."""
        if self._healed.is_set():
            send()
        else:
            self._waiting.append(send)

    async def reached(self) -> None:
        """Returns when requests reach the bookie."""
        await self._healed.wait()
