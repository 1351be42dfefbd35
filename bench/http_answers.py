"""Cuts the answers of an HTTP/1.1 server out of the bytes of a connection, at next to no cost: bodies are counted and
not kept. No I/O. The requests must not be HEAD, whose answers tell the length of a body that does not come.

Source: RFC 9112, "6.3 Message Body Length" and "7.1 Chunked Transfer Coding".
"""

import re
from enum import Enum

LINES_BYTES_MAX = 64 << 10
"""How long the head of an answer, or a line between chunks, may be."""
NO_BODY = (204, 304)

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3})")
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class HttpError(Exception):
    """The bytes are no answer whose end can be found."""


class _Part(Enum):
    """The part of an answer that begins behind the bytes that are to be passed over."""

    HEAD = "head"
    CHUNK = "chunk"
    TRAILERS = "trailers"
    END = "end"


class AnswerScanner:
    """Scans one connection."""

    def __init__(self) -> None:
        self._rest = b""
        self._passed_over = 0
        """How many bytes of a body are still to come before the next part."""
        self._part = _Part.HEAD
        self._status = 0

    def feed(self, read: bytes) -> list[int]:
        """Returns the statuses of the answers that end in these bytes. Raises HttpError."""
        data, at = self._rest + read, 0
        statuses: list[int] = []
        while True:
            passed = min(self._passed_over, len(data) - at)
            self._passed_over -= passed
            at += passed
            if self._part is _Part.END and not self._passed_over:
                statuses.append(self._status)
                self._part = _Part.HEAD
            mark = b"\r\n\r\n" if self._part is _Part.HEAD else b"\r\n"
            end = data.find(mark, at) if at < len(data) else -1
            if end < 0:
                break
            self._understand(data[at:end])
            at = end + len(mark)
        self._rest = data[at:]
        if len(self._rest) > LINES_BYTES_MAX:
            raise HttpError(f"{self._part.value} of more than {LINES_BYTES_MAX} bytes: {self._rest[:100]!r}")
        return statuses

    def _understand(self, lines: bytes) -> None:
        """Takes a head, the line before a chunk, or a trailer, each without the line end behind it."""
        if self._part is _Part.HEAD:
            self._understand_head(lines)
        elif self._part is _Part.CHUNK:
            try:
                size = int(lines.partition(b";")[0], 16)
            except ValueError:
                raise HttpError(f"not the size of a chunk: {lines[:100]!r}") from None
            if size:
                self._passed_over = size + len(b"\r\n")
            else:
                self._part = _Part.TRAILERS
        elif not lines:
            self._part = _Part.END

    def _understand_head(self, head: bytes) -> None:
        status, length = _STATUS.match(head), _LENGTH.search(head)
        if status is None:
            raise HttpError(f"not a status line: {head[:100]!r}")
        self._status = int(status[1])
        if _CHUNKED.search(head):
            self._part = _Part.CHUNK
        elif length is not None or self._status in NO_BODY:
            self._part = _Part.END
            self._passed_over = 0 if length is None or self._status in NO_BODY else int(length[1])
        else:
            raise HttpError(f"an answer of unknown length: {head[:100]!r}")
