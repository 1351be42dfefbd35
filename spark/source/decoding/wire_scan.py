"""Protobuf messages by the thousand: the fields of many small messages that lie in one buffer, found with numpy.

All messages are walked in step, a field at a time; those whose next field differs are walked in groups. What cannot be
read so (a group, a length that lies, a field's number beyond two bytes) is marked odd and left to protobuf itself.
Nothing is raised for bad bytes and nothing is read outside the buffer.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

PADDING = 16
"""Bytes that a buffer has behind its content: words are read as a whole, up to the last byte."""
FIELDS_MAX = 64
"""A message with more fields than this is odd: the walk takes a step a field."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ONE = np.uint64(1)
_TOP_BITS = np.uint64(0x8080808080808080)
_LAST_BIT = np.uint64(1 << 63)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_SQUEEZES = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


class Buffer:
    """Bytes, and the same as numbers. `size`: the content's, the padding not counted."""

    __slots__ = ("big_words", "data", "octets", "size", "words")

    def __init__(self, padded: bytes) -> None:
        self.data = padded
        self.size = len(padded) - PADDING
        self.octets = np.frombuffer(padded, np.uint8)
        self.words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
        """The eight bytes from each place on."""
        self.big_words = np.ndarray((len(padded) - 3,), ">u4", padded, strides=(1,))
        """The four bytes from each place on, as Pulsar's sizes have them."""

    def sizes_at(self, places: Ints) -> Ints:
        return self.big_words[places].astype(np.int64)

    def values(self, starts: Ints, stops: Ints, present: Bools | None = None) -> pa.BinaryArray:
        """The bytes between; null where not `present`. A single copy of each."""
        count = len(starts)
        if present is not None:
            starts, stops = starts[present], stops[present]
        indexes = np.arange(0, 2 * len(starts), 2, dtype=np.int64)
        if len(starts) and (starts[1:] < stops[:-1]).any():
            order = np.argsort(starts, kind="stable")
            starts, stops = starts[order], stops[order]
            indexes[order] = indexes.copy()
        borders = np.zeros(2 * len(starts) + 1, np.int32)
        borders[0:-1:2], borders[1::2] = starts, stops
        borders[-1] = borders[-2] if len(starts) else 0
        pieces = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * len(starts), [None, pa.py_buffer(borders), pa.py_buffer(self.data)]
        )
        if present is None:
            return pieces.take(pa.array(indexes))
        wanted = np.zeros(count, np.int64)
        wanted[present] = indexes
        return pieces.take(pa.array(wanted, mask=~present))


class Scan:
    """What was found, by field number. Absent fields of a message are 0, and their `starts` equal their `stops`."""

    __slots__ = ("count", "has", "numbers", "odd", "places", "repeated")

    def __init__(self, count: int) -> None:
        self.count = count
        self.numbers: dict[int, Ints] = {}
        """Varints. A field that no message has is missing; so it is below."""
        self.has: dict[int, Bools] = {}
        """Which messages have the number."""
        self.places: dict[int, tuple[Ints, Ints, Bools]] = {}
        """Byte fields: where they start and stop, and which messages have them."""
        self.repeated: list[tuple[Ints, Ints, Ints]] = []
        """Each find of the repeated field: (message, start, stop)."""
        self.odd = np.zeros(count, np.bool_)

    def number(self, field: int) -> Ints | None:
        return self.numbers.get(field)

    def flags(self, field: int) -> Bools | None:
        """Which messages have a number other than 0; None: no message."""
        found = self.numbers.get(field)
        return None if found is None or not found.any() else found != 0

    def pick(self, indexes: Ints) -> "Scan":
        """The same of some messages."""
        picked = Scan(len(indexes))
        picked.numbers = {field: values[indexes] for field, values in self.numbers.items()}
        picked.has = {field: present[indexes] for field, present in self.has.items()}
        picked.places = {
            field: (starts[indexes], stops[indexes], present[indexes])
            for field, (starts, stops, present) in self.places.items()
        }
        picked.odd = self.odd[indexes]
        numbers = np.full(self.count, -1, np.int64)
        numbers[indexes] = np.arange(len(indexes))
        for messages, starts, stops in self.repeated:
            kept = numbers[messages] >= 0
            picked.repeated.append((numbers[messages][kept], starts[kept], stops[kept]))
        return picked

    def _put_number(self, field: int, rows: Ints | None, value: Ints) -> None:
        if rows is None:
            self.numbers[field], self.has[field] = value, np.ones(self.count, np.bool_)
            return
        if field not in self.numbers:
            self.numbers[field], self.has[field] = np.zeros(self.count, np.int64), np.zeros(self.count, np.bool_)
        self.numbers[field][rows], self.has[field][rows] = value, True

    def _put_place(self, field: int, rows: Ints | None, start: Ints, stop: Ints) -> None:
        if rows is None:
            self.places[field] = (start, stop, np.ones(self.count, np.bool_))
            return
        if field not in self.places:
            empty = np.zeros(self.count, np.int64)
            self.places[field] = (empty, empty.copy(), np.zeros(self.count, np.bool_))
        starts, stops, present = self.places[field]
        starts[rows], stops[rows], present[rows] = start, stop, True


class _Walk:
    def __init__(self, buffer: Buffer, count: int, wanted: Collection[int], repeated: int) -> None:
        self._buffer = buffer
        self._wanted = wanted
        self._repeated = repeated
        self.found = Scan(count)

    def run(self, at: Ints, stops: Ints) -> None:
        rows: Ints | None = None
        for _ in range(FIELDS_MAX):
            alive = at < stops
            if not alive.all():
                over = at > stops
                if over.any():
                    self._odd(rows, over)
                at, stops = at[alive], stops[alive]
                rows = np.flatnonzero(alive) if rows is None else rows[alive]
            if not len(at):
                return
            at = self._step(rows, at, stops)
        self._odd(rows, np.ones(len(at), np.bool_))

    def _odd(self, rows: Ints | None, which: Bools) -> None:
        self.found.odd[which if rows is None else rows[which]] = True

    def _step(self, rows: Ints | None, at: Ints, stops: Ints) -> Ints:
        tags = self._buffer.octets[at].astype(np.int64)
        if tags.max() > 127:
            second = self._buffer.octets[at + 1].astype(np.int64)
            second[second == 0] = 255  # an overlong tag: odd
            tags = np.where(tags > 127, tags & 127 | second << 7, tags)
        first = int(tags[0])
        if (tags == first).all():
            return self._field(first, rows, at, stops)
        after = np.empty_like(at)
        for tag in np.unique(tags).tolist():
            same = np.flatnonzero(tags == tag)
            after[same] = self._field(tag, same if rows is None else rows[same], at[same], stops[same])
        return after

    def _field(self, tag: int, rows: Ints | None, at: Ints, stops: Ints) -> Ints:
        """Where the next field begins. A tag of three bytes or more shows as one above 2^14."""
        field, kind = tag >> 3, tag & 7
        at = at + (1 if tag < 128 else 2)
        if tag >= 1 << 14 or field == 0 or kind not in (_VARINT, _FIXED64, _BYTES, _FIXED32):
            return stops + 1
        if kind in (_FIXED32, _FIXED64):
            return at + (4 if kind == _FIXED32 else 8)
        value, after, bad = varints(self._buffer, np.minimum(at, stops))
        if kind == _BYTES:
            stop = after + value
            lies = (stop > stops) | (value < 0)
            bad = lies if bad is None else bad | lies
            if field in self._wanted:
                self.found._put_place(field, rows, after, stop)
            elif field == self._repeated:
                messages = np.arange(len(at)) if rows is None else rows
                self.found.repeated.append((messages, after, stop))
            after = stop
        elif field in self._wanted:
            self.found._put_number(field, rows, value)
        return after if bad is None or not bad.any() else np.where(bad, stops + 1, after)


def scan(buffer: Buffer, starts: Ints, stops: Ints, wanted: Collection[int], repeated: int = 0) -> Scan:
    """The `wanted` fields of the messages that stand between `starts` and `stops`, and all finds of one `repeated`
    field. As in protobuf, the last of several finds counts. What stands in `odd` messages is of no use."""
    walk = _Walk(buffer, len(starts), wanted, repeated)
    walk.run(starts, stops)
    return walk.found


def varints(buffer: Buffer, at: Ints) -> tuple[Ints, Ints, Bools | None]:
    """(the varints that begin at `at`, where they end, which are no varints; None: all are). Those from 2^63 on come
    out negative, as protobuf's signed numbers do."""
    first = buffer.octets[at]
    if first.max(initial=0) < 128:
        return first.astype(np.int64), at + 1, None
    words = buffer.words[at]
    ends = ~words & _TOP_BITS
    is_long = ends == 0
    ends[is_long] = _LAST_BIT
    last = ends & (~ends + _ONE)  # its lowest bit: the top bit of the last byte
    sizes = (np.frexp(last.astype(np.float64))[1] >> 3).astype(np.int64)
    numbers = words & (last | (last - _ONE)) & _LOW_BITS
    for low, high, shift in _SQUEEZES:
        numbers = numbers & low | (numbers & high) >> shift
    bad = None
    if is_long.any():
        ninth, tenth = (buffer.octets[at[is_long] + more].astype(np.uint64) for more in (8, 9))
        goes_on = ninth > 127
        tenth[~goes_on] = 0
        numbers[is_long] |= (ninth & np.uint64(127)) << np.uint64(56) | tenth << np.uint64(63)
        sizes[is_long] = 9 + goes_on
        bad = is_long.copy()
        bad[is_long] = tenth > 127
    return numbers.view(np.int64), at + sizes, bad


def varint_bytes(values: Ints) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], Bools]:
    """The reverse, for numbers from 0 on: (a row of bytes a number, which of them are its)."""
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    shifted = values[:, None] >> np.arange(0, 7 * width, 7)
    used = shifted > 0
    used[:, 0] = True
    octets = (shifted & 127).astype(np.uint8)
    octets[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    return octets, used
