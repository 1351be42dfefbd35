"""Remembers the messages of a Shared subscription that were sent and are not acknowledged: which consumer holds a
message, which messages are to be sent again, and how often clients requested a message again.

Plain data, no I/O. Ids are kept per ledger, because a run of entries then costs one call into C instead of an object
per message. Sources: Consumer.pendingAcks, MessageRedeliveryController, InMemoryRedeliveryTracker.
"""

from collections.abc import Iterable, Iterator, Sequence

from pyroaring import BitMap

from pulsar_proto.ids import Position


class PendingAcks:
    """The entries that one consumer holds unacknowledged: (ledger, entry) -> how many messages of the entry are not
    acknowledged.

    Entries with one message are bits in a bitmap, all other entries are in dictionaries. The consumer's limit of
    unacknowledged messages bounds the bitmaps and the dictionaries.
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
        """Adds the entries of a run that was sent. None of these entries may be held yet; `messages` is the sum of
        `counts`."""
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
        """Returns the entry's count, or None when the entry is not held."""
        bitmap = self._singles.get(ledger_id)
        if bitmap is not None and entry_id in bitmap:
            return 1
        batches = self._batches.get(ledger_id)
        return None if batches is None else batches.get(entry_id)

    def among(self, ledger_id: int, entries: BitMap) -> list[int]:
        """Returns those of `entries` that are held, in order."""
        batches = self._batches.get(ledger_id, {})
        singles = self._singles.get(ledger_id)
        return sorted((*(() if singles is None else singles & entries), *(each for each in batches if each in entries)))

    def reduce(self, ledger_id: int, entry_id: int, count: int) -> None:
        """Lowers the count of a held entry to `count`, which is at least one. Has no effect when the entry's count is
        `count` or less."""
        batches = self._batches.get(ledger_id)
        if batches is not None and count < batches.get(entry_id, 0):
            self.messages += count - batches[entry_id]
            batches[entry_id] = count

    def pop(self, ledger_id: int, entry_id: int) -> int | None:
        """Removes an entry. Returns the entry's count, or None when the entry was not held."""
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

    def pop_singles(self, ledger_id: int, entry_ids: list[int]) -> bool:
        """Removes these entries, if all of them are held, differ from each other, and have one message each. Otherwise
        changes nothing and returns False."""
        bitmap = self._singles.get(ledger_id)
        if bitmap is None:
            return False
        gone = BitMap(entry_ids)
        if len(gone) != len(entry_ids) or not gone.issubset(bitmap):
            return False
        bitmap.difference_update(gone)
        if not bitmap:
            del self._singles[ledger_id]
        self.messages -= len(entry_ids)
        return True

    def drain(self) -> Iterator[tuple[int, list[int]]]:
        """Yields (ledger, sorted entry ids) for all held entries, in order. Once the iteration has begun, this object
        holds no entry."""
        singles, self._singles = self._singles, {}
        batches, self._batches = self._batches, {}
        self.messages = 0
        for ledger_id in sorted(singles.keys() | batches.keys()):
            yield ledger_id, sorted((*singles.get(ledger_id, ()), *batches.get(ledger_id, ())))


class ReplayQueue:
    """Entries that are to be delivered again, in the order of their positions."""

    __slots__ = ("_ledgers",)

    def __init__(self) -> None:
        self._ledgers: dict[int, BitMap] = {}

    def __bool__(self) -> bool:
        return bool(self._ledgers)

    def __len__(self) -> int:
        return sum(map(len, self._ledgers.values()))

    def add(self, ledger_id: int, entry_ids: Iterable[int]) -> None:
        """Adds entries whose ids are below ENTRY_ID_END. Adding an entry again has no effect."""
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
        """Yields (ledger, entry ids) for all entries, in order. Once the iteration has begun, the queue is empty."""
        ledgers, self._ledgers = self._ledgers, {}
        for ledger_id in sorted(ledgers):
            yield ledger_id, list(ledgers[ledger_id])

    def by_ledger(self) -> Iterator[tuple[int, BitMap]]:
        """Yields (ledger, its entries in the queue). The caller must not change the bitmaps."""
        yield from self._ledgers.items()

    def first_run(self, entries_max: int) -> tuple[Position, int]:
        """Returns the first position in the queue, and the number of consecutive entries in the queue from that
        position on, at most `entries_max`. The queue must not be empty."""
        ledger_id = min(self._ledgers)
        bitmap = self._ledgers[ledger_id]
        first = bitmap.min()
        count = 1
        while count < entries_max and first + count in bitmap:
            count += 1
        return Position(ledger_id, first), count

    def nearby(self, position: Position, entries_max: int, gap_max: int) -> int:
        """Returns how many entries a read from `position` should bring; `position` is in the queue. The read ends with
        an entry of the queue that is less than `entries_max` away, and spans no gap in the queue that is larger than
        `gap_max`."""
        bitmap = self._ledgers[position.ledger_id]
        last = position.entry_id
        end = last + entries_max
        for entry_id in bitmap.iter_equal_or_larger(last + 1):
            if entry_id >= end or entry_id - last > gap_max:
                break
            last = entry_id
        return last - position.entry_id + 1

    def within(self, ledger_id: int, first: int, end: int) -> list[int]:
        """Returns the entries in the queue from `first` to `end` (exclusive), in order."""
        bitmap = self._ledgers.get(ledger_id)
        return [] if bitmap is None else list(bitmap & BitMap(range(first, end)))


class RedeliveryCounts:
    """Counts how often each entry was requested again. The counts are kept in memory only; the count of an entry is
    erased when the entry is acknowledged.

    The subscription's limit of unacknowledged messages bounds the number of counts, because a client can request an
    entry again only if the entry was sent to this client."""

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
        """Returns entry id -> count for the ledger's entries that have a count, or None when no entry of the ledger has
        a count. Callers must not change the dictionary."""
        return self._ledgers.get(ledger_id)

    def forget(self, ledger_id: int, entry_id: int) -> None:
        counts = self._ledgers.get(ledger_id)
        if counts is not None and counts.pop(entry_id, None) is not None and not counts:
            del self._ledgers[ledger_id]

    def clear(self) -> None:
        self._ledgers.clear()
