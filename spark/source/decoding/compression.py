"""The codecs of message bodies (PulsarApi.proto, CompressionType): raw LZ4 and Snappy blocks, Zstandard, and zlib.

When pyarrow is asked for a number of bytes, it returns that many even if an LZ4 or Snappy block holds fewer. So
cramjam, which tells how many bytes there are, decompresses the blocks of these two codecs, or at least measures them.
"""

import zlib
from typing import Final

import cramjam
import pyarrow as pa

from pulsar_proto.pb import pulsar_api_pb2 as pb

UNCOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest size that a batch may claim to have uncompressed. A larger claim is refused before memory is
allocated."""

NAMES: Final = {"none": pb.NONE, "lz4": pb.LZ4, "zlib": pb.ZLIB, "zstd": pb.ZSTD, "snappy": pb.SNAPPY}
_ARROW: Final[dict[int, str]] = {pb.LZ4: "lz4_raw", pb.ZSTD: "zstd", pb.SNAPPY: "snappy"}


class BadCompression(Exception):
    """A body does not decompress to the size that its metadata names."""


def decompress(body: bytes, kind: int, size: int) -> bytes:
    """Returns the `size` bytes (the metadata's uncompressed_size) that a body of CompressionType `kind` holds. Raises
    BadCompression."""
    if kind == pb.NONE:
        return body
    if size > UNCOMPRESSED_BYTES_MAX:
        raise BadCompression(f"claims {size} bytes uncompressed, at most {UNCOMPRESSED_BYTES_MAX} are accepted")
    try:
        if kind == pb.ZLIB:
            unpacked = zlib.decompressobj().decompress(body, size + 1)
        elif kind == pb.LZ4:
            room = bytearray(max(size, 1))
            made = cramjam.lz4.decompress_block_into(body, room)
            unpacked = bytes(room) if made == len(room) else bytes(room[:made])
        elif kind == pb.SNAPPY and cramjam.snappy.decompress_raw_len(body) != size:
            raise BadCompression(f"decompresses to another size than {size} bytes")
        elif kind in _ARROW:
            unpacked = pa.decompress(body, decompressed_size=size, codec=_ARROW[kind], asbytes=True)
        else:
            raise BadCompression(f"compression type {kind} is unknown")
    except (zlib.error, OSError, pa.ArrowInvalid, cramjam.DecompressionError) as error:
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
