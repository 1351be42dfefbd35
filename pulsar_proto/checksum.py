"""CRC-32C (Castagnoli), which frames and entries carry. The library takes `bytes`, no memoryview or bytearray."""

from collections.abc import Callable

import google_crc32c

crc32c_of: Callable[[bytes], int] = google_crc32c.value
"""Returns the checksum of some bytes. The hot path calls the library directly, by this name."""

crc32c_extend: Callable[[int, bytes], int] = google_crc32c.extend
"""Takes the checksum of some bytes and the bytes that follow them; returns the checksum of both together."""


def crc32c(data: bytes, crc: int = 0) -> int:
    """Returns the checksum of `data`, continued from `crc`, the checksum of the bytes before it."""
    return crc32c_extend(crc, data)
