"""Decides whose turn it is on a Shared subscription.

Consumers take turns within the best priority level (0 is best) that has a consumer which can take messages; a lower
level gets messages only while no consumer of a better level can take messages. Each level remembers which consumer is
next, so a consumer that could not take its turn does not shift the turns of the other consumers.

Does no I/O. Source: AbstractDispatcherMultipleConsumers.getNextConsumer.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Taker(Protocol):
    """`RoundRobin` uses each consumer through this interface."""

    @property
    def can_take(self) -> bool:
        """Whether the consumer has permits, is not blocked, and has a writable connection."""

    @property
    def entries(self) -> float:
        """Estimates how many entries the consumer takes: its permits divided by the average number of messages in an
        entry. Only meaningful while `can_take` is True, and then positive."""


T = TypeVar("T", bound=Taker)


class _Level(Generic[T]):
    """The consumers of one priority; `next` is the index of the consumer whose turn is next."""

    __slots__ = ("members", "next")

    def __init__(self) -> None:
        self.members: list[T] = []
        self.next = 0


class RoundRobin(Generic[T]):
    """Chooses the consumer of one Shared subscription whose turn it is. Within a priority level, consumers take turns
    in the order in which they connected."""

    __slots__ = ("_levels", "_priorities")

    def __init__(self) -> None:
        self._priorities: list[int] = []
        self._levels: list[_Level[T]] = []

    def __iter__(self) -> Iterator[T]:
        for level in self._levels:
            yield from level.members

    def __len__(self) -> int:
        if len(self._levels) == 1:
            return len(self._levels[0].members)  # the usual case, in which this costs half of the sum below
        return sum(len(level.members) for level in self._levels)

    def add(self, taker: T, priority: int) -> None:
        index = bisect_left(self._priorities, priority)
        if index == len(self._priorities) or self._priorities[index] != priority:
            self._priorities.insert(index, priority)
            self._levels.insert(index, _Level())
        self._levels[index].members.append(taker)

    def remove(self, taker: T) -> None:
        """Removes a consumer. If it was the next to be served, the consumer after it becomes the next. Raises
        ValueError for an unknown consumer."""
        for index, level in enumerate(self._levels):
            for place, member in enumerate(level.members):
                if member is not taker:
                    continue
                del level.members[place]
                if place < level.next:
                    level.next -= 1
                if not level.members:
                    del self._levels[index], self._priorities[index]
                return
        raise ValueError("not a member")

    def pick(self) -> T | None:
        """Returns the consumer whose turn it is, and gives the next turn to the consumer after it. Returns None when no
        consumer can take messages."""
        for level in self._levels:
            members = level.members
            size = len(members)
            start = level.next
            for step in range(size):
                place = (start + step) % size
                if members[place].can_take:
                    level.next = place + 1
                    return members[place]
        return None

    def entries(self, entries_max: int) -> int:
        """Returns how many entries the consumers of one priority level take, at most `entries_max`. The level is the
        best level that has a consumer able to take messages. The result is 0 only when no consumer of any level can
        take messages."""
        for level in self._levels:
            total = 0.0
            for member in level.members:
                if member.can_take:
                    total += member.entries
                    if total >= entries_max:
                        return entries_max
            if total > 0:
                return max(1, int(total))
        return 0
