"""Decides which HTTP connections may stay when there are too many. This module uses no clock and no sockets.

A seat is one of the limited number of places for connections. When all seats are taken, a newcomer takes the seat of an
idle connection, so that silent clients cannot shut others out. That connection is chosen from the address with the most
connections, among the addresses that have an idle one. A connection that was never answered loses its seat first;
otherwise the connection that has been idle for longest loses it. A connection with a call in progress keeps its seat.
When every connection has a call in progress, the newcomer is refused."""

from collections.abc import Hashable
from typing import Generic, TypeVar

ConnectionT = TypeVar("ConnectionT", bound=Hashable)


class _Address(Generic[ConnectionT]):
    """The connections of one address."""

    __slots__ = ("answered", "count", "silent")

    def __init__(self) -> None:
        self.count = 0
        """How many connections there are, idle and busy."""
        self.silent: dict[ConnectionT, None] = {}
        """The connections that have not had a call yet, in the order in which they came."""
        self.answered: dict[ConnectionT, None] = {}
        """The idle connections that have had a call, the longest idle first."""

    @property
    def victim(self) -> ConnectionT | None:
        """Returns the connection that would lose its seat, or None when all connections of the address are busy."""
        return next(iter(self.silent or self.answered), None)


class Seats(Generic[ConnectionT]):
    """The seats and the connections that have them. The caller calls `enter` once for each connection, `begins` and
    `ends` for each call on the connection, and `leave` when the connection is closed."""

    def __init__(self, seats_max: int) -> None:
        self._seats_max = seats_max
        self._addresses: dict[str, _Address[ConnectionT]] = {}
        self._seated: dict[ConnectionT, str] = {}

    def __len__(self) -> int:
        return len(self._seated)

    def enter(self, connection: ConnectionT, address: str) -> ConnectionT | None:
        """Gives a connection a seat. Returns the connection that the caller has to close: None while there are free
        seats, otherwise the connection that has lost its seat, or the newcomer itself when no connection is idle."""
        evicted = None
        if len(self) >= self._seats_max:
            evicted = self._choose()
            if evicted is None:
                return connection
            self.leave(evicted)
        self._seated[connection] = address
        there = self._addresses.setdefault(address, _Address())
        there.count += 1
        there.silent[connection] = None
        return evicted

    def begins(self, connection: ConnectionT) -> None:
        """Called when a call begins on the connection. No newcomer can take the connection's seat until `ends`."""
        there = self._of(connection)
        if there is not None:
            there.silent.pop(connection, None)
            there.answered.pop(connection, None)

    def ends(self, connection: ConnectionT) -> None:
        """Called when a call was answered: the connection may lose its seat again."""
        there = self._of(connection)
        if there is not None:
            there.answered[connection] = None

    def leave(self, connection: ConnectionT) -> None:
        """Frees the seat of a closed connection. Has no effect for a connection without a seat."""
        there = self._of(connection)
        if there is None:
            return
        self.begins(connection)
        there.count -= 1
        address = self._seated.pop(connection)
        if not there.count:
            del self._addresses[address]

    def _of(self, connection: ConnectionT) -> _Address[ConnectionT] | None:
        """Returns the address of a connection, or None when the connection has no seat."""
        address = self._seated.get(connection)
        return None if address is None else self._addresses[address]

    def _choose(self) -> ConnectionT | None:
        """Returns the connection that loses its seat to a newcomer, or None when all are busy."""
        idle = [there for there in self._addresses.values() if there.victim is not None]
        return max(idle, key=lambda there: there.count).victim if idle else None
