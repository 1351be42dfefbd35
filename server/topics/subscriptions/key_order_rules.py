"""Keeps each key's messages in order on a Key_Shared subscription while consumers come and leave.

This module deals with hash slots, not with keys: `key_shared_rules` hashes each key to a slot and gives each slot to a
consumer, its owner. An entry is *pending* when it was sent and is not acknowledged. One rule is enough for the order:
**an entry may be sent to its slot's owner only while no other consumer holds entries of that slot, and no earlier entry
of the slot waits.** An entry that may not be sent yet waits in its slot's queue, in order of positions. A slot is
*draining* while one consumer, the holder, has pending entries of the slot, and another consumer owns the slot. The
draining ends when the last of these entries is acknowledged, or when the holder leaves. So each entry waits either for
the holder of its slot (stats name that consumer), or for permits of the slot's owner.

Without order (allowOutOfOrderDelivery) the rule does not hold, and the queues hold only the entries that could not be
sent at once.

Does no I/O. Sources: PIP-379, DrainingHashesTracker, MessageRedeliveryController,
PersistentStickyKeyDispatcherMultipleConsumers. Unlike Apache's broker, this class notes the holder of a slot when it
sends an entry, so the holder does not depend on the history of assignments."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from magnetar.server.topics.subscriptions.key_shared_rules import Selector, SlotRange
from pulsar_proto.ids import Position

T = TypeVar("T", bound=Hashable)


class DrainingSlot(NamedTuple):
    """A slot whose pending entries were sent to a consumer that does not own the slot any more."""

    slot: int
    entries: int
    """How many entries of the slot the holder has not acknowledged."""
    blocked: int
    """How often an entry had to wait because the slot was draining."""


class SlotWait(NamedTuple, Generic[T]):
    """A slot with entries that wait."""

    slot: int
    entries: int
    """How many entries of the slot wait."""
    owner: T | None
    """The member that gets the entries, or None while nobody has the slot."""
    holder: T | None
    """While the slot is draining, the member whose acknowledgements the entries wait for."""
    held: int
    """How many entries of the slot the holder has not acknowledged."""
    since_s: float
    """Since when the slot is draining, by the caller's clock; 0 while it is not draining."""


class _Hold(Generic[T]):
    """The consumer that holds the pending entries of a slot, and the number of these entries."""

    __slots__ = ("blocked", "entries", "member")

    def __init__(self, member: T) -> None:
        self.member = member
        self.entries = 0
        self.blocked = 0


class KeyOrder(Generic[T]):
    """Knows the slot of each entry that is pending (sent and not acknowledged) or waits. `waiting` counts the entries
    that wait. A member is a consumer of the subscription."""

    def __init__(self, selector: Selector[T], *, ordered: bool = True) -> None:
        self.selector = selector
        self.ordered = ordered
        self.waiting = 0
        self.cleared: dict[T, int] = {}
        """Member -> how many draining slots the member has released."""
        self.cleared_total = 0
        self._slots: dict[int, dict[int, int]] = {}
        """Ledger id -> entry id -> slot, for all entries that are pending or wait."""
        self._queues: dict[int, list[tuple[int, int]]] = {}
        """Slot -> positions of the entries that wait, in order."""
        self._holds: dict[int, _Hold[T]] = {}
        """Slot -> the consumer that holds the slot's pending entries, for all slots that have pending entries."""
        self._draining: dict[int, float] = {}
        """Draining slot -> since when it is draining."""
        self._heads: dict[T, list[tuple[int, int, int]]] = {}
        """Member -> a heap of (ledger, entry, slot). The heap holds the first entry of each slot's queue, provided that
        this entry may be sent to the member. Outdated items are dropped when they come to the top of the heap."""

    # ---- members

    def add(self, member: T, name: str, ranges: Sequence[SlotRange] = (), now_s: float = 0.0) -> None:
        """Adds a member. `now_s` is the time by any clock that does not go back. Raises ConsumerAssignFault when the
        selector has no slots for the member."""
        self.selector.add(member, name, ranges)
        self.cleared[member] = 0
        self._reassign(now_s)

    def remove(self, member: T, now_s: float = 0.0) -> None:
        """Removes a member; for `now_s` see `add`. The caller gives back the member's entries before."""
        self.selector.remove(member)
        del self.cleared[member]
        self._reassign(now_s)

    def clear(self) -> None:
        """Forgets all pending entries and all entries that wait."""
        self.waiting = 0
        self._slots.clear()
        self._queues.clear()
        self._holds.clear()
        self._draining.clear()
        self._heads.clear()

    # ---- entries

    def route(self, slot: int) -> T | None:
        """Returns the member that may get a new entry of the slot, or None when the new entry has to wait. An entry is
        new if it was never sent or queued."""
        if self.ordered:
            if slot in self._draining:
                self._holds[slot].blocked += 1
                return None
            if slot in self._queues:
                return None
            hold = self._holds.get(slot)
            if hold is not None:
                return hold.member  # which owns the slot, because it is not draining: the selector need not search
        return self.selector.owner(slot)

    def sent(self, member: T, ledger_id: int, entry_ids: Iterable[int], slots: Iterable[int]) -> None:
        """Called when entries are sent to the member that `route` or `may_take` returned. The entries are
        pending from now on."""
        ledger = self._slots.get(ledger_id)
        if ledger is None:
            ledger = self._slots[ledger_id] = {}
        holds = self._holds
        for entry_id, slot in zip(entry_ids, slots, strict=True):
            ledger[entry_id] = slot
            hold = holds.get(slot)
            if hold is None:
                hold = holds[slot] = _Hold(member)
            hold.entries += 1

    def wait(self, ledger_id: int, entry_id: int, slot: int) -> None:
        """Called when an entry could not be sent: adds the entry to the queue of its slot."""
        self._slots.setdefault(ledger_id, {})[entry_id] = slot
        self._enqueue(slot, (ledger_id, entry_id))

    def given_back(self, ledger_id: int, entry_ids: Iterable[int]) -> None:
        """Called when pending entries are to be sent again: adds the entries to the queues of their slots."""
        ledger = self._slots[ledger_id]
        for entry_id in entry_ids:
            slot = ledger[entry_id]
            self._release(slot)
            self._enqueue(slot, (ledger_id, entry_id))

    def forget(self, ledger_id: int, entry_id: int) -> bool:
        """Called when an entry was acknowledged or does not exist: forgets the entry. Returns True if a waiting entry
        may now be sent, or if there is room for one more waiting entry."""
        return self.forget_all(ledger_id, (entry_id,))

    def forget_all(self, ledger_id: int, entry_ids: Iterable[int]) -> bool:
        """Forgets several entries. Returns True if `forget` would return True for one of them."""
        ledger = self._slots.get(ledger_id)
        if ledger is None:
            return False
        may_go_on = False
        for entry_id in entry_ids:
            slot = ledger.get(entry_id)
            if slot is None:
                continue
            del ledger[entry_id]
            if self._queues and self._dequeue(slot, (ledger_id, entry_id)):
                self._offer(slot)
                may_go_on = True
            elif self._release(slot):
                may_go_on = True
        if not ledger:
            del self._slots[ledger_id]
        return may_go_on

    # ---- waiting entries

    def first(self, able: Iterable[T]) -> Position | None:
        """Returns the position of the first waiting entry that may be sent to one of the members `able`, or None when
        there is no such entry."""
        best: tuple[int, int, int] | None = None
        for member in able:
            heap = self._heads.get(member)
            while heap:
                ledger_id, entry_id, slot = heap[0]
                if self._is_next(slot, (ledger_id, entry_id)) and self._free_owner(slot) is member:
                    if best is None or heap[0] < best:
                        best = heap[0]
                    break
                heappop(heap)
        return None if best is None else Position(best[0], best[1])

    def sendable(self, ledger_id: int, entry_ids: Iterable[int], room: Mapping[T, int]) -> list[int]:
        """Chooses among `entry_ids`, which are waiting entries in order. Returns the entries that may be sent if all
        earlier chosen entries are sent too. For each member, chooses at most as many entries as `room` says."""
        slots = self._slots.get(ledger_id, {})
        left = dict(room)
        taken: dict[int, int] = {}
        found: list[int] = []
        for entry_id in entry_ids:
            slot = slots[entry_id]
            queue, index = self._queues[slot], taken.get(slot, 0)
            if index >= len(queue) or queue[index] != (ledger_id, entry_id):
                continue
            owner = self._free_owner(slot)
            if owner is not None and left.get(owner, 0) > 0:
                left[owner] -= 1
                taken[slot] = index + 1
                found.append(entry_id)
        return found

    def may_take(self, ledger_id: int, entry_id: int) -> tuple[T, int] | None:
        """Returns (the member that may get an entry, the entry's slot), or None when the entry does not wait or must go
        on waiting."""
        slot = self._slots.get(ledger_id, {}).get(entry_id)
        if slot is None or not self._is_next(slot, (ledger_id, entry_id)):
            return None
        owner = self._free_owner(slot)
        return None if owner is None else (owner, slot)

    def taken(self, ledger_id: int, entry_id: int, slot: int) -> None:
        """Called when a waiting entry is being sent: removes the entry from the queue of its slot. The caller calls
        `sent` next."""
        self._dequeue(slot, (ledger_id, entry_id))
        self._offer(slot)

    # ---- for stats

    def draining(self) -> dict[T, list[DrainingSlot]]:
        """Returns member -> the slots, in order, whose entries the member holds although another member owns the
        slot."""
        found: dict[T, list[DrainingSlot]] = {}
        for slot in sorted(self._draining):
            hold = self._holds[slot]
            found.setdefault(hold.member, []).append(DrainingSlot(slot, hold.entries, hold.blocked))
        return found

    def waits(self) -> Iterator[SlotWait[T]]:
        """Yields every slot that has entries which wait, in no order."""
        for slot, queue in self._queues.items():
            hold = self._holds[slot] if slot in self._draining else None
            yield SlotWait(
                slot,
                len(queue),
                self.selector.owner(slot),
                None if hold is None else hold.member,
                0 if hold is None else hold.entries,
                self._draining.get(slot, 0.0),
            )

    @property
    def waiting_slots(self) -> int:
        """How many slots have entries that wait."""
        return len(self._queues)

    @property
    def draining_slots(self) -> int:
        return len(self._draining)

    def holders_waited_for(self) -> Iterator[T]:
        """For each draining slot for which entries wait, yields the member that still holds the slot."""
        for slot in self._draining:
            if slot in self._queues:
                yield self._holds[slot].member

    # ---- helpers

    def _free_owner(self, slot: int) -> T | None:
        """Returns the owner of a slot, or None while the slot is draining."""
        return None if slot in self._draining else self.selector.owner(slot)

    def _is_next(self, slot: int, position: tuple[int, int]) -> bool:
        queue = self._queues.get(slot)
        return queue is not None and queue[0] == position

    def _enqueue(self, slot: int, position: tuple[int, int]) -> None:
        queue = self._queues.get(slot)
        if queue is None:
            self._queues[slot] = [position]
        elif position > queue[-1]:
            queue.append(position)
        else:
            insort(queue, position)
        self.waiting += 1
        if self._queues[slot][0] == position:
            self._offer(slot)

    def _dequeue(self, slot: int, position: tuple[int, int]) -> bool:
        """Takes an entry out of its slot's queue. Returns whether the queue held the entry."""
        queue = self._queues.get(slot)
        if queue is None:
            return False
        index = bisect_left(queue, position)
        if index == len(queue) or queue[index] != position:
            return False
        del queue[index]
        self.waiting -= 1
        if not queue:
            del self._queues[slot]
        return True

    def _offer(self, slot: int) -> None:
        """Puts the first entry of the slot's queue on its owner's heap, unless the slot is draining."""
        queue = self._queues.get(slot)
        owner = self._free_owner(slot) if queue else None
        if queue and owner is not None:
            heappush(self._heads.setdefault(owner, []), (*queue[0], slot))

    def _release(self, slot: int) -> bool:
        """Called when one entry of the slot is no longer pending. Returns True if the draining of the slot has ended
        and entries of the slot wait."""
        hold = self._holds[slot]
        hold.entries -= 1
        if hold.entries:
            return False
        del self._holds[slot]
        if slot not in self._draining:
            return False
        del self._draining[slot]
        self.cleared[hold.member] += 1
        self.cleared_total += 1
        self._offer(slot)
        return slot in self._queues

    def _reassign(self, now_s: float) -> None:
        """Called when slots have new owners: computes again which slots are draining, and fills the heaps anew."""
        owner, since_s = self.selector.owner, self._draining
        if self.ordered:
            self._draining = {
                slot: since_s.get(slot, now_s) for slot, hold in self._holds.items() if owner(slot) is not hold.member
            }
        self._heads = {}
        for slot in self._queues:
            self._offer(slot)
