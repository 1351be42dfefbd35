"""The scanner of HTTP answers finds the end of each answer, however the stream is cut into reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.http_answers import LINES_BYTES_MAX, AnswerScanner, HttpError

LONG_BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nHTTP/1.1 500 no\r\n\r\n "
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n"
    b"A\r\n0\r\n\r\n0\r\n\r\n\r\n3;x=y\r\nabc\r\n0\r\nTrailer: u\r\n\r\n"
)
ANSWERS = (
    (200, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    (200, LONG_BODY),
    (404, b"HTTP/1.1 404 Not Found\r\ncontent-length:5\r\nServer: x\r\n\r\n\r\n\r\n\n"),
    (204, b"HTTP/1.1 204 No Content\r\nServer: x\r\n\r\n"),
    (304, b"HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"),
    (200, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    (200, CHUNKED),
    (503, b"HTTP/1.1 503 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\n1\r\n0\r\n\r\n"),
)


@given(st.lists(st.sampled_from(ANSWERS), max_size=12), st.data())
def test_each_answer_ends_with_its_last_byte_however_the_stream_is_cut(
    answers: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(answer for _, answer in answers)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20).map(sorted))
    ends = [sum(len(answer) for _, answer in answers[: number + 1]) for number in range(len(answers))]
    scanner = AnswerScanner()
    found: list[int] = []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += scanner.feed(stream[begin:end])
        assert len(found) == sum(each <= end for each in ends)
    assert found == [status for status, _ in answers]


@pytest.mark.parametrize(
    ("stream", "complaint"),
    [
        (b'"persistent://public/default/many-8"\r\n\r\n', "not a status line"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "not the size of a chunk"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n", "unknown length"),
        (b"HTTP/1.1 200 OK\r\n" + b"x" * LINES_BYTES_MAX, "head of more than"),
    ],
)
def test_bytes_without_an_end_that_can_be_found_are_refused(stream: bytes, complaint: str) -> None:
    with pytest.raises(HttpError, match=complaint):
        AnswerScanner().feed(stream)
