"""A bound on what all clients together have not taken of their output (`maxMessageDispatchBufferSizeInMB`).

Each connection may have some megabytes waiting, so many clients that do not read could fill the memory. When what
waits for all of them exceeds the budget, connections are cut off until the rest fits, first the one that has taken
nothing for the longest. Whoever takes its output, however slowly, is left alone.

Counting is a walk over all connections, so it is done by the sweep, and whenever a share of the budget was sent.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

SHARES = 8
"""The budget may be exceeded by one part in so many before it is noticed."""


class Drained(Protocol):
    """A connection, as far as its output goes."""

    @property
    def unsent_bytes(self) -> int: ...

    def idle_since(self, now_s: float) -> float:
        """When it was last seen to take something, or to have nothing to take; asked once a count."""

    def cut_off_for_room(self) -> None: ...


class OutputBudget:
    """`max_bytes` 0 or less: no limit."""

    __slots__ = ("_connections", "_max_bytes", "_now", "_sent_since")

    def __init__(self, max_bytes: int, connections: Callable[[], Iterable[Drained]], now: Callable[[], float]) -> None:
        self._max_bytes = max_bytes
        self._connections = connections
        self._now = now
        self._sent_since = 0

    def sent(self, size_bytes: int) -> None:
        """So much more was handed to a transport."""
        self._sent_since += size_bytes
        if self._sent_since * SHARES >= self._max_bytes:
            self.count()

    def count(self) -> None:
        if self._max_bytes <= 0:
            return
        self._sent_since = 0
        now_s = self._now()
        idle: list[tuple[float, int, int, Drained]] = []
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
