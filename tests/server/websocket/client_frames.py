"""Frames as a WebSocket client sends them."""


def frame(opcode: int, body: bytes, *, final: bool = True, mask: bytes = b"\x01\xfe\x33\x80") -> bytes:
    """Returns a masked frame (RFC 6455, section 5.2)."""
    size = len(body)
    first = bytes([(0x80 if final else 0) | opcode])
    if size < 126:
        head = first + bytes([0x80 | size])
    elif size < 65_536:
        head = first + b"\xfe" + size.to_bytes(2, "big")
    else:
        head = first + b"\xff" + size.to_bytes(8, "big")
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(body))
