"""FrameReader on streams that no capture holds: any sizes, any split, and peers that lie."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.wire.framing import FRAME_PADDING, MAX_MESSAGE_SIZE, Frame, FrameReader


def frame(command: bytes, rest: bytes = b"") -> bytes:
    sizes = (4 + len(command) + len(rest)).to_bytes(4, "big") + len(command).to_bytes(4, "big")
    return sizes + command + rest


def feed(reader: FrameReader, data: bytes) -> list[Frame]:
    """Feeds the data as a socket does: at most as much as the buffer takes, again and again."""
    frames = []
    while data:
        buffer = reader.get_buffer()
        assert len(buffer) > 0
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        frames += reader.received(size)
        data = data[size:]
    return frames


parts = st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.binary(max_size=90)), max_size=30)


@given(parts, st.lists(st.integers(1, 200), min_size=1), st.integers(16, 200))
def test_any_frames_in_any_reads_come_out_whole_and_in_order(
    messages: list[tuple[bytes, bytes]], reads: list[int], scratch_size: int
) -> None:
    stream = b"".join(frame(command, rest) for command, rest in messages)
    reader = FrameReader(scratch=bytearray(scratch_size))
    frames = []
    turn = 0
    while stream:
        size = reads[turn % len(reads)]
        frames += feed(reader, stream[:size])
        stream = stream[size:]
        turn += 1
    assert frames == [(command, rest or None) for command, rest in messages]


def test_frames_are_copies_that_the_next_read_does_not_change() -> None:
    scratch = bytearray(100)
    reader = FrameReader(scratch=scratch)
    frames = feed(reader, frame(b"command", b"payload"))
    scratch[:] = b"\xff" * 100
    assert frames == [(b"command", b"payload")]


def test_readers_that_share_a_buffer_do_not_mix_their_streams() -> None:
    scratch = bytearray(64)
    one, two = FrameReader(scratch=scratch), FrameReader(scratch=scratch)
    first, second = frame(b"first", b"x" * 30), frame(b"second", b"y" * 30)
    assert feed(one, first[:20]) == []
    assert feed(two, second[:30]) == []
    assert feed(one, first[20:]) == [(b"first", b"x" * 30)]
    assert feed(two, second[30:]) == [(b"second", b"y" * 30)]


def test_largest_frame_passes_and_one_byte_more_does_not() -> None:
    limit = MAX_MESSAGE_SIZE + FRAME_PADDING
    largest = frame(b"c", b"p" * (limit - 9))
    assert len(largest) == limit
    reader = FrameReader()
    assert feed(reader, largest) == [(b"c", b"p" * (limit - 9))]
    assert feed(reader, frame(b"next")) == [(b"next", None)]
    with pytest.raises(MalformedFrame, match="exceeds the limit"):
        feed(reader, frame(b"c", b"p" * (limit - 8)))


def test_small_buffer_serves_again_after_a_long_frame() -> None:
    reader = FrameReader(scratch=bytearray(1000))
    feed(reader, frame(b"c", b"p" * 50_000))
    assert len(reader.get_buffer()) == 1000


def test_small_limit_holds_for_frames_that_fit_the_read_buffer() -> None:
    reader = FrameReader(max_frame_size=100)
    assert feed(reader, frame(b"c", b"p" * 91)) == [(b"c", b"p" * 91)]
    with pytest.raises(MalformedFrame, match="exceeds the limit"):
        feed(reader, frame(b"c", b"p" * 92))


def test_sound_frames_before_a_bad_one_come_with_the_error() -> None:
    reader = FrameReader()
    with pytest.raises(MalformedFrame) as caught:
        feed(reader, frame(b"good", b"1") + frame(b"good") + b"\xff\xff\xff\xff")
    assert caught.value.frames == [(b"good", b"1"), (b"good", None)]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", id="http"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="tls hello"),
        pytest.param(b"\xff\xff\xff\xff", id="length only, absurd"),
        pytest.param(b"\x00\x00\x00\x00", id="empty frame"),
        pytest.param(b"\x00\x00\x00\x03abc", id="no room for the command's size"),
        pytest.param(b"\x00\x00\x00\x08\x00\x00\x00\x05abcd", id="command longer than its frame"),
        pytest.param(b"\x00\x00\x00\x08\xff\xff\xff\xffabcd", id="command absurdly long"),
        pytest.param(b"\x00\x10\x00\x00\x00\x0f\xff\xfd", id="long frame whose command is longer"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False])
def test_lying_lengths_are_told_as_soon_as_they_are_seen(data: bytes, at_once: bool) -> None:
    reader = FrameReader()
    pieces = [data] if at_once else [bytes((byte,)) for byte in data]

    def feed_all() -> None:
        for piece in pieces:
            feed(reader, piece)

    with pytest.raises(MalformedFrame):
        feed_all()


def test_message_of_another_protocol_is_shown_in_the_error() -> None:
    with pytest.raises(MalformedFrame, match="GET / HTTP"):
        feed(FrameReader(), b"GET / HTTP/1.1\r\n")


@given(st.binary(max_size=300))
def test_garbage_never_breaks_out_of_the_reader(data: bytes) -> None:
    reader = FrameReader(max_frame_size=200, scratch=bytearray(32))
    try:
        frames = feed(reader, data)
    except MalformedFrame:
        return
    assert data.startswith(b"".join(frame(command, rest or b"") for command, rest in frames))
