"""Cuts the byte stream of a bookie connection into packets: u32 length and that many bytes, one after another.

The caller walks over the bytes itself, so that an entry is cut out of a read once: `PacketReader.received` returns the
bytes received, and `keep` takes back the unfinished rest. See docs/WIRE_FORMATS.md, "Packets between brokers and
bookies".
"""

from collections.abc import Iterator
from typing import NamedTuple

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.wire.read_buffer import LENGTH_BYTES, READ_BYTES, ReadBuffer

PACKET_BYTES_MAX = 5_253_120
"""nettyMaxFrameSizeBytes as Pulsar sets it, the length word included (BookKeeper's own default is 5,242,880)."""


class PacketReader(ReadBuffer):
    """Hands the bytes that a bookie connection reads to the caller, who splits them into packets. `ReadBuffer`
    describes how a read is done.

    After each `received` the caller says with `keep` where it stopped, before the next read.
    """

    __slots__ = ()

    HEAD_BYTES = LENGTH_BYTES

    def __init__(self, packet_bytes_max: int = PACKET_BYTES_MAX, scratch: bytearray | None = None) -> None:
        """`packet_bytes_max` is the length of the longest packet in bytes, the length word included."""
        super().__init__(packet_bytes_max, bytearray(READ_BYTES) if scratch is None else scratch)

    def received(self, nbytes: int) -> bytes:
        """Returns the bytes to split now: whole packets and perhaps the beginning of one. The result is empty while
        a long packet grows.
        """
        if self._long is not None:
            packet = self._grown(self._long, nbytes)
            return b"" if packet is None else bytes(packet)
        if self._rest:
            return b"".join((self._rest, self._view[:nbytes]))
        return bytes(self._view[:nbytes])

    def _frame_size(self, begin: bytes) -> int:
        if len(begin) < LENGTH_BYTES:
            return 0
        size = int.from_bytes(begin[:LENGTH_BYTES], "big")
        if size > self._limit:
            raise MalformedFrame(f"packet of {size} bytes exceeds {self._limit}; it begins with {begin[:16]!r}")
        return size + LENGTH_BYTES


class Packet(NamedTuple):
    """One packet of a read, without its length word."""

    body: bytes
    end: int
    """The offset at which the next packet begins."""


def packets(data: bytes) -> Iterator[Packet]:
    """Yields the whole packets at the front of `data`, one after another."""
    start, end = 0, len(data)
    while start + LENGTH_BYTES <= end:
        body = start + LENGTH_BYTES
        stop = body + int.from_bytes(data[start:body], "big")
        if stop > end:
            return
        yield Packet(data[body:stop], stop)
        start = stop
