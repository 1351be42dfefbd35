"""Compresses and decompresses message bodies.

The codec is named in the message's metadata, which also holds the size before compression:

    1 LZ4 (block)   2 ZLIB   3 ZSTD (frame)   4 SNAPPY (raw)

A broker needs this module only where it looks into stored messages: for the compaction of batches, and for messages
shown to admins. Source: CompressionCodecProvider.
"""

import zlib

import cramjam

from pulsar_proto.errors import MalformedFrame
from pulsar_proto.pb import pulsar_api_pb2 as pb

BODY_BYTES_MAX = 32 << 20
"""The largest body after decompression, in bytes. The peer chose the size in the metadata, so a larger size is
refused."""


def decompress(
    compression: pb.CompressionType.ValueType, body: bytes, size: int, size_max: int = BODY_BYTES_MAX
) -> bytes:
    """Decompresses `body` to `size` bytes.

    Raises MalformedFrame when `size` exceeds `size_max`, or when the body does not decompress to exactly `size` bytes.
    The slowest codec takes about a millisecond for each 100 KB, so large bodies belong on a thread.
    """
    if compression == pb.NONE:
        return body
    if size > size_max:
        raise MalformedFrame(f"a compressed body of {size} bytes, at most {size_max} are decompressed")
    try:
        plain = _decompress(compression, body, size)
    except (cramjam.DecompressionError, zlib.error, ValueError) as error:
        raise MalformedFrame(f"a {pb.CompressionType.Name(compression)} body does not decompress: {error}") from error
    if len(plain) != size:
        raise MalformedFrame(f"a body of {len(plain)} bytes, its metadata says {size}")
    return plain


def _decompress(compression: pb.CompressionType.ValueType, body: bytes, size: int) -> bytes:
    """Decompresses the body, but never to more than about `size` bytes."""
    match compression:
        case pb.LZ4:
            out = bytearray(max(size, 1))
            return bytes(out[: cramjam.lz4.decompress_block_into(body, out)])
        case pb.ZLIB:
            return zlib.decompressobj().decompress(body, size + 1)
        case pb.ZSTD:
            out = bytearray(size)
            return bytes(out[: cramjam.zstd.decompress_into(body, out)])
        case pb.SNAPPY:
            if cramjam.snappy.decompress_raw_len(body) > size:
                raise ValueError("longer than its metadata says")
            return bytes(cramjam.snappy.decompress_raw(body))
    raise ValueError(f"unknown compression {compression}")


def compress(compression: pb.CompressionType.ValueType, plain: bytes) -> bytes:
    """Returns `plain` compressed by the codec, so that `decompress` restores it."""
    match compression:
        case pb.NONE:
            return plain
        case pb.LZ4:
            return bytes(cramjam.lz4.compress_block(plain, store_size=False))
        case pb.ZLIB:
            return zlib.compress(plain)
        case pb.ZSTD:
            return bytes(cramjam.zstd.compress(plain))
        case pb.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(plain))
    raise ValueError(f"unknown compression {compression}")
