"""Cutting packets out of a stream: any fragmentation, long packets, and lengths that lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.wire.packets import PacketReader, packets


def feed(reader: PacketReader, data: bytes, sizes: list[int]) -> list[bytes]:
    """Returns the packets that come out when `data` arrives in reads of these sizes (the last one repeats)."""
    found: list[bytes] = []
    start = turn = 0
    while start < len(data):
        buffer = reader.get_buffer()
        count = min(sizes[min(turn, len(sizes) - 1)], len(buffer), len(data) - start)
        buffer[:count] = data[start : start + count]
        start += count
        turn += 1
        there = reader.received(count)
        stop = 0
        for packet in packets(there):
            found.append(packet.body)
            stop = packet.end
        reader.keep(there, stop)
    return found


def stream(bodies: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(
    bodies=st.lists(st.binary(max_size=200), max_size=12),
    sizes=st.lists(st.integers(1, 100), min_size=1, max_size=8),
    scratch=st.integers(16, 64),
)
def test_packets_come_out_whole_and_in_order_however_they_arrive(
    bodies: list[bytes], sizes: list[int], scratch: int
) -> None:
    assert feed(PacketReader(1000, bytearray(scratch)), stream(bodies), sizes) == bodies


def test_a_packet_as_long_as_the_limit_is_taken_and_a_longer_one_is_not() -> None:
    assert feed(PacketReader(1000, bytearray(64)), stream([bytes(996)]), [50]) == [bytes(996)]
    with pytest.raises(MalformedFrame, match="997 bytes exceeds 996"):
        feed(PacketReader(1000, bytearray(64)), stream([bytes(997)]), [50])


def test_another_protocol_is_refused_at_its_first_bytes() -> None:
    with pytest.raises(MalformedFrame, match="GET / HTTP"):
        feed(PacketReader(), b"GET / HTTP/1.1\r\n", [16])


def test_readers_share_a_scratch_and_keep_their_own_beginnings() -> None:
    scratch = bytearray(64)
    first, second = PacketReader(100, scratch), PacketReader(100, scratch)
    assert feed(first, b"\0\0\0\x03a", [5]) == []
    assert feed(second, stream([b"second"]), [100]) == [b"second"]
    assert feed(first, b"bc", [2]) == [b"abc"]
