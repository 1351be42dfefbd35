"""The frames of a peer: what comes out of bytes that come in any pieces, and what a peer may not send (RFC 6455)."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.websocket.peer_frames import FRAMES_A_STEP, EndKind, PeerEnd, PeerFrames
from tests.server.websocket.client_frames import frame

SIZE_MAX = 100_000
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MASKS = st.binary(min_size=4, max_size=4)


def in_pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


def texts_of(frames: PeerFrames, pieces: list[bytes]) -> list[bytes]:
    texts = [bytes(text) for piece in pieces for text in frames.take(piece)]
    while frames.has_more:
        texts += map(bytes, frames.take(b""))
    return texts


@st.composite
def messages(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A text, and the frames in which it comes: one or several, with pings and pongs between them."""
    text = draw(st.binary(max_size=300)) * draw(st.sampled_from([1, 1, 1, 2, 300]))
    parts = in_pieces(text, draw(st.lists(st.integers(0, 2**20), max_size=3))) or [b""]
    data = b""
    for index, part in enumerate(parts):
        if draw(st.booleans()):
            data += frame(draw(st.sampled_from([PING, PONG])), draw(st.binary(max_size=125)), mask=draw(MASKS))
        data += frame(0 if index else TEXT, part, final=index == len(parts) - 1, mask=draw(MASKS))
    return text, data


@given(st.lists(messages(), max_size=8), st.lists(st.integers(0, 2**20), max_size=12))
def test_texts_come_out_whole_and_in_order_in_whatever_pieces_their_bytes_came(
    sent: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    frames = PeerFrames(SIZE_MAX)
    data = b"".join(data for _, data in sent) + frame(CLOSE, b"\x03\xe8bye")
    assert texts_of(frames, in_pieces(data, cuts)) == [text for text, _ in sent]
    assert frames.end == PeerEnd(EndKind.CLOSED, 1000, "bye")


def test_texts_come_out_whole_when_their_bytes_come_one_by_one() -> None:
    frames = PeerFrames(SIZE_MAX)
    texts = [b"", b"x" * 125, b"y" * 126, b"z" * 65_536]
    data = b"".join(frame(TEXT, text) for text in texts)
    assert texts_of(frames, [data[at : at + 1] for at in range(len(data))]) == texts


def test_the_bytes_of_a_message_that_is_not_whole_are_counted_until_it_is() -> None:
    frames = PeerFrames(SIZE_MAX)
    frames.take(frame(TEXT, b"x" * 300, final=False))
    assert frames.unfinished_bytes == 300
    rest = frame(0, b"y" * 200)
    frames.take(rest[:150])
    assert frames.unfinished_bytes == 450
    assert frames.take(rest[150:]) == [b"x" * 300 + b"y" * 200]
    assert frames.unfinished_bytes == 0
    frames.take(frame(PING, b"") * (FRAMES_A_STEP + 1))
    assert frames.has_more
    assert frames.unfinished_bytes == 0


@given(st.lists(st.binary(max_size=400), max_size=20))
def test_no_bytes_make_the_parser_fail_or_keep_more_than_one_message(pieces: list[bytes]) -> None:
    frames = PeerFrames(200)
    received = 0
    for piece in pieces:
        received += len(piece)
        assert sum(map(len, frames.take(piece))) <= received
        assert len(frames._rest) <= 200 + 14 + len(piece)
        assert len(frames._message) <= 200
        if frames.end is not None and frames.end.kind is not EndKind.REFUSED:
            assert frames.take(frame(TEXT, b"late")) == []


@pytest.mark.parametrize(
    ("data", "code", "word"),
    [
        (b"\x81\x02{}", 1002, "not masked"),
        (b"\xc1\x80" + bytes(4), 1002, "reserved"),
        (b"\x91\x80" + bytes(4), 1002, "reserved"),
        (frame(3, b""), 1002, "opcode 3"),
        (frame(11, b""), 1002, "opcode 11"),
        (frame(PING, b"x", final=False), 1002, "control"),
        (frame(PING, b"x" * 126), 1002, "control"),
        (frame(0, b"x"), 1002, "mixed"),
        (frame(TEXT, b"x", final=False) + frame(TEXT, b"y"), 1002, "mixed"),
        (frame(TEXT, b"x", final=False) + frame(BINARY, b"y"), 1002, "mixed"),
        (frame(CLOSE, b"\x03"), 1002, "code"),
        (frame(CLOSE, b"\x03\xed"), 1002, "code"),  # 1005 means that there was no code
        (frame(CLOSE, b"\x13\x88"), 1002, "code"),  # 5000
        (frame(CLOSE, b"\x03\xe8\xff"), 1007, "UTF-8"),
        (b"\x81\xff" + (SIZE_MAX + 1).to_bytes(8, "big") + bytes(4), 1009, "webSocketMaxTextFrameSize"),
        (b"\x81\xff" + b"\xff" * 8 + bytes(4), 1009, "webSocketMaxTextFrameSize"),
        (frame(TEXT, b"x" * 60_000, final=False) + frame(0, b"x" * 40_001), 1009, "webSocketMaxTextFrameSize"),
    ],
)
def test_a_frame_that_may_not_come_ends_the_texts_with_a_code(data: bytes, code: int, word: str) -> None:
    frames = PeerFrames(SIZE_MAX)
    assert texts_of(frames, [frame(TEXT, b"before") + data + frame(TEXT, b"after")]) == [b"before"]
    assert frames.end is not None
    assert (frames.end.kind, frames.end.code) == (EndKind.BROKEN, code)
    assert word in frames.end.reason


def test_a_text_may_be_as_long_as_the_limit_in_one_frame_or_in_several() -> None:
    frames = PeerFrames(1000)
    whole = frame(TEXT, b"x" * 1000)
    parts = frame(TEXT, b"x" * 999, final=False) + frame(0, b"x")
    assert [len(text) for text in texts_of(frames, [whole + parts])] == [1000, 1000]
    assert frames.end is None


def test_after_a_binary_message_nothing_counts_but_a_close_frame() -> None:
    frames = PeerFrames(SIZE_MAX)
    binary = frame(BINARY, b"\xff", final=False) + frame(0, b"\xfe")
    assert texts_of(frames, [frame(TEXT, b"before") + binary + frame(TEXT, b"after")]) == [b"before"]
    assert frames.end is not None
    assert (frames.end.kind, frames.end.code) == (EndKind.REFUSED, 1003)
    assert texts_of(frames, [frame(TEXT, b"after") + frame(CLOSE, b"")]) == []
    assert frames.end == PeerEnd(EndKind.CLOSED, 0, "")


def test_the_newest_ping_is_kept_for_the_answer() -> None:
    frames = PeerFrames(SIZE_MAX)
    assert texts_of(frames, [frame(PING, b"old") + frame(TEXT, b"x") + frame(PING, b"new") + frame(PONG, b"y")]) == [
        b"x"
    ]
    assert frames.ping == b"new"


def test_a_flood_of_small_frames_is_read_in_steps() -> None:
    frames = PeerFrames(SIZE_MAX)
    data = frame(TEXT, b"") * (2 * FRAMES_A_STEP) + frame(TEXT, b"last")[:5]
    assert len(frames.take(data)) == FRAMES_A_STEP
    assert frames.has_more
    assert len(frames.take(b"")) == FRAMES_A_STEP
    assert texts_of(frames, [frame(TEXT, b"last")[5:]]) == [b"last"]
    assert not frames.has_more
