"""The bytes of two kinds of frames: WebSocket frames for the peer, and frames of the binary protocol, which the topics'
code writes. This module does no I/O."""

from collections.abc import Iterator
from struct import Struct

GOING_AWAY, UNSUPPORTED_DATA, POLICY_VIOLATION, INTERNAL_ERROR = 1001, 1003, 1008, 1011
"""Codes of close frames (RFC 6455, section 7.4.1)."""

CLOSE_REASON_BYTES_MAX = 123
"""The longest reason that a close frame holds (RFC 6455, section 5.5)."""

PING = b"\x89\x04PING"
"""A ping frame, with the payload of AbstractWebSocketHandler.onWebSocketConnect."""

_FINAL_TEXT = 0x81
_SHORT = Struct(">BB").pack
_MIDDLE = Struct(">BBH").pack
_LONG = Struct(">BBQ").pack
_SIZES = Struct(">II").unpack_from


def text_head(size: int) -> bytes:
    """Returns the frame header of a text of `size` bytes (RFC 6455, section 5.2; a server does not mask)."""
    if size < 126:
        return _SHORT(_FINAL_TEXT, size)
    return _MIDDLE(_FINAL_TEXT, 126, size) if size < 65_536 else _LONG(_FINAL_TEXT, 127, size)


def close_reason(text: str) -> bytes:
    """Returns a text as the reason of a close frame. A text that is too long is cut off between two characters."""
    return text.encode("utf-8", "replace")[:CLOSE_REASON_BYTES_MAX].decode("utf-8", "ignore").encode()


def cut(data: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    """Yields command and payload of each frame. The frames are not checked, because this server's own code has written
    them."""
    at = 0
    while at < len(data):
        total, command_size = _SIZES(data, at)
        start, end = at + 8 + command_size, at + 4 + total
        yield data[at + 8 : start], data[start:end] if start < end else None
        at = end
