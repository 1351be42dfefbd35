"""The bytes of two kinds of frames: WebSocket frames for the peer, and frames of the binary protocol, which the topics'
code writes. This module does no I/O."""

from collections.abc import Iterator
from struct import Struct

NORMAL_CLOSURE, GOING_AWAY, PROTOCOL_ERROR, UNSUPPORTED_DATA = 1000, 1001, 1002, 1003
INVALID_TEXT, POLICY_VIOLATION, MESSAGE_TOO_BIG, INTERNAL_ERROR = 1007, 1008, 1009, 1011
"""Codes of close frames (RFC 6455, section 7.4.1)."""

CLOSE_REASON_BYTES_MAX = 123
"""The longest reason that a close frame holds (RFC 6455, section 5.5)."""

PING = b"\x89\x04PING"
"""A ping frame, with the payload of AbstractWebSocketHandler.onWebSocketConnect."""

_FINAL_TEXT, _CLOSE, _PONG = 0x81, 0x88, 0x8A
_SHORT = Struct(">BB").pack
_MIDDLE = Struct(">BBH").pack
_LONG = Struct(">BBQ").pack
_SIZES = Struct(">II").unpack_from


def text_head(size: int) -> bytes:
    """Returns the frame header of a text of `size` bytes (RFC 6455, section 5.2; a server does not mask)."""
    if size < 126:
        return _SHORT(_FINAL_TEXT, size)
    return _MIDDLE(_FINAL_TEXT, 126, size) if size < 65_536 else _LONG(_FINAL_TEXT, 127, size)


def pong_frame(body: bytes) -> bytes:
    """Returns the answer to a ping with the given body."""
    return _SHORT(_PONG, len(body)) + body


def close_frame(code: int, reason: str = "") -> bytes:
    """Returns a close frame, without a code if `code` is 0. A reason that is too long is cut off between two
    characters."""
    body = b""
    if code:
        text = reason.encode("utf-8", "replace")[:CLOSE_REASON_BYTES_MAX].decode("utf-8", "ignore")
        body = code.to_bytes(2, "big") + text.encode()
    return _SHORT(_CLOSE, len(body)) + body


def cut(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields command and payload of each frame. The frames are not checked, because this server's own code has written
    them."""
    at = 0
    while at < len(data):
        total, command_size = _SIZES(data, at)
        start, end = at + 8 + command_size, at + 4 + total
        yield data[at + 8 : start], data[start:end] if start < end else None
        at = end
