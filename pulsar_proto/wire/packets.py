"""The byte stream of a bookie connection: u32 length and a packet of that many bytes, one after another.

Whoever reads walks over the bytes itself, so that an entry is cut out of a read once: `received` gives what is there,
`keep` takes back the unfinished rest. Facts: bookkeeper.md 1.1 (LengthFieldBasedFrameDecoder of BookKeeper 4.17).
"""

from collections.abc import Iterator
from typing import NamedTuple

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.wire.long_frame import LongFrame

PACKET_BYTES_MAX = 5_253_120
"""nettyMaxFrameSizeBytes as Pulsar sets it, the length word included (BookKeeper's own default is 5,242,880)."""
READ_BYTES = 262_144
"""Size of a read buffer; all connections of one loop can share one."""

LENGTH_BYTES = 4


class PacketReader:
    """The reading half of an asyncio.BufferedProtocol: `get_buffer`, then `received`, then `keep`.

    Between `get_buffer` and `received` nobody else may run, which every selector-based loop keeps; so connections can
    share a `scratch`. Between reads only the beginning of one packet is held: below the scratch's size as bytes, else
    as a `LongFrame`.
    """

    __slots__ = ("_limit", "_long", "_rest", "_view")

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX, scratch: bytearray | None = None) -> None:
        self._limit = packet_bytes_max - LENGTH_BYTES
        self._view = memoryview(bytearray(READ_BYTES) if scratch is None else scratch)
        self._rest = b""
        self._long: LongFrame | None = None

    def get_buffer(self, sizehint: int = -1) -> memoryview:
        """Where the next bytes go. Never empty; valid until `received`."""
        if self._long is not None:
            return self._long.room
        return self._view

    def received(self, nbytes: int) -> bytes:
        """What can be walked over now: whole packets and perhaps the beginning of one. Empty while a long one grows.

        The caller says with `keep` where it stopped, before the next read.
        """
        if self._long is not None:
            packet = self._long.received(nbytes)
            if packet is None:
                return b""
            self._long = None
            return bytes(packet)
        if self._rest:
            return b"".join((self._rest, self._view[:nbytes]))
        return bytes(self._view[:nbytes])

    def keep(self, data: bytes, start: int) -> None:
        """Keeps `data[start:]`, the beginning of a packet. Raises MalformedFrame when it announces too long a one."""
        rest = data[start:] if start < len(data) else b""
        self._rest = rest
        if len(rest) >= LENGTH_BYTES:
            size = int.from_bytes(rest[:LENGTH_BYTES], "big")
            if size > self._limit:
                raise MalformedFrame(f"packet of {size} bytes exceeds {self._limit}; it begins with {rest[:16]!r}")
            size += LENGTH_BYTES
            if size > len(self._view):
                self._rest = b""
                self._long = LongFrame(rest, size)

    def forget(self) -> None:
        """Nothing is kept of an unfinished packet: the stream has ended."""
        self._rest, self._long = b"", None


class Packet(NamedTuple):
    body: bytes
    end: int
    """Where the next packet begins."""


def packets(data: bytes) -> Iterator[Packet]:
    """The whole packets at the front of `data`, without their length words."""
    start, end = 0, len(data)
    while start + LENGTH_BYTES <= end:
        body = start + LENGTH_BYTES
        stop = body + int.from_bytes(data[start:body], "big")
        if stop > end:
            return
        yield Packet(data[body:stop], stop)
        start = stop
