"""A bound on the output that all clients together have not taken yet (`maxMessageDispatchBufferSizeInMB`).

Each connection may have some megabytes waiting, so many clients that do not read could fill the memory. When the output
that waits for all of them exceeds the budget, connections are cut off until the output of the rest fits, beginning with
the connection that has taken nothing for the longest time. A client that takes its output, however slowly, is left
alone.

To count the waiting output means to look at all connections. So the output is counted only by the sweep, and whenever
as many bytes as one SHARES-th of the budget were sent since the last count.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

SHARES = 8
"""The budget may be exceeded by one SHARES-th of its size before that is noticed."""


class BudgetedOutput(Protocol):
    """The budget uses each connection through this interface."""

    @property
    def unsent_bytes(self) -> int: ...

    def idle_since(self, now_s: float) -> float:
        """Returns the last time at which the client was seen to have taken output, or at which no output waited. The
        method must be called once in each count, because it compares the output with that of the call before."""

    def cut_off_for_room(self) -> None: ...


class OutputBudget:
    """The bound for all connections of a broker."""

    __slots__ = ("_connections", "_max_bytes", "_now", "_sent_since")

    def __init__(
        self, max_bytes: int, connections: Callable[[], Iterable[BudgetedOutput]], now: Callable[[], float]
    ) -> None:
        """`max_bytes` of 0 or less means "no limit". `connections` returns all open connections, and `now` the seconds
        of a monotonic clock."""
        self._max_bytes = max_bytes
        self._connections = connections
        self._now = now
        self._sent_since = 0

    def sent(self, size_bytes: int) -> None:
        """Called when `size_bytes` more bytes were handed to a transport."""
        self._sent_since += size_bytes
        if self._sent_since * SHARES >= self._max_bytes:
            self.count()

    def count(self) -> None:
        """Adds up the waiting output of all clients. If it exceeds the budget, cuts off some of the clients that take
        nothing."""
        if self._max_bytes <= 0:
            return
        self._sent_since = 0
        now_s = self._now()
        idle: list[tuple[float, int, int, BudgetedOutput]] = []
        total = 0
        for number, each in enumerate(self._connections()):
            unsent = each.unsent_bytes
            since_s = each.idle_since(now_s)
            total += unsent
            if unsent and since_s < now_s:
                idle.append((since_s, number, unsent, each))
        if total <= self._max_bytes:
            return
        for _, _, unsent, connection in sorted(idle):
            if total <= self._max_bytes:
                return
            connection.cut_off_for_room()
            total -= unsent
