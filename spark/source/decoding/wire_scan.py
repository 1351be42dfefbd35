"""Finds the fields of many small protobuf messages that lie in one buffer, thousands at a time with numpy.

All messages are walked in step, one field of each at a time. Where their next fields have different tags, the messages
are walked in groups of one tag each:

    step       1          2              3
    message 0  publish    key            properties
    message 1  publish    key            properties
    message 2  publish    properties     (ended)

Every step is a few numpy calls for all messages, and messages that a producer wrote alike have their fields in the same
order. So the work hardly depends on how many messages there are.

A message that cannot be read in this way (it has a protobuf group, a length beyond its end, or a field whose number
takes more than two bytes) is marked odd and left to protobuf itself. Bad bytes raise nothing. Nothing is read outside
the buffer: each place is checked against its message's end before the next step, and PADDING covers what a single step
may read beyond that end.
"""

from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from magnetar.spark.source.decoding.arrow_arrays import column_of

Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

PADDING = 16
"""How many bytes a buffer has behind its content. Words of eight bytes are read from any place, also the last one."""
FIELDS_MAX = 64
"""A message with more fields than this is odd, because the walk takes a step for each of them."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_ONE = np.uint64(1)
_TOP_BITS = np.uint64(0x8080808080808080)
_LAST_BIT = np.uint64(1 << 63)
_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_SQUEEZES = tuple(  # see `varints`
    (np.uint64(low), np.uint64(high), np.uint64(shift))
    for low, high, shift in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


class Buffer:
    """Bytes, and views of them as numbers. `size` is the size of the content, without the padding."""

    __slots__ = ("big_words", "data", "octets", "size", "words")

    def __init__(self, padded: bytes) -> None:
        self.data = padded
        self.size = len(padded) - PADDING
        self.octets = np.frombuffer(padded, np.uint8)
        self.words = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
        """For each offset, the eight bytes that begin there as one little-endian number."""
        self.big_words = np.ndarray((len(padded) - 3,), ">u4", padded, strides=(1,))
        """For each offset, the four bytes that begin there as a big-endian number, which is how Pulsar writes sizes."""

    def sizes_at(self, places: Ints) -> Ints:
        return self.big_words[places].astype(np.int64)

    def values(self, starts: Ints, stops: Ints, present: Bools | None = None) -> pa.BinaryArray:
        """Returns the bytes between each start and stop as a column, null where not `present`. Each value is copied
        once.

        The column of pieces has the buffer itself for its content, and for borders start, stop, start, stop …. So every
        second piece is a value, and the pieces between are what lies between two values:

            borders   start₀ stop₀ start₁ stop₁ …
            pieces     value₀  gap₀  value₁ …

        `take` then copies the values alone. Borders have to ascend, so values that stand in another order are sorted
        first.
        """
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
            return pieces.take(column_of(indexes))
        wanted = np.zeros(count, np.int64)
        wanted[present] = indexes
        return pieces.take(column_of(wanted, present))


class Scan:
    """The fields that were found, by their numbers. A field that a message does not have is 0 in `numbers`, and empty
    in `places`."""

    __slots__ = ("count", "has", "numbers", "odd", "places", "repeated")

    def __init__(self, count: int) -> None:
        self.count = count
        self.numbers: dict[int, Ints] = {}
        """The values of varint fields. The dictionaries `numbers`, `has` and `places` have no item for a field that no
        message has."""
        self.has: dict[int, Bools] = {}
        """Which messages have the varint field."""
        self.places: dict[int, tuple[Ints, Ints, Bools]] = {}
        """Where byte fields start and stop, and which messages have them."""
        self.repeated: list[tuple[Ints, Ints, Ints]] = []
        """All finds of the repeated field, in groups: the numbers of the messages, and where the field starts and
        stops."""
        self.odd = np.zeros(count, np.bool_)

    def number(self, field: int) -> Ints | None:
        return self.numbers.get(field)

    def flags(self, field: int) -> Bools | None:
        """Returns which messages have a number other than 0 in a varint field, or None when there are no such
        messages."""
        found = self.numbers.get(field)
        return None if found is None or not found.any() else found != 0

    def pick(self, indexes: Ints) -> "Scan":
        """Returns the finds in some of the messages, which get new numbers."""
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
    """One walk through messages. `rows` are the numbers of the messages that a step is about, None for all of them."""

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
            second[second == 0] = 255  # a tag with needless bytes: with 255 the message becomes odd
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
        """Notes a field that was asked for, and returns where the next field begins. For an odd message the returned
        place is beyond the message's end. The first two bytes of a longer tag give a tag above 2^14."""
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
    """Returns the `wanted` fields of the messages that stand between `starts` and `stops`, and all finds of one
    `repeated` field. When a message has a wanted field several times, the last one counts, as in protobuf. Finds in
    `odd` messages must not be used."""
    walk = _Walk(buffer, len(starts), wanted, repeated)
    walk.run(starts, stops)
    return walk.found


def varints(buffer: Buffer, at: Ints) -> tuple[Ints, Ints, Bools | None]:
    """Returns the varints that begin at `at`, where they end, and which are malformed (None: none is). Numbers from
    2^63 on come out negative, as protobuf's signed numbers do.

    A varint has seven bits a byte, the lowest first, and the top bit is set in all bytes but the last. The eight bytes
    from a place on are read as one word. The lowest byte without a top bit is the last of the varint; everything above
    it is masked out, and so are the top bits. The remaining word has groups of seven bits with a gap of one bit between
    each two. Three squeezes close the gaps, each by joining neighbours:

        0ggggggg 0fffffff 0eeeeeee 0ddddddd …     7 bits a byte
        00gggggg gfffffff 00eeeeee eddddddd …     14 bits in two bytes, then 28 in four, then 56 in eight

    A varint whose first eight bytes all have the top bit set needs its ninth and tenth byte, too, which are read
    separately.
    """
    first = buffer.octets[at]
    if first.max(initial=0) < 128:
        return first.astype(np.int64), at + 1, None
    words = buffer.words[at]
    ends = ~words & _TOP_BITS
    is_long = ends == 0
    ends[is_long] = _LAST_BIT
    last = ends & (~ends + _ONE)  # the lowest bit in `ends`: the top bit of the varint's last byte
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
    """Returns the varints of numbers that are not negative: a row of bytes for each number, and a mask of the bytes in
    each row that belong to the varint."""
    width = max(1, -(-int(values.max(initial=0)).bit_length() // 7))
    shifted = values[:, None] >> np.arange(0, 7 * width, 7)
    used = shifted > 0
    used[:, 0] = True
    octets = (shifted & 127).astype(np.uint8)
    octets[:, :-1] |= used[:, 1:].astype(np.uint8) << 7
    return octets, used
