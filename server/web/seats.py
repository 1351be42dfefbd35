"""Which HTTP connections may stay when there are too many. Pure: no clock, no sockets.

At the bound a newcomer takes the seat of an idle connection, so that silent clients cannot shut others out. The victim
is sought at the address that holds the most connections: there a connection that was never answered goes first, then
the one that has been idle for longest. A connection with a call in progress keeps its seat; where all have one, the
newcomer is refused.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

ConnectionT = TypeVar("ConnectionT", bound=Hashable)


class _Address(Generic[ConnectionT]):
    """Idle connections of one address, the longest idle first."""

    __slots__ = ("answered", "count", "silent")

    def __init__(self) -> None:
        self.count = 0
        """Also of those that are busy."""
        self.silent: dict[ConnectionT, None] = {}
        self.answered: dict[ConnectionT, None] = {}

    @property
    def victim(self) -> ConnectionT | None:
        return next(iter(self.silent or self.answered), None)


class Seats(Generic[ConnectionT]):
    """Each connection `enter`s once, tells when it `begins` and `ends` a call, and `leave`s."""

    def __init__(self, seats_max: int) -> None:
        self._seats_max = seats_max
        self._addresses: dict[str, _Address[ConnectionT]] = {}
        self._seated: dict[ConnectionT, str] = {}

    def __len__(self) -> int:
        return len(self._seated)

    def enter(self, connection: ConnectionT, address: str) -> ConnectionT | None:
        """Seats a connection. Returns the one that has lost its seat for it, which the caller closes; the newcomer
        itself when nobody is idle."""
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
        """A call begins: the connection cannot lose its seat until the call ends."""
        there = self._of(connection)
        if there is not None:
            there.silent.pop(connection, None)
            there.answered.pop(connection, None)

    def ends(self, connection: ConnectionT) -> None:
        there = self._of(connection)
        if there is not None:
            there.answered[connection] = None

    def leave(self, connection: ConnectionT) -> None:
        """Has no effect for a connection without a seat."""
        there = self._of(connection)
        if there is None:
            return
        self.begins(connection)
        there.count -= 1
        address = self._seated.pop(connection)
        if not there.count:
            del self._addresses[address]

    def _of(self, connection: ConnectionT) -> _Address[ConnectionT] | None:
        address = self._seated.get(connection)
        return None if address is None else self._addresses[address]

    def _choose(self) -> ConnectionT | None:
        idle = [there for there in self._addresses.values() if there.victim is not None]
        return max(idle, key=lambda there: there.count).victim if idle else None
