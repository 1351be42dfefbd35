"""A frame that is longer than one read: collected in a buffer that grows with what has come.

A peer may announce any length and then send nothing, so memory follows what it has really sent: never more than
`_GROWTH` times that, or `_CAPACITY_MIN` bytes.
"""

_GROWTH = 4
_CAPACITY_MIN = 4_096


class LongFrame:
    """`room` before each read, `received` after it."""

    __slots__ = ("_buffer", "_filled", "_size")

    def __init__(self, begin: bytes, size: int) -> None:
        """`begin` is what has come of a frame of `size` bytes, and not all of it."""
        self._size = size
        self._filled = len(begin)
        self._buffer = memoryview(bytearray(self._capacity()))
        self._buffer[: len(begin)] = begin

    def _capacity(self) -> int:
        return min(self._size, max(self._filled * _GROWTH, _CAPACITY_MIN))

    @property
    def room(self) -> memoryview:
        """Where the next bytes go. Never empty."""
        return self._buffer[self._filled :]

    @property
    def begin(self) -> bytes:
        """What has come."""
        return bytes(self._buffer[: self._filled])

    def received(self, nbytes: int) -> memoryview | None:
        """The whole frame, once it is there."""
        self._filled += nbytes
        if self._filled == self._size:
            return self._buffer
        if self._filled == len(self._buffer):
            before, self._buffer = self._buffer, memoryview(bytearray(self._capacity()))
            self._buffer[: self._filled] = before
        return None
