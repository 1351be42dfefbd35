"""Reads the frames of a WebSocket's peer (RFC 6455, section 5): bytes come in as they were received, and whole texts
come out, all of one read together. This module does no I/O.

aiohttp's own reader wakes a task for each text, which takes a third of the time of a publish. From aiohttp comes only
the compiled function that removes the masks.

No extension is offered at the upgrade, so compressed frames are refused like all frames with reserved bits.
"""

from enum import Enum
from struct import Struct
from typing import NamedTuple

from aiohttp._websocket.helpers import websocket_mask

from magnetar.server.websocket.frame_rules import (
    INVALID_TEXT,
    MESSAGE_TOO_BIG,
    NORMAL_CLOSURE,
    PROTOCOL_ERROR,
    UNSUPPORTED_DATA,
)

CONTROL_BYTES_MAX = 125
"""The longest body of a control frame (RFC 6455, section 5.5)."""

FRAMES_A_STEP = 1_000
"""How many frames one call of `take` reads at most; a thousand empty frames take half a millisecond."""

_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
_FINAL, _RESERVED, _OPCODE, _MASKED, _SIZE = 0x80, 0x70, 0x0F, 0x80, 0x7F
_FINAL_TEXT = _FINAL | _TEXT
_SIZE_16, _SIZE_64 = 126, 127

_long_size = Struct(">Q").unpack_from


class EndKind(Enum):
    """The ways in which a peer's frames come to an end."""

    CLOSED = "the peer sent a close frame"
    REFUSED = "the peer sent a message of a kind that is not taken"
    BROKEN = "the peer broke the protocol, so no later frame can be read"


class PeerEnd(NamedTuple):
    """The end of a peer's messages."""

    kind: EndKind
    code: int
    """The code of the close frame that is to be sent; 0 for a close frame without a code."""
    reason: str


class _BrokenError(Exception):
    def __init__(self, reason: str, code: int = PROTOCOL_ERROR) -> None:
        super().__init__(reason)
        self.code = code


class PeerFrames:
    """The frames of one peer."""

    __slots__ = ("_message", "_needed", "_opcode", "_rest", "_size_max", "end", "has_more", "ping")

    def __init__(self, size_max: int) -> None:
        """`size_max` is the largest number of bytes of a message."""
        self.ping: bytes | None = None
        """The body of the newest ping. The owner answers it and sets None; of several pings only the newest needs an
        answer (RFC 6455, section 5.5.3)."""
        self.has_more = False
        """Whether further whole frames may have come, which the next call of `take` reads."""
        self.end: PeerEnd | None = None
        """The reason why no further message comes, or None. A message of a kind that is not taken may be followed by a
        close frame, so this may still change from REFUSED to CLOSED."""
        self._size_max = size_max
        self._rest = bytearray()
        """The bytes that belong to a frame that is not whole yet."""
        self._needed = 0
        """The number of bytes at which the frame in `_rest` can be read further. Up to then bytes are only collected,
        so that many small reads of a large frame cost no more than one."""
        self._opcode = _CONTINUATION
        """The kind of the message whose last frame has not come yet; CONTINUATION when there is no such message."""
        self._message = bytearray()
        """The frames of this message that have come."""

    @property
    def unfinished_bytes(self) -> int:
        """Returns the number of bytes that have come of a message that is not whole yet. Counts nothing while whole
        frames may be left to be read, because then the peer need not send more."""
        return 0 if self.has_more else len(self._rest) + len(self._message)

    def take(self, data: bytes) -> list[bytearray]:
        """Takes received bytes, which may be none, and returns the texts that are whole now. No text is returned after
        `end` was set; then only a close frame counts."""
        buffer: bytes | bytearray = data
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            buffer, self._rest = self._rest, bytearray()
        self.has_more = False
        if self.end is not None and self.end.kind is not EndKind.REFUSED:
            return []
        texts: list[bytearray] = []
        try:
            at = self._read(buffer, texts)
        except _BrokenError as error:
            self.end = PeerEnd(EndKind.BROKEN, error.code, str(error))
        else:
            if at < len(buffer):
                self._rest += buffer[at:] if at else buffer
        return texts

    def _read(self, data: bytes | bytearray, texts: list[bytearray]) -> int:
        """Reads whole frames, and returns the place of the first byte after them. The loop runs once for each message,
        so it handles the most frequent frame itself: a text in one frame."""
        at, available = 0, len(data)
        size_max = self._size_max
        for _ in range(FRAMES_A_STEP):
            if available - at < 2:
                self._needed = 2
                return at
            first, size = data[at], data[at + 1] & _SIZE
            if not data[at + 1] & _MASKED:
                raise _BrokenError("a frame of a client is not masked")
            start = at + 6
            if size == _SIZE_16:
                start = at + 8
                if available < start:
                    self._needed = 8
                    return at
                size = data[at + 2] << 8 | data[at + 3]
            elif size == _SIZE_64:
                start = at + 14
                if available < start:
                    self._needed = 14
                    return at
                size = _long_size(data, at + 2)[0]
            is_plain = first == _FINAL_TEXT and not self._opcode and size <= size_max
            if not is_plain:
                self._check(first, size)
            stop = start + size
            if available < stop:
                self._needed = stop - at
                return at
            body = bytearray(data[start:stop])
            websocket_mask(bytes(data[start - 4 : start]), body)
            at = stop
            if not is_plain:
                self._take_frame(first, body, texts)
                if self.end is not None and self.end.kind is EndKind.CLOSED:
                    return available
            elif self.end is None:
                texts.append(body)
        self._needed = 0
        self.has_more = at < available
        return at

    def _check(self, first: int, size: int) -> None:
        """Checks the header of a frame. Raises _BrokenError for a frame that may not come here, before its body is
        collected."""
        opcode = first & _OPCODE
        if first & _RESERVED:
            raise _BrokenError("a frame has reserved bits, but no extension was agreed on")
        if opcode in (_CLOSE, _PING, _PONG):
            if not first & _FINAL or size > CONTROL_BYTES_MAX:
                raise _BrokenError("a control frame is in parts or too long")
            return
        if opcode not in (_CONTINUATION, _TEXT, _BINARY):
            raise _BrokenError(f"a frame has the unknown opcode {opcode}")
        if (opcode == _CONTINUATION) == (self._opcode == _CONTINUATION):
            raise _BrokenError("the frames of two messages are mixed")
        if len(self._message) + size > self._size_max:
            text = f"a message of {len(self._message) + size} bytes: the limit is {self._size_max}"
            raise _BrokenError(f"{text} (webSocketMaxTextFrameSize)", MESSAGE_TOO_BIG)

    def _take_frame(self, first: int, body: bytearray, texts: list[bytearray]) -> None:
        opcode = first & _OPCODE
        if opcode == _PING:
            self.ping = bytes(body)
        elif opcode == _CLOSE:
            self.end = _end_of_close(body)
        elif opcode != _PONG:
            kind = opcode or self._opcode
            self._message += body
            if not first & _FINAL:
                self._opcode = kind
                return
            message, self._message, self._opcode = self._message, bytearray(), _CONTINUATION
            if self.end is None and kind == _TEXT:
                texts.append(message)
            elif self.end is None:
                reason = "binary messages are not taken: send JSON as text"
                self.end = PeerEnd(EndKind.REFUSED, UNSUPPORTED_DATA, reason)


def _end_of_close(body: bytearray) -> PeerEnd:
    """Reads a close frame. Raises _BrokenError for a frame that is not valid (RFC 6455, sections 5.5.1 and 7.4)."""
    if not body:
        return PeerEnd(EndKind.CLOSED, 0, "")
    code = int.from_bytes(body[:2], "big")
    if len(body) < 2 or not _may_be_sent(code):
        raise _BrokenError("a close frame has no valid code")
    try:
        return PeerEnd(EndKind.CLOSED, code, body[2:].decode())
    except UnicodeDecodeError:
        raise _BrokenError("the reason of a close frame is not UTF-8", INVALID_TEXT) from None


def _may_be_sent(code: int) -> bool:
    """Returns whether a peer may send a close frame with this code: one that the registry of codes names and does not
    reserve for other uses, or one of the ranges for libraries and applications."""
    return code in _SENT_CODES or 3000 <= code <= 4999


_SENT_CODES = frozenset((NORMAL_CLOSURE, 1001, PROTOCOL_ERROR, UNSUPPORTED_DATA, INVALID_TEXT, *range(1008, 1015)))
