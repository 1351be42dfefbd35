"""CRC-32C (Castagnoli), as frames and entries carry it. The library reads `bytes` only, no memoryview or bytearray."""

from google_crc32c import extend as _extend


def crc32c(data: bytes, crc: int = 0) -> int:
    """The checksum of `data`, continued from `crc` (the checksum of what stood before it)."""
    checksum: int = _extend(crc, data)
    return checksum
