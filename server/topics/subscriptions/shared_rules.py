"""Whose turn it is on a Shared subscription.

Consumers take turns inside the best priority level (0 is best) that has one who can take messages; a lower level gets
something only while nobody better can. Each level remembers where its round stands, so that a consumer that could not
take its turn does not shift the others'.

Pure. Source: AbstractDispatcherMultipleConsumers.getNextConsumer; facts 5.5.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class Taker(Protocol):
    @property
    def can_take(self) -> bool:
        """Has permits, is not blocked, and its connection takes bytes."""

    @property
    def entries(self) -> float:
        """How many entries it takes if it can take any: about its permits by the messages in an entry. Positive."""


T = TypeVar("T", bound=Taker)


class _Level(Generic[T]):
    __slots__ = ("members", "next")

    def __init__(self) -> None:
        self.members: list[T] = []
        self.next = 0


class RoundRobin(Generic[T]):
    """The consumers of one subscription, in the order in which they came within each priority."""

    __slots__ = ("_levels", "_priorities")

    def __init__(self) -> None:
        self._priorities: list[int] = []
        self._levels: list[_Level[T]] = []

    def __iter__(self) -> Iterator[T]:
        for level in self._levels:
            yield from level.members

    def __len__(self) -> int:
        return sum(len(level.members) for level in self._levels)

    def add(self, taker: T, priority: int) -> None:
        index = bisect_left(self._priorities, priority)
        if index == len(self._priorities) or self._priorities[index] != priority:
            self._priorities.insert(index, priority)
            self._levels.insert(index, _Level())
        self._levels[index].members.append(taker)

    def remove(self, taker: T) -> None:
        """Raises ValueError when it is not there. Who follows it has the next turn where it had the next one."""
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
        """The one whose turn it is; its turn is over with that. None when nobody can take anything."""
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
        """How many entries the best level takes that has somebody who can: 0 only when nobody can, at most
        `entries_max`."""
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
