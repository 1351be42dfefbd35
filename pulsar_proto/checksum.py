"""CRC-32C (Castagnoli), as frames and entries carry it. The library reads `bytes` only, no memoryview or bytearray."""

from collections.abc import Callable

import google_crc32c

crc32c_of: Callable[[bytes], int] = google_crc32c.value
"""The checksum of some bytes: what the hot path calls."""

crc32c_extend: Callable[[int, bytes], int] = google_crc32c.extend
"""(checksum of what stood before, bytes) -> the checksum of both."""


def crc32c(data: bytes, crc: int = 0) -> int:
    """The checksum of `data`, continued from `crc` (the checksum of what stood before it)."""
    return crc32c_extend(crc, data)
