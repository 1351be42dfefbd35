"""A WebSocket whose peer writes its frames itself."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

SECONDS_MAX = 20


class RawSocket:
    """A peer that writes frames itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    async def rest(self) -> bytes:
        """Returns all that comes until the server closes the connection."""
        async with asyncio.timeout(SECONDS_MAX):
            return await self._reader.read()

    async def read(self, size: int) -> bytes:
        async with asyncio.timeout(SECONDS_MAX):
            return await self._reader.readexactly(size)


@asynccontextmanager
async def raw_socket(url: str, first: bytes = b"") -> AsyncIterator[RawSocket]:
    """`first` are frames that are sent together with the handshake."""
    host, _, rest = url.removeprefix("http://").partition("/")
    name, _, port = host.partition(":")
    reader, writer = await asyncio.open_connection(name, int(port))
    lines = [f"GET /{rest} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade"]
    lines += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]
    writer.write("\r\n".join(lines).encode() + first)
    async with asyncio.timeout(SECONDS_MAX):
        head = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in head
    assert b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in head  # RFC 6455, section 1.3
    try:
        yield RawSocket(reader, writer)
    finally:
        writer.close()
