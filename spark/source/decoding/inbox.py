"""Holds the bytes that came from a broker and were not decoded yet. Frames are found thousands at a time, as places in
one buffer.

This module serves connections that read messages. Answers to requests go through `pulsar_proto.wire.framing`.
"""

from struct import Struct

import numpy as np

from magnetar.spark.source.decoding.wire_scan import PADDING, Buffer, Ints
from pulsar_proto.wire.framing import frame_size

BLOCK_BYTES = 4 << 20
"""How many bytes are collected before they are decoded, provided that they come without a pause."""
ROOM_BYTES = 1 << 20
"""The space of the buffer beyond a block, for the end of the last read."""
_FIRST_BYTES = 1 << 16
_GROWTH = 4
_RUN_MIN = 8

_sizes_at = Struct(">II").unpack_from


class Inbox:
    """Holds received bytes. The memory of an inbox grows with the bytes that have come, not with a size that a peer
    announces."""

    def __init__(self, limit: int, begin: bytes = b"") -> None:
        """`limit` is the length of the longest frame in bytes, without its first size word. `begin` holds the bytes
        that have come already."""
        self._limit = limit
        self._buffer = bytearray(max(_FIRST_BYTES, len(begin)) + PADDING)
        self._buffer[: len(begin)] = begin
        self._filled = len(begin)

    def room(self) -> memoryview:
        """Returns the space for the next bytes, which is never empty. `received` says how many were written there."""
        free = len(self._buffer) - PADDING - self._filled
        if free < ROOM_BYTES // 4 and self._filled < max(BLOCK_BYTES, self._limit):
            wanted = min(max(self._filled, _FIRST_BYTES) * _GROWTH, max(BLOCK_BYTES, self._limit) + ROOM_BYTES)
            self._buffer += bytes(max(0, wanted + PADDING - len(self._buffer)))
        return memoryview(self._buffer)[self._filled : len(self._buffer) - PADDING]

    def received(self, count: int) -> None:
        self._filled += count

    @property
    def is_full(self) -> bool:
        return self._filled >= BLOCK_BYTES

    def has_frame(self) -> bool:
        """Returns whether a whole frame has come. Raises MalformedFrame for a frame whose sizes make no sense."""
        size = frame_size(bytes(self._buffer[: min(16, self._filled)]), self._limit)
        return 8 <= size <= self._filled

    def take(self) -> tuple[Buffer, Ints]:
        """Returns a copy of the received bytes, and where the whole frames in them begin. Bytes after the last whole
        frame are kept; if they begin a frame whose sizes make no sense, the next `has_frame` raises."""
        buffer = Buffer(bytes(memoryview(self._buffer)[: self._filled + PADDING]))
        frames, end = whole_frames(buffer, self._filled, self._limit)
        self._buffer[: self._filled - end] = buffer.data[end : self._filled]
        self._filled -= end
        return buffer, frames


def whole_frames(buffer: Buffer, end: int, limit: int) -> tuple[Ints, int]:
    """Returns where frames begin, and where the last of them ends. The search stops before a frame that is incomplete,
    or whose sizes make no sense.

    Frames of equal messages have equal sizes. When two neighbouring frames have equal sizes, one comparison in numpy
    finds all following frames of these sizes:

        at             at + step      at + 2 step    …
        [total][cmd]…  [total][cmd]…  [total][cmd]…      step = total + 4

    The comparison looks at both size words wherever a frame would begin, so a run of equal frames ends before the first
    place where the sizes differ. After a short run, no comparison is made for the next 16 times as many bytes.
    """
    data = buffer.data
    runs: list[Ints] = []
    places: list[int] = []
    at, retry, before = 0, 0, (-1, -1)
    while at + 8 <= end:
        sizes = _sizes_at(data, at)
        total, command = sizes
        if at + 4 + total > end or command + 4 > total or total > limit:
            break
        if sizes == before and at >= retry:
            run = _equal(buffer, at, sizes, end)
            if run >= _RUN_MIN:
                runs += [np.array(places, np.int64), np.arange(at, at + run * (total + 4), total + 4)]
                places = []
                at += run * (total + 4)
                continue
            retry = at + 16 * run * (total + 4)  # where lengths vary, a comparison at each frame would cost too much
        before = sizes
        places.append(at)
        at += total + 4
    runs.append(np.array(places, np.int64))
    return np.concatenate(runs), at


def _equal(buffer: Buffer, at: int, sizes: tuple[int, int], end: int) -> int:
    """Returns how many frames from `at` on have the same sizes."""
    step = sizes[0] + 4
    rows = np.ndarray(((end - at) // step, 2), ">u4", buffer.data, at, (step, 4))
    same = (rows == np.array(sizes)).all(axis=1)
    return len(same) if same.all() else int(same.argmin())
