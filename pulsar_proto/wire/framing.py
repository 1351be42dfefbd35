"""Cuts the byte stream of a client's connection into frames.

A frame is u32 totalSize | u32 cmdSize | command | rest, where totalSize counts everything after itself; see
docs/WIRE_FORMATS.md, "Frames between clients and brokers". The rest exists in SEND and MESSAGE only and is not looked
at here.
"""

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.wire.long_frame import LongFrame
from pulsar_proto.wire.read_buffer import LENGTH_BYTES, ReadBuffer

MAX_MESSAGE_SIZE = 5_242_880
"""Pulsar's default of maxMessageSize, in bytes."""
FRAME_PADDING = 10_240
"""By how many bytes a frame may be longer than the largest message: Commands.MESSAGE_SIZE_FRAME_PADDING, the limit of
Netty's frame decoder in Java brokers and clients."""
OWN_READ_BYTES = 65_536
"""The size in bytes of the read buffer of a reader that has a buffer of its own."""

Frame = tuple[bytes, bytes | None]
"""The pair (command, rest): the rest follows the command up to the frame's end; None stands for no rest."""

_HEAD_BYTES = 8


class FrameReader(ReadBuffer):
    """Cuts the bytes that a client's connection reads into frames. `ReadBuffer` describes how a read is done."""

    __slots__ = ()

    HEAD_BYTES = _HEAD_BYTES

    def __init__(
        self, max_frame_size: int = MAX_MESSAGE_SIZE + FRAME_PADDING, scratch: bytearray | None = None
    ) -> None:
        """`max_frame_size` is the length of the longest frame in bytes, the size word included."""
        super().__init__(max_frame_size, bytearray(OWN_READ_BYTES) if scratch is None else scratch)

    def received(self, nbytes: int) -> list[Frame]:
        """Takes the `nbytes` just read into the buffer; returns the frames that are complete now.

        Raises MalformedFrame, with the frames before the bad one as its `frames`; the reader is of no use afterwards.
        """
        if self._long is not None:
            return self._received_long(self._long, nbytes)
        rest = self._rest
        data = b"".join((rest, self._view[:nbytes])) if rest else bytes(self._view[:nbytes])
        frames: list[Frame] = []
        append = frames.append
        limit = self._limit
        end = len(data)
        last_head = end - _HEAD_BYTES
        start = 0
        while start <= last_head:
            # Compiled, this takes a third of the time of `struct`, which makes objects.
            total = data[start] << 24 | data[start + 1] << 16 | data[start + 2] << 8 | data[start + 3]
            command_size = data[start + 4] << 24 | data[start + 5] << 16 | data[start + 6] << 8 | data[start + 7]
            command_start = start + 8
            command_end = command_start + command_size
            stop = start + 4 + total
            if command_end < stop <= end and total <= limit:
                append((data[command_start:command_end], data[command_end:stop]))
            elif command_end == stop <= end and total <= limit:
                append((data[command_start:stop], None))
            else:
                break  # unfinished or malformed: `keep` tells which
            start = stop
        if start < end:
            try:
                self.keep(data, start)
            except MalformedFrame as error:
                error.frames = frames
                raise
        elif rest:
            self._rest = b""
        return frames

    def _received_long(self, long: LongFrame, nbytes: int) -> list[Frame]:
        frame = self._grown(long, nbytes)
        if frame is None:
            return []
        command_end = _HEAD_BYTES + int.from_bytes(frame[4:8], "big")
        return [
            (bytes(frame[_HEAD_BYTES:command_end]), bytes(frame[command_end:]) if command_end < len(frame) else None)
        ]

    def _frame_size(self, begin: bytes) -> int:
        return frame_size(begin, self._limit)


def frame_size(begin: bytes, limit: int) -> int:
    """Returns the size in bytes of the frame that begins with `begin`, or 0 when its size word has not come yet.

    `limit` bounds what follows the size word. Raises MalformedFrame when the sizes make no sense.
    """
    if len(begin) < LENGTH_BYTES:
        return 0
    total = int.from_bytes(begin[:4], "big")
    if total > limit:
        # Another protocol on this port shows as an absurd length: say what came.
        raise MalformedFrame(f"frame of {total} bytes exceeds the limit of {limit}; it begins with {begin[:16]!r}")
    if total < 4:
        raise MalformedFrame(f"frame of {total} bytes cannot hold its command's size")
    if len(begin) >= _HEAD_BYTES:
        command_size = int.from_bytes(begin[4:8], "big")
        if command_size > total - 4:
            raise MalformedFrame(f"frame of {total} bytes cannot hold its command of {command_size}")
    return total + LENGTH_BYTES
