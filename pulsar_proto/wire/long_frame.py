"""Collects a frame that is longer than one read, in a buffer that grows with the bytes received.

A peer may announce any length and then send nothing. So the buffer is never larger than `_GROWTH` times what the peer
has really sent, or `_CAPACITY_MIN` bytes.
"""

_GROWTH = 4
_CAPACITY_MIN = 4_096


class LongFrame:
    """Collects one frame: the socket reads into `room`, and `received` is told how many bytes came."""

    __slots__ = ("_buffer", "_filled", "_size")

    def __init__(self, begin: bytes, size: int) -> None:
        """`begin` holds the bytes received so far of a frame of `size` bytes; some bytes are missing."""
        self._size = size
        self._filled = len(begin)
        self._buffer = memoryview(bytearray(self._capacity()))
        self._buffer[: len(begin)] = begin

    def _capacity(self) -> int:
        return min(self._size, max(self._filled * _GROWTH, _CAPACITY_MIN))

    @property
    def room(self) -> memoryview:
        """Returns the memory for the next bytes. That memory is never empty."""
        return self._buffer[self._filled :]

    @property
    def begin(self) -> bytes:
        """Returns the bytes received so far."""
        return bytes(self._buffer[: self._filled])

    def received(self, nbytes: int) -> memoryview | None:
        """Counts the bytes that were read into `room`; returns the whole frame once all of it is there."""
        self._filled += nbytes
        if self._filled == self._size:
            return self._buffer
        if self._filled == len(self._buffer):
            before, self._buffer = self._buffer, memoryview(bytearray(self._capacity()))
            self._buffer[: self._filled] = before
        return None
