"""What the readers of both protocols hold of an unfinished frame is in proportion to what has come of it."""

import tracemalloc
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.wire.framing import MAX_MESSAGE_SIZE, FrameReader
from pulsar_proto.wire.long_frame import LongFrame
from pulsar_proto.wire.packets import PacketReader
from pulsar_proto.wire.read_buffer import READ_BYTES

FRAME = MAX_MESSAGE_SIZE.to_bytes(4, "big") + (100).to_bytes(4, "big") + bytes(MAX_MESSAGE_SIZE - 4)
READERS = 50
GROWTH = 4
FLOOR = 8_192
"""Bytes that a reader may hold which has got next to nothing."""


class Reader(Protocol):
    def get_buffer(self, sizehint: int = -1) -> memoryview: ...

    def forget(self) -> None: ...


def frame_reader(scratch: bytearray) -> Reader:
    return FrameReader(scratch=scratch)


def packet_reader(scratch: bytearray) -> Reader:
    return PacketReader(scratch=scratch)


def give(reader: Reader, data: bytes) -> None:
    """Gives the data as a socket does: in reads of what the buffer takes."""
    while data:
        buffer = reader.get_buffer()
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        if isinstance(reader, PacketReader):
            reader.keep(reader.received(size), 0)
        else:
            assert isinstance(reader, FrameReader)
            reader.received(size)
        data = data[size:]


@pytest.mark.parametrize("came", [8, 100, 5_000, 300_000])
@pytest.mark.parametrize("make", [frame_reader, packet_reader])
def test_memory_follows_what_has_come_and_a_reader_that_forgets_holds_nothing(make: object, came: int) -> None:
    assert callable(make)
    scratch = bytearray(READ_BYTES)
    readers: list[Reader] = [make(scratch) for _ in range(READERS)]
    tracemalloc.start()
    try:
        for reader in readers:
            give(reader, FRAME[:came])
        taken, _ = tracemalloc.get_traced_memory()
        assert taken <= READERS * (came * GROWTH + FLOOR)
        for reader in readers:
            reader.forget()
        assert len(readers[0].get_buffer()) == READ_BYTES
        left, _ = tracemalloc.get_traced_memory()
        assert left <= READERS * FLOOR
    finally:
        tracemalloc.stop()


@given(st.binary(min_size=1, max_size=30_000), st.lists(st.integers(1, 9_000), min_size=1, max_size=30))
def test_a_frame_is_put_together_from_any_reads(data: bytes, sizes: list[int]) -> None:
    begin = data[: min(sizes[0], len(data) - 1)]
    long = LongFrame(begin, len(data))
    rest, turn = data[len(begin) :], 0
    while rest:
        assert long.begin == data[: len(data) - len(rest)]
        room = long.room
        size = min(len(room), len(rest), sizes[turn % len(sizes)])
        room[:size] = rest[:size]
        rest, turn = rest[size:], turn + 1
        whole = long.received(size)
        assert (whole is None) == bool(rest)
    assert whole is not None
    assert bytes(whole) == data
