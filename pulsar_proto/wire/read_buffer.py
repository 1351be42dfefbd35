"""The bytes that a connection keeps between two reads, for both protocols: the reading half of an
asyncio.BufferedProtocol.

The clients' protocol (`framing.FrameReader`) and the bookies' (`packets.PacketReader`) both send a length and that many
bytes, again and again. This module has the parts that both share: the memory for the next read, the beginning of an
unfinished frame, frames longer than one read, and the refusal of bad lengths. Each protocol cuts frames out of the
bytes in one function of its own: a shared one would cost a call more for each read, and most reads of an idle broker
bring a single frame.
"""

from abc import abstractmethod
from typing import ClassVar

from pulsar_proto.wire.long_frame import LongFrame

READ_BYTES = 262_144
"""The size in bytes of the read buffer that all connections of one loop can share; see ReadBuffer."""
LENGTH_BYTES = 4
"""Every frame begins with its length, a u32 that does not count itself."""


class ReadBuffer:  # no ABC, because it is compiled: see CONTRIBUTING.md
    """The read buffer of one connection. Its user calls `get_buffer` before a read from the socket, and then the
    subclass's `received` with the number of bytes.

    No other code may run between these two calls; every selector-based loop keeps to that. So one buffer (`scratch`)
    can serve all connections of a loop, and an idle connection holds none. Between reads only the beginning of one
    frame is kept: as bytes when the whole frame fits the scratch, else as a `LongFrame`.
    """

    __slots__ = ("_limit", "_long", "_rest", "_view")

    HEAD_BYTES: ClassVar[int]
    """How many bytes of a frame must have come before a `LongFrame` is begun for it."""

    def __init__(self, frame_bytes_max: int, scratch: bytearray) -> None:
        """`frame_bytes_max` is the length of the longest frame in bytes, the length word included. `scratch` is the
        buffer for reads, which other readers may share."""
        self._limit = frame_bytes_max - LENGTH_BYTES
        self._view = memoryview(scratch)
        self._rest = b""
        self._long: LongFrame | None = None

    @abstractmethod
    def _frame_size(self, begin: bytes) -> int:
        """Returns the size in bytes of the frame that begins with `begin`, length word included; 0 when the word has
        not come yet. Raises MalformedFrame for impossible sizes.
        """

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Returns the memory for the next bytes. That memory is never empty, and is valid until `received`."""
        if self._long is not None:
            return self._long.room
        return self._view

    def keep(self, data: bytes, start: int) -> None:
        """Keeps `data[start:]`, the beginning of a frame or nothing, until more has come.

        Raises MalformedFrame when the sizes in it, as far as they are here, make no sense; the reader is of no use
        afterwards.
        """
        if start == len(data):
            self._rest = b""
            return
        rest = data[start:] if start else data
        size = self._frame_size(rest)
        if len(rest) >= self.HEAD_BYTES and size > len(self._view):
            self._long = LongFrame(rest, size)
            rest = b""
        self._rest = rest

    def take_rest(self) -> bytes:
        """Returns the kept bytes of an unfinished frame and forgets them. Called when another object goes on reading
        from the connection."""
        rest = self._rest if self._long is None else self._long.begin
        self.forget()
        return rest

    def forget(self) -> None:
        """Drops the kept bytes of an unfinished frame. Called when the stream has ended."""
        self._rest, self._long = b"", None

    def _grown(self, long: LongFrame, nbytes: int) -> memoryview | None:
        """Adds what was just read to the long frame; returns the frame once it is whole."""
        frame = long.received(nbytes)
        if frame is not None:
            self._long = None
        return frame
