"""What a Shared subscription remembers about messages that are out: who holds them, which come again, how often.

Plain data, no I/O. Ids are kept per ledger, because runs of entries then cost one C call instead of an object a
message. Sources: Consumer.pendingAcks, MessageRedeliveryController, InMemoryRedeliveryTracker; facts 5.5.
"""

from collections.abc import Iterable, Iterator, Sequence

from pyroaring import BitMap

from pulsar_proto.ids import Position

ENTRY_ID_END = 2**32
"""Ids in bitmaps are of 32 bits: no ledger has an entry at or beyond this."""


class PendingAcks:
    """Entries that one consumer holds unacknowledged: (ledger, entry) -> messages of the entry not yet acknowledged.

    Entries of one message are bits, others are in dictionaries. Bounded by the consumer's limit of unacknowledged
    messages.
    """

    __slots__ = ("_batches", "_singles", "messages")

    def __init__(self) -> None:
        self._singles: dict[int, BitMap] = {}
        self._batches: dict[int, dict[int, int]] = {}
        self.messages = 0
        """The sum of all counts."""

    def __len__(self) -> int:
        return sum(map(len, self._singles.values())) + sum(map(len, self._batches.values()))

    def add(self, ledger_id: int, entry_ids: Sequence[int], counts: Sequence[int], messages: int) -> None:
        """A run that was sent; `messages` is the sum of `counts`. Must not hold any of them yet."""
        self.messages += messages
        if messages == len(entry_ids):
            self._add_singles(ledger_id, entry_ids)
            return
        batches = self._batches.setdefault(ledger_id, {})
        singles = []
        for entry_id, count in zip(entry_ids, counts, strict=True):
            if count == 1:
                singles.append(entry_id)
            else:
                batches[entry_id] = count
        if singles:
            self._add_singles(ledger_id, singles)

    def _add_singles(self, ledger_id: int, entry_ids: Sequence[int]) -> None:
        bitmap = self._singles.get(ledger_id)
        if bitmap is None:
            self._singles[ledger_id] = BitMap(entry_ids)
        elif isinstance(entry_ids, range):
            bitmap.add_range(entry_ids.start, entry_ids.stop)
        else:
            bitmap.update(entry_ids)

    def get(self, ledger_id: int, entry_id: int) -> int | None:
        bitmap = self._singles.get(ledger_id)
        if bitmap is not None and entry_id in bitmap:
            return 1
        batches = self._batches.get(ledger_id)
        return None if batches is None else batches.get(entry_id)

    def among(self, ledger_id: int, entries: BitMap) -> list[int]:
        """Those of `entries` that are held, in order."""
        batches = self._batches.get(ledger_id, {})
        singles = self._singles.get(ledger_id)
        return sorted((*(() if singles is None else singles & entries), *(each for each in batches if each in entries)))

    def reduce(self, ledger_id: int, entry_id: int, count: int) -> None:
        """Only `count` of a held entry's messages are left, at least one; more than it had does nothing."""
        batches = self._batches.get(ledger_id)
        if batches is not None and count < batches.get(entry_id, 0):
            self.messages += count - batches[entry_id]
            batches[entry_id] = count

    def pop(self, ledger_id: int, entry_id: int) -> int | None:
        """The entry's count, or None when it is not held."""
        bitmap = self._singles.get(ledger_id)
        if bitmap is not None and entry_id in bitmap:
            bitmap.remove(entry_id)
            if not bitmap:
                del self._singles[ledger_id]
            self.messages -= 1
            return 1
        batches = self._batches.get(ledger_id)
        count = None if batches is None else batches.pop(entry_id, None)
        if batches is None or count is None:
            return None
        self.messages -= count
        if not batches:
            del self._batches[ledger_id]
        return count

    def drain(self) -> Iterator[tuple[int, list[int]]]:
        """Everything held, as (ledger, sorted entries) in order; nothing is held once it was begun."""
        singles, self._singles = self._singles, {}
        batches, self._batches = self._batches, {}
        self.messages = 0
        for ledger_id in sorted(singles.keys() | batches.keys()):
            yield ledger_id, sorted((*singles.get(ledger_id, ()), *batches.get(ledger_id, ())))


class ReplayQueue:
    """Entries that must be delivered again, in the order of their positions."""

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[int, BitMap] = {}

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def __len__(self) -> int:
        return sum(map(len, self._ledgers.values()))

    def add(self, ledger_id: int, entry_ids: Iterable[int]) -> None:
        """Ids below ENTRY_ID_END; duplicates do no harm."""
        bitmap = self._ledgers.get(ledger_id)
        if bitmap is None:
            bitmap = self._ledgers[ledger_id] = BitMap()
        bitmap.update(entry_ids)
        if not bitmap:
            del self._ledgers[ledger_id]

    def contains(self, ledger_id: int, entry_id: int) -> bool:
        bitmap = self._ledgers.get(ledger_id)
        return bitmap is not None and entry_id in bitmap

    def discard(self, ledger_id: int, entry_ids: Iterable[int]) -> None:
        bitmap = self._ledgers.get(ledger_id)
        if bitmap is not None:
            bitmap.difference_update(BitMap(entry_ids))
            if not bitmap:
                del self._ledgers[ledger_id]

    def clear(self) -> None:
        self._ledgers.clear()

    def drain(self) -> Iterator[tuple[int, list[int]]]:
        """Everything, as (ledger, entries) in order; nothing waits any more."""
        ledgers, self._ledgers = self._ledgers, {}
        for ledger_id in sorted(ledgers):
            yield ledger_id, list(ledgers[ledger_id])

    def first_run(self, entries_max: int) -> tuple[Position, int]:
        """The first position, and how many consecutive ones from it on wait, at most `entries_max`. Not when empty."""
        ledger_id = min(self._ledgers)
        bitmap = self._ledgers[ledger_id]
        first = bitmap.min()
        count = 1
        while count < entries_max and first + count in bitmap:
            count += 1
        return Position(ledger_id, first), count

    def nearby(self, position: Position, entries_max: int, gap_max: int) -> int:
        """How many entries from `position` on, which waits, to its last neighbour that waits: no more than
        `entries_max` in all, and from neighbour to neighbour no more than `gap_max`."""
        bitmap = self._ledgers[position.ledger_id]
        last = position.entry_id
        end = last + entries_max
        for entry_id in bitmap.iter_equal_or_larger(last + 1):
            if entry_id >= end or entry_id - last > gap_max:
                break
            last = entry_id
        return last - position.entry_id + 1

    def within(self, ledger_id: int, first: int, end: int) -> list[int]:
        """The entries from `first` to before `end` that wait, in order."""
        bitmap = self._ledgers.get(ledger_id)
        return [] if bitmap is None else list(bitmap & BitMap(range(first, end)))


class RedeliveryCounts:
    """How often an entry was asked for again. In memory only; erased when it is acknowledged.

    Bounded by the subscription's limit of unacknowledged messages: only what was out can be asked for again.
    """

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[int, dict[int, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def increment(self, ledger_id: int, entry_ids: Iterable[int]) -> None:
        counts = self._ledgers.setdefault(ledger_id, {})
        for entry_id in entry_ids:
            counts[entry_id] = counts.get(entry_id, 0) + 1
        if not counts:
            del self._ledgers[ledger_id]

    def of_ledger(self, ledger_id: int) -> dict[int, int] | None:
        """Entry -> count of the ledger's entries that have one. Not to be changed."""
        return self._ledgers.get(ledger_id)

    def forget(self, ledger_id: int, entry_id: int) -> None:
        counts = self._ledgers.get(ledger_id)
        if counts is not None and counts.pop(entry_id, None) is not None and not counts:
            del self._ledgers[ledger_id]

    def clear(self) -> None:
        self._ledgers.clear()
