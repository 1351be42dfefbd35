"""A long text that is kept compressed, because it would take hundreds of megabytes otherwise."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

GZIP = zlib.MAX_WBITS + 16
"""The window of a stream that zlib reads and writes with the header of gzip."""

CHUNK_CHARACTERS = 1 << 18
"""How much text is handed to the compressing thread at once."""

UNPACKED_BYTES = 1 << 16
"""The largest part that `CompressedText.unpacked` yields. A part is unpacked and handed to a socket without a pause,
and many clients may take their parts in the same turn of the event loop."""

LEVEL = 1
"""zlib's level: metrics become 35 times shorter with levels 1 to 3, and 43 times with levels from 4 on. Those take
twice the time, which was half of the CPU of a page."""


class CompressedText(NamedTuple):
    """The text as one gzip stream, in parts, and the number of bytes of the text itself."""

    parts: list[bytes]
    size: int

    def unpacked(self) -> Iterator[bytes]:
        """Yields the bytes of the text."""
        stream = zlib.decompressobj(GZIP)
        for part in self.parts:
            data = part
            while data:
                yield stream.decompress(data, UNPACKED_BYTES)
                data = stream.unconsumed_tail


async def compressed(text: AsyncIterator[str]) -> CompressedText:
    """Compresses a text that comes piece by piece, on a thread. Raises the errors of `text`."""
    stream = zlib.compressobj(LEVEL, zlib.DEFLATED, GZIP)
    parts: list[bytes] = []
    waiting: list[str] = []
    characters = size = 0

    def pack(pieces: list[str]) -> int:
        data = "".join(pieces).encode()
        parts.append(stream.compress(data))
        return len(data)

    async for piece in text:
        waiting.append(piece)
        characters += len(piece)
        if characters >= CHUNK_CHARACTERS:
            size += await asyncio.to_thread(pack, waiting)
            waiting, characters = [], 0
    size += await asyncio.to_thread(pack, waiting)
    parts.append(stream.flush())
    return CompressedText([part for part in parts if part], size)
