"""A bound on the bytes that all clients of one kind together make the server hold: output that they have not taken
(`maxMessageDispatchBufferSizeInMB`), or messages that they have not sent to the end.

Each client may make the server hold some megabytes, so many clients that stop in the middle could fill the memory.
When the bytes that are held for all of them exceed the budget, clients are cut off until the bytes of the rest fit,
beginning with the client that has done nothing for the longest time. A client that goes on, however slowly, is left
alone.

To count the bytes means to look at all clients. So the bytes are counted only by the caller's sweep, and whenever as
many bytes as one SHARES-th of the budget were added since the last count.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

SHARES = 8
"""The budget may be exceeded by one SHARES-th of its size before that is noticed."""


class BudgetedClient(Protocol):
    """The budget uses each client through this interface."""

    @property
    def held_bytes(self) -> int: ...

    def idle_since(self, now_s: float) -> float:
        """Returns the last time at which the client was seen to go on, or at which no bytes were held for it. The
        method must be called once in each count, because it may compare the bytes with those of the call before."""

    def cut_off_for_room(self) -> None: ...


class ByteBudget:
    """The bound for all clients of one kind."""

    __slots__ = ("_added_bytes", "_clients", "_max_bytes", "_now")

    def __init__(
        self, max_bytes: int, clients: Callable[[], Iterable[BudgetedClient]], now: Callable[[], float]
    ) -> None:
        """`max_bytes` of 0 or less means "no limit". `clients` returns all clients, and `now` the seconds of a
        monotonic clock."""
        self._max_bytes = max_bytes
        self._clients = clients
        self._now = now
        self._added_bytes = 0

    def added(self, size_bytes: int) -> None:
        """Called when `size_bytes` more bytes came to those that may have to be held."""
        self._added_bytes += size_bytes
        if self._added_bytes * SHARES >= self._max_bytes:
            self.count()

    def count(self) -> None:
        """Adds up the held bytes of all clients. If they exceed the budget, cuts off some of the clients that do
        nothing."""
        if self._max_bytes <= 0:
            return
        self._added_bytes = 0
        now_s = self._now()
        idle: list[tuple[float, int, int, BudgetedClient]] = []
        total = 0
        for number, each in enumerate(self._clients()):
            held = each.held_bytes
            since_s = each.idle_since(now_s)
            total += held
            if held and since_s < now_s:
                idle.append((since_s, number, held, each))
        if total <= self._max_bytes:
            return
        for _, _, held, client in sorted(idle):
            if total <= self._max_bytes:
                return
            client.cut_off_for_room()
            total -= held
