"""A bound on the bytes that all clients of one kind together make the server hold: output that they have not taken
(`maxMessageDispatchBufferSizeInMB`), or messages that they have not sent to the end.

Each client may make the server hold some megabytes, so many clients that stop in the middle could fill the memory.
When the bytes that are held for all of them exceed the budget, clients are cut off until the bytes of the rest fit,
beginning with the client that has done nothing for the longest time. A client that goes on, however slowly, is left
alone.

The bytes are counted by the caller's sweep, and whenever as many bytes as one SHARES-th of the budget were added since
the last count. A count looks only at the clients that held bytes at the last count or got some since: to look at ten
thousand clients takes more than 10 ms, and most of them hold nothing.
"""

from collections.abc import Callable
from typing import Protocol

SHARES = 8
"""The budget may be exceeded by one SHARES-th of its size before that is noticed."""


class BudgetedClient(Protocol):
    """The budget uses each client through this interface."""

    @property
    def held_bytes(self) -> int: ...

    def idle_since(self, now_s: float) -> float:
        """Returns the last time at which the client was seen to go on, or at which no bytes were held for it. The
        method must be called in each count while bytes are held, because it may compare the bytes with those of the
        call before."""

    def cut_off_for_room(self) -> None: ...


class ByteBudget:
    """The bound for all clients of one kind."""

    __slots__ = ("_added_bytes", "_counted_s", "_holding", "_max_bytes", "_now")

    def __init__(self, max_bytes: int, now: Callable[[], float]) -> None:
        """`max_bytes` of 0 or less means "no limit". `now` returns the seconds of a monotonic clock."""
        self._max_bytes = max_bytes
        self._now = now
        self._added_bytes = 0
        self._counted_s = 0.0
        self._holding: dict[BudgetedClient, float] = {}
        """The clients for which bytes may be held, each with the time of the last count before it became a member.
        Nothing was held for the client at that time."""

    def added(self, client: BudgetedClient, size_bytes: int) -> None:
        """Called when `size_bytes` more bytes came that may have to be held for a client."""
        self._holding.setdefault(client, self._counted_s)
        self._added_bytes += size_bytes
        if 0 < self._max_bytes <= self._added_bytes * SHARES:
            self.count()

    def left(self, client: BudgetedClient) -> None:
        """Called when a client is gone."""
        self._holding.pop(client, None)

    def held_bytes(self) -> int:
        """Returns the bytes that are held for all clients."""
        return sum(each.held_bytes for each in self._holding)

    def count(self) -> None:
        """Adds up the held bytes of all clients. If they exceed the budget, cuts off some of the clients that do
        nothing."""
        self._added_bytes = 0
        now_s = self._now()
        idle: list[tuple[float, int, int, BudgetedClient]] = []
        total = 0
        holding: dict[BudgetedClient, float] = {}
        for client, empty_s in self._holding.items():
            held = client.held_bytes
            since_s = max(client.idle_since(now_s), empty_s)
            if not held:
                continue
            if since_s < now_s:
                idle.append((since_s, len(holding), held, client))
            holding[client] = empty_s
            total += held
        self._holding, self._counted_s = holding, now_s
        if self._max_bytes <= 0:
            return
        for _, _, held, client in sorted(idle):
            if total <= self._max_bytes:
                return
            client.cut_off_for_room()
            total -= held
