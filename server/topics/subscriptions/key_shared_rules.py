"""Decides which consumer of a Key_Shared subscription owns a key.

A key is hashed to a slot. The slots are given to consumers in one of three ways: by consistent hashing (a ring of
points), as auto-split ranges (a newcomer takes half of the biggest range), or as sticky ranges, which consumers choose
themselves. A selector only says which consumer owns each slot; `key_order_rules.KeyOrder` keeps a key's messages in
order while owners change.

Does no I/O. Sources: StickyKeyConsumerSelector, ConsistentHashingStickyKeyConsumerSelector,
HashRangeAutoSplitStickyKeyConsumerSelector, HashRangeExclusiveStickyKeyConsumerSelector.
"""

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

from mmh3 import mmh3_32_uintdigest

from pulsar_proto.errors import ConsumerAssignFault

SLOTS: Final = 65_536
"""Slots are numbered 1 to SLOTS - 1."""

NONE_KEY = b"NONE_KEY"
"""Stands for the key of an entry that has neither a key nor a producer's name, or whose metadata cannot be decoded."""

_NON_NEGATIVE: Final = 0x7FFF_FFFF
_SEPARATOR = "\0"

SlotRange = tuple[int, int]
"""A range of slots: (first slot, last slot), both included."""

T = TypeVar("T", bound=Hashable)


class KeySharedPolicy(NamedTuple):
    """The Key_Shared settings that all consumers of one subscription must have in common (KeySharedMeta)."""

    is_sticky: bool = False
    """Whether consumers choose their ranges themselves."""
    allows_disorder: bool = False
    """Whether messages of a key may be delivered out of order (the client's allowOutOfOrderDelivery)."""


AUTO_SPLIT = KeySharedPolicy()


def hash_of(key: bytes) -> int:
    """Returns the hash of a key, which has 31 bits (Murmur3_32Hash.makeHash: seed 0, the sign bit cleared)."""
    return int(mmh3_32_uintdigest(key, 0) & _NON_NEGATIVE)


def ring_slot(key_hash: int) -> int:
    """Returns the slot of a hash for consistent hashing, 1 to 65,535
    (StickyKeyConsumerSelectorUtils.makeStickyKeyHash)."""
    return key_hash % (SLOTS - 1) + 1


def range_slot(key_hash: int) -> int:
    """Returns the slot of a hash for auto-split and sticky ranges, 1 to 65,535: a hash that falls on slot 0 goes to
    slot 1."""
    return key_hash % SLOTS or 1


class Selector(Generic[T]):  # no ABC, because it is compiled: see CONTRIBUTING.md
    """Says which member (a consumer of the subscription) owns a slot. Members are compared by identity."""

    @staticmethod
    @abstractmethod
    def slot_of(key_hash: int) -> int:
        """Returns the slot of a key whose `hash_of` is `key_hash`."""

    def slots_of(self, key_hashes: list[int]) -> list[int]:
        """Returns `slot_of` of each hash."""
        return [range_slot(each) for each in key_hashes]

    @abstractmethod
    def add(self, member: T, name: str, ranges: Sequence[SlotRange] = ()) -> None:
        """Gives slots to a new member. Raises ConsumerAssignFault when the member cannot get slots; nothing has changed
        then."""

    @abstractmethod
    def remove(self, member: T) -> None: ...

    @abstractmethod
    def owner(self, slot: int) -> T | None:
        """Returns the member that owns the slot, or None when no member owns the slot."""

    @abstractmethod
    def ranges(self) -> dict[T, list[SlotRange]]:
        """Returns member -> the ranges of slots that the member owns, in order, for stats."""


class _Boundaries(Selector[T]):
    """Divides the slots into consecutive ranges: `_owners[i]` owns the slots above `_ends[i - 1]` up to and including
    `_ends[i]`."""

    def __init__(self) -> None:
        self._ends: list[int] = []
        self._owners: list[T] = []

    def ranges(self) -> dict[T, list[SlotRange]]:
        found: dict[T, list[SlotRange]] = {}
        start = 1
        for end, owner in zip(self._ends, self._owners, strict=True):
            last = min(end, SLOTS - 1)
            if start <= last:
                ranges = found.setdefault(owner, [])
                if ranges and ranges[-1][1] == start - 1:
                    ranges[-1] = (ranges[-1][0], last)
                else:
                    ranges.append((start, last))
            start = end + 1
        return found


class AutoSplit(_Boundaries[T]):
    """The auto-split selector: a new member takes the lower half of the biggest range. A member that leaves gives its
    range to the neighbour above; the member of the highest range gives it to the neighbour below. Used with
    `subscriptionKeySharedUseConsistentHashing=false`."""

    @staticmethod
    def slot_of(key_hash: int) -> int:
        return range_slot(key_hash)

    def add(self, member: T, name: str, ranges: Sequence[SlotRange] = ()) -> None:
        if not self._ends:
            self._ends, self._owners = [SLOTS], [member]
            return
        biggest = width = 0
        start = 0
        for index, end in enumerate(self._ends):
            if end - start > width:
                biggest, width = index, end - start
            start = end
        if width <= 1:
            raise ConsumerAssignFault(
                f"No more range can assigned to new consumer, assigned consumers {len(self._ends)}"
            )
        self._ends.insert(biggest, self._ends[biggest] - (width >> 1))
        self._owners.insert(biggest, member)

    def remove(self, member: T) -> None:
        index = next(i for i, owner in enumerate(self._owners) if owner is member)
        if index == len(self._ends) - 1 and index > 0:
            self._ends[index - 1] = SLOTS
        del self._ends[index], self._owners[index]

    def owner(self, slot: int) -> T | None:
        return self._owners[bisect_left(self._ends, slot)] if self._ends else None


class ConsistentHashing(_Boundaries[T]):
    """The selector that puts each member on a ring of slots, at as many points as `points` says. The owner of a point
    owns the slots after the previous point, up to and including the point itself. When several members have the same
    point, the point belongs to the member that came first; when that member leaves, the member that came next gets the
    point."""

    @staticmethod
    def slot_of(key_hash: int) -> int:
        return ring_slot(key_hash)

    def slots_of(self, key_hashes: list[int]) -> list[int]:
        return [ring_slot(each) for each in key_hashes]

    def __init__(self, points: int) -> None:
        """`points` is `subscriptionKeySharedConsistentHashingReplicaPoints`, at least 1."""
        super().__init__()
        self._points = points
        self._queues: dict[int, list[T]] = {}
        self._places: list[tuple[T, str, int]] = []
        """For each member: (member, name, the member's number among the members of that name)."""

    def add(self, member: T, name: str, ranges: Sequence[SlotRange] = ()) -> None:
        taken = {number for _, other, number in self._places if other == name}
        number = next(free for free in range(len(taken) + 1) if free not in taken)
        self._places.append((member, name, number))
        for slot in self._slots_of(name, number):
            queue = self._queues.setdefault(slot, [])
            if not any(other is member for other in queue):
                queue.append(member)
        self._settle()

    def remove(self, member: T) -> None:
        index = next(i for i, place in enumerate(self._places) if place[0] is member)
        _, name, number = self._places.pop(index)
        for slot in self._slots_of(name, number):
            queue = [other for other in self._queues.get(slot, ()) if other is not member]
            if queue:
                self._queues[slot] = queue
            else:
                self._queues.pop(slot, None)
        self._settle()

    def owner(self, slot: int) -> T | None:
        if not self._ends:
            return None
        index = bisect_left(self._ends, slot)
        return self._owners[index if index < len(self._ends) else 0]

    def ranges(self) -> dict[T, list[SlotRange]]:
        found = super().ranges()
        if self._ends and self._ends[-1] < SLOTS - 1:
            found.setdefault(self._owners[0], []).append((self._ends[-1] + 1, SLOTS - 1))
        return found

    def _slots_of(self, name: str, number: int) -> list[int]:
        head = f"{name}{_SEPARATOR}{number}{_SEPARATOR}"
        return [ring_slot(hash_of(f"{head}{point}".encode("utf-8", "surrogatepass"))) for point in range(self._points)]

    def _settle(self) -> None:
        self._ends = sorted(self._queues)
        self._owners = [self._queues[end][0] for end in self._ends]


class Sticky(Selector[T]):
    """The selector in which each member chooses its own ranges, which must not overlap. Messages of a slot that no
    member has chosen wait until a member chooses the slot."""

    @staticmethod
    def slot_of(key_hash: int) -> int:
        return range_slot(key_hash)

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, int]] = []
        """For each chosen range, in order: (first slot, last slot, number of the member)."""
        self._members: dict[int, T] = {}
        self._next = 0

    def add(self, member: T, name: str, ranges: Sequence[SlotRange] = ()) -> None:
        if not ranges:
            raise ConsumerAssignFault("Ranges for KeyShared policy must not be empty.")
        if len(ranges) > SLOTS:
            raise ConsumerAssignFault(f"{len(ranges)} ranges are more than there are slots")
        for first, last in ranges:
            if not 0 <= first <= last < SLOTS:
                raise ConsumerAssignFault(
                    f"Ranges must be within 0 to {SLOTS - 1}, first to last: [{first}, {last}] is not"
                )
        claimed = sorted((first, last, self._next) for first, last in ranges)
        for before, after in pairwise(claimed):
            if before[1] >= after[0]:
                raise ConsumerAssignFault(f"Ranges of one consumer overlap: {_text(before)} and {_text(after)}")
        for each in claimed:
            rival = self._overlapping(each[0], each[1])
            if rival is not None:
                raise ConsumerAssignFault(f"Range conflict with consumer {self._members[rival]}: {_text(each)}")
        self._ranges = sorted(self._ranges + claimed)
        self._members[self._next] = member
        self._next += 1

    def rival(self, ranges: Sequence[SlotRange]) -> T | None:
        """Returns a member that owns any part of `ranges`, or None when no member does."""
        for first, last in ranges[:SLOTS]:
            number = self._overlapping(first, last)
            if number is not None:
                return self._members[number]
        return None

    def remove(self, member: T) -> None:
        number = next(number for number, other in self._members.items() if other is member)
        del self._members[number]
        self._ranges = [each for each in self._ranges if each[2] != number]

    def owner(self, slot: int) -> T | None:
        number = self._overlapping(slot, slot)
        return None if number is None else self._members[number]

    def ranges(self) -> dict[T, list[SlotRange]]:
        found: dict[T, list[SlotRange]] = {}
        for first, last, number in self._ranges:
            found.setdefault(self._members[number], []).append((first, last))
        return found

    def _overlapping(self, first: int, last: int) -> int | None:
        index = bisect_left(self._ranges, (last + 1,)) - 1
        return self._ranges[index][2] if index >= 0 and self._ranges[index][1] >= first else None


def _text(each: tuple[int, int, int]) -> str:
    return f"[{each[0]}, {each[1]}]"


def selector_for(policy: KeySharedPolicy, *, consistent_hashing: bool, points: int) -> Selector[T]:
    """Returns the selector of a new subscription; `points` is how many points each member has on the ring."""
    if policy.is_sticky:
        return Sticky()
    return ConsistentHashing(points) if consistent_hashing else AutoSplit()
