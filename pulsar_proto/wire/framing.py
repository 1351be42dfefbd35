"""Cuts the byte stream of a client's connection into frames.

A frame is u32 totalSize | u32 cmdSize | command | rest; totalSize counts everything after itself (facts 1.1). The rest
exists in SEND and MESSAGE only and is not looked at here.
"""

from struct import Struct

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.wire.long_frame import LongFrame

MAX_MESSAGE_SIZE = 5_242_880
"""Bytes; Pulsar's maxMessageSize."""
FRAME_PADDING = 10_240
"""Bytes that a frame may be longer than the largest message: Netty's limit in Java brokers and clients."""
READ_SIZE = 262_144
"""Bytes of a read buffer that all connections of one loop share; see FrameReader."""
OWN_READ_SIZE = 65_536
"""Bytes of the read buffer of a reader that shares none."""

Frame = tuple[bytes, bytes | None]
"""(command, what follows it up to the frame's end, or None when nothing does)."""

_SIZES = Struct(">II")
_TOTAL_BYTES = 4
_HEAD_BYTES = 8


class FrameReader:
    """The reading half of an asyncio.BufferedProtocol: `get_buffer` before a read, `received` after it.

    Between the two nobody else may run, which every selector-based loop keeps; so one buffer (`scratch`) can serve all
    connections of a loop, and an idle connection holds none. What is kept between reads is the beginning of one frame:
    below the scratch's size as bytes, else as a `LongFrame`.
    """

    __slots__ = ("_limit", "_long", "_rest", "_view")

    def __init__(
        self, max_frame_size: int = MAX_MESSAGE_SIZE + FRAME_PADDING, scratch: bytearray | None = None
    ) -> None:
        """`max_frame_size`: bytes, the size word included."""
        self._limit = max_frame_size - _TOTAL_BYTES
        self._view = memoryview(bytearray(OWN_READ_SIZE) if scratch is None else scratch)
        self._rest = b""
        self._long: LongFrame | None = None

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Where the next bytes go. Never empty; valid until `received`."""
        if self._long is not None:
            return self._long.room
        return self._view

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
        unpack_sizes = _SIZES.unpack_from
        limit = self._limit
        end = len(data)
        last_head = end - _HEAD_BYTES
        start = 0
        while start <= last_head:
            total, command_size = unpack_sizes(data, start)
            command_start = start + 8
            command_end = command_start + command_size
            stop = start + 4 + total
            if command_end < stop <= end and total <= limit:
                append((data[command_start:command_end], data[command_end:stop]))
            elif command_end == stop <= end and total <= limit:
                append((data[command_start:stop], None))
            else:
                break
            start = stop
        if start < end:
            self._keep(data, start, frames)
        elif rest:
            self._rest = b""
        return frames

    def _keep(self, data: bytes, start: int, frames: list[Frame]) -> None:
        """Keeps the unfinished frame at `start`, once its size words, as far as they are here, make sense."""
        rest = data[start:] if start else data
        size = frame_size(rest, self._limit, frames)
        if len(rest) >= _HEAD_BYTES and size > len(self._view):
            self._long = LongFrame(rest, size)
            rest = b""
        self._rest = rest

    def take_rest(self) -> bytes:
        """What is kept of an unfinished frame; somebody else reads on."""
        rest = self._rest if self._long is None else self._long.begin
        self.forget()
        return rest

    def forget(self) -> None:
        """Nothing is kept of an unfinished frame: the stream has ended."""
        self._rest, self._long = b"", None

    def _received_long(self, long: LongFrame, nbytes: int) -> list[Frame]:
        frame = long.received(nbytes)
        if frame is None:
            return []
        self._long = None
        command_end = _HEAD_BYTES + int.from_bytes(frame[4:8], "big")
        return [
            (bytes(frame[_HEAD_BYTES:command_end]), bytes(frame[command_end:]) if command_end < len(frame) else None)
        ]


def frame_size(begin: bytes, limit: int, before: list[Frame] | None = None) -> int:
    """How long the frame is that begins so, in bytes, or 0 where that has not come yet. `limit`: of what follows the
    first size word. Raises MalformedFrame, with the frames `before` it, when its sizes make no sense."""
    frames = before or []
    if len(begin) < _TOTAL_BYTES:
        return 0
    total = int.from_bytes(begin[:4], "big")
    if total > limit:
        raise MalformedFrame(_too_long(total, limit, begin), frames)
    if total < 4:
        raise MalformedFrame(f"frame of {total} bytes cannot hold its command's size", frames)
    if len(begin) >= _HEAD_BYTES:
        command_size = int.from_bytes(begin[4:8], "big")
        if command_size > total - 4:
            raise MalformedFrame(f"frame of {total} bytes cannot hold its command of {command_size}", frames)
    return total + _TOTAL_BYTES


def _too_long(total: int, limit: int, begin: bytes) -> str:
    """Another protocol on this port shows as an absurd length: say what came."""
    return f"frame of {total} bytes exceeds the limit of {limit}; it begins with {begin[:16]!r}"
