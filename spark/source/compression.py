"""The codecs of message bodies, through pyarrow's: raw LZ4 and Snappy blocks, Zstandard, and zlib (facts 1.1)."""

import zlib
from typing import Final

import pyarrow as pa

from pulsar_proto.pb import pulsar_api_pb2 as pb

UNCOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
"""What a batch may claim to hold; a larger claim is refused before memory is given to it."""

NAMES: Final = {"none": pb.NONE, "lz4": pb.LZ4, "zlib": pb.ZLIB, "zstd": pb.ZSTD, "snappy": pb.SNAPPY}
_ARROW: Final[dict[int, str]] = {pb.LZ4: "lz4_raw", pb.ZSTD: "zstd", pb.SNAPPY: "snappy"}


class BadCompression(Exception):
    """A body does not decompress to the size that its metadata says."""


def decompress(body: bytes, kind: int, size: int) -> bytes:
    """`kind`: CompressionType; `size`: uncompressed_size, bytes. Raises BadCompression."""
    if kind == pb.NONE:
        return body
    if size > UNCOMPRESSED_BYTES_MAX:
        raise BadCompression(f"claims {size} bytes uncompressed, at most {UNCOMPRESSED_BYTES_MAX} are accepted")
    try:
        if kind == pb.ZLIB:
            unpacked = zlib.decompressobj().decompress(body, size + 1)
        elif kind in _ARROW:
            unpacked = pa.decompress(body, decompressed_size=size, codec=_ARROW[kind], asbytes=True)
        else:
            raise BadCompression(f"compression type {kind} is unknown")
    except (zlib.error, OSError, pa.ArrowInvalid) as error:
        raise BadCompression(f"does not decompress: {error}") from error
    if len(unpacked) != size:
        raise BadCompression(f"decompresses to {len(unpacked)} bytes instead of {size}")
    return bytes(unpacked)


def compress(body: bytes, kind: int) -> bytes:
    if kind == pb.NONE or not body:
        return body
    if kind == pb.ZLIB:
        return zlib.compress(body)
    return bytes(pa.compress(body, codec=_ARROW[kind], asbytes=True))
