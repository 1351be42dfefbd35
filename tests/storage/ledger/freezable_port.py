"""A port before a bookie's that stops passing bytes on, as a frozen process or a switch that drops packets does: the
connections stay open, new ones are accepted, and nothing comes back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class FreezablePort:
    """Passes bytes on in both directions while `flows` is set."""

    def __init__(self, behind: int) -> None:
        self._behind = behind
        self.port = 0
        self.accepted = 0
        self.flows = asyncio.Event()
        self.flows.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def freeze(self) -> None:
        self.flows.clear()

    def thaw(self) -> None:
        self.flows.set()

    def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        self._tasks.add(asyncio.create_task(self._join(reader, writer)))

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._behind)
        await asyncio.wait(
            [asyncio.create_task(self._pump(reader, to_writer)), asyncio.create_task(self._pump(to_reader, writer))],
            return_when=asyncio.FIRST_COMPLETED,
        )
        writer.close()
        to_writer.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                await self.flows.wait()
                writer.write(data)
        except ConnectionError:
            pass

    async def close(self) -> None:
        self.thaw()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def freezable(behind: int) -> AsyncIterator[FreezablePort]:
    """Opens a port before the port `behind` of this machine."""
    made = FreezablePort(behind)
    server = await asyncio.start_server(made.take, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        await made.close()
