"""Knows when the delayed messages of one topic are due. One index serves all subscriptions of the topic.

A message costs about sixteen bytes: two parallel arrays hold the times and the positions of the messages, sorted by
time. The arrays are cut into segments, so that adding a message moves at most one segment. One bitmap per ledger says
which entries are in the index: adding an entry again has no effect, and dispatchers pass over runs of delayed entries
at once.

The index holds nothing that is not in the log: after a restart, dispatchers fill the index again as they read the log.

Does no I/O. Apache's InMemoryDelayedDeliveryTracker and BucketDelayedDeliveryTracker keep one index per subscription
and round the times to ticks."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from pyroaring import BitMap

from magnetar.storage.managed.bitmap_ranges import first_missing
from pulsar_proto.ids import Position

SEGMENT_ENTRIES_MAX = 2_048
ENTRIES_MAX = 5_000_000
"""How many entries the index holds, at about 17 bytes each. A full index refuses further entries, and dispatchers then
stop reading until an entry is due."""

_ENTRY_BITS = 32
_ENTRY_MASK = (1 << _ENTRY_BITS) - 1


class _Segment:
    """A sorted part of the index: `times[i]` is when the entry at `places[i]` is due. A place is one number: (the
    ledger's number in this index) << 32 | entry id."""

    __slots__ = ("places", "times")

    def __init__(self, times: "array[int]", places: "array[int]") -> None:
        self.times = times
        self.places = places


class DelayIndex:
    """The delayed entries of one topic. Times are ms since the epoch."""

    __slots__ = ("_count", "_entries_max", "_last_times", "_ledger_ids", "_numbers", "_segments", "bitmaps")

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._count = 0
        self._segments: list[_Segment] = []
        self._last_times: list[int] = []
        self._ledger_ids: list[int] = []
        self._numbers: dict[int, int] = {}
        self.bitmaps: dict[int, BitMap] = {}
        """Ledger -> entries that are not due yet. Callers must not change the bitmaps."""

    def __len__(self) -> int:
        return sum(map(len, self.bitmaps.values()))

    def __bool__(self) -> bool:
        return bool(self.bitmaps)

    @property
    def is_full(self) -> bool:
        return self._count >= self._entries_max

    @property
    def size_bytes(self) -> int:
        """Returns an estimate of the memory that the index takes, in bytes."""
        segments = sum(segment.times.itemsize * len(segment.times) * 2 + 256 for segment in self._segments)
        return segments + sum(64 + 2 * min(len(bitmap), 4_096) for bitmap in self.bitmaps.values())

    def has(self, ledger_id: int, entry_id: int) -> bool:
        bitmap = self.bitmaps.get(ledger_id)
        return bitmap is not None and entry_id in bitmap

    def add(self, ledger_id: int, entry_id: int, due_ms: int) -> bool:
        """Adds an entry that is due at `due_ms`. Entry ids must be below 2^32, and `due_ms` below 2^63. Returns False
        when the index is full and the entry was not added. Adding an entry again has no effect."""
        bitmap = self.bitmaps.get(ledger_id)
        if bitmap is None:
            if self.is_full:
                return False
            bitmap = self.bitmaps[ledger_id] = BitMap()
        elif entry_id in bitmap:
            return True
        elif self.is_full:
            return False
        bitmap.add(entry_id)
        self._insert(due_ms, self._number_of(ledger_id) << _ENTRY_BITS | entry_id)
        return True

    def next_due_ms(self) -> int | None:
        return self._segments[0].times[0] if self._segments else None

    def in_order(self) -> Iterator[tuple[int, int, int]]:
        """Yields (due time, ledger, entry) for the entries in the index, the earliest first."""
        for segment in self._segments:
            for due_ms, place in zip(segment.times, segment.places, strict=True):
                ledger_id, entry_id = self._ledger_ids[place >> _ENTRY_BITS], place & _ENTRY_MASK
                if self.has(ledger_id, entry_id):
                    yield due_ms, ledger_id, entry_id

    def pop_due(self, now_ms: int, entries_max: int) -> dict[int, list[int]]:
        """Removes at most `entries_max` of the entries that are due, the earliest entries first. Returns ledger ->
        sorted entry ids."""
        due: dict[int, list[int]] = {}
        while self._segments and entries_max > 0:
            segment = self._segments[0]
            count = min(bisect_right(segment.times, now_ms), entries_max)
            if not count:
                break
            entries_max -= count
            self._count -= count
            for place in segment.places[:count]:
                ledger_id = self._ledger_ids[place >> _ENTRY_BITS]
                bitmap = self.bitmaps.get(ledger_id)
                entry_id = place & _ENTRY_MASK
                if bitmap is not None and entry_id in bitmap:
                    due.setdefault(ledger_id, []).append(entry_id)
            if count == len(segment.times):
                del self._segments[0], self._last_times[0]
            else:
                del segment.times[:count], segment.places[:count]
        for ledger_id, entry_ids in due.items():
            entry_ids.sort()
            bitmap = self.bitmaps[ledger_id]
            bitmap.difference_update(BitMap(entry_ids))
            if not bitmap:
                del self.bitmaps[ledger_id]
        if not self._segments:
            self._ledger_ids.clear()
            self._numbers.clear()
        return due

    def forget_before(self, ledger_id: int) -> None:
        """Called when the ledgers before `ledger_id` were deleted: forgets the entries of these ledgers."""
        gone = [known for known in self.bitmaps if known < ledger_id]
        for known in gone:
            del self.bitmaps[known]
        if gone and len(self) * 2 < self._count:
            self._drop_unknown()

    def pass_over(self, position: Position) -> Position:
        """Returns the first position at or after `position`, in the same ledger, that is not in the index. The log may
        have no entry at the returned position."""
        bitmap = self.bitmaps.get(position.ledger_id)
        if bitmap is None or position.entry_id not in bitmap:
            return position
        return Position(position.ledger_id, first_missing(bitmap, position.entry_id))

    def before(self, position: Position) -> Iterator[tuple[int, BitMap]]:
        """Yields (ledger, entries) for all entries in the index that stand before `position`."""
        for ledger_id, bitmap in self.bitmaps.items():
            if ledger_id < position.ledger_id:
                yield ledger_id, bitmap
            elif ledger_id == position.ledger_id:
                yield ledger_id, bitmap & BitMap(range(max(0, position.entry_id)))

    def _drop_unknown(self) -> None:
        """Removes from the segments the entries that are no longer in the bitmaps."""
        old, self._segments, self._last_times, self._count = self._segments, [], [], 0
        for segment in old:
            for due_ms, place in zip(segment.times, segment.places, strict=True):
                if self.has(self._ledger_ids[place >> _ENTRY_BITS], place & _ENTRY_MASK):
                    self._insert(due_ms, place)

    def _number_of(self, ledger_id: int) -> int:
        number = self._numbers.get(ledger_id)
        if number is None:
            number = self._numbers[ledger_id] = len(self._ledger_ids)
            self._ledger_ids.append(ledger_id)
        return number

    def _insert(self, due_ms: int, place: int) -> None:
        self._count += 1
        last_times = self._last_times
        index = bisect_left(last_times, due_ms)
        if index == len(last_times):
            if not last_times or len(self._segments[-1].times) >= SEGMENT_ENTRIES_MAX:
                # Mostly a new time is the largest time so far. Such a time begins a new segment instead of splitting a
                # full segment.
                self._segments.append(_Segment(array("q", (due_ms,)), array("Q", (place,))))
                last_times.append(due_ms)
                return
            index -= 1
        segment = self._segments[index]
        at = bisect_right(segment.times, due_ms)
        segment.times.insert(at, due_ms)
        segment.places.insert(at, place)
        if len(segment.times) > SEGMENT_ENTRIES_MAX:
            half = SEGMENT_ENTRIES_MAX // 2
            self._segments.insert(index + 1, _Segment(segment.times[half:], segment.places[half:]))
            last_times.insert(index + 1, segment.times[-1])
            del segment.times[half:], segment.places[half:]
        last_times[index] = segment.times[-1]
