"""A TCP proxy in front of a ZooKeeper server that cuts, delays and swallows."""

import asyncio
from collections.abc import Callable

Rule = Callable[[bytes], bool]


class ZkProxy:
    """`await start(upstream_port)`; `port` is where clients connect. Frames are told apart (4 bytes of length)."""

    def __init__(self) -> None:
        self.port = 0
        self.refusing = False
        """New connections are cut at once."""
        self.silent = False
        """Answers are swallowed; requests go on."""
        self.deaf = False
        """Requests are swallowed."""
        self.chop_bytes = 0
        """Answers are handed over in pieces of this size, each in a turn of its own."""
        self.swallow: Rule | None = None
        """An answer for which it is true is not handed over, and the connection is cut there."""
        self.connections = 0
        self.requests: list[bytes] = []
        self._server: asyncio.Server | None = None
        self._upstream = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self, upstream_port: int) -> None:
        self._upstream = upstream_port
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """All connections, with RST."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if self.refusing:
            writer.transport.abort()
            return
        try:
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, upstream}
        for pump in (self._forward(reader, upstream), self._back(upstream_reader, writer)):
            task = asyncio.ensure_future(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: writer.transport.abort())
            task.add_done_callback(lambda _: upstream.transport.abort())

    async def _forward(self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await _frame(reader)
                if not self.deaf:
                    self.requests.append(frame[4:])
                    upstream.write(frame)
        except (OSError, EOFError):
            return

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await _frame(reader)
                if self.silent:
                    continue
                if self.swallow is not None and self.swallow(frame[4:]):
                    return
                step = self.chop_bytes or len(frame)
                for start in range(0, len(frame), step):
                    writer.write(frame[start : start + step])
                    if self.chop_bytes:
                        await asyncio.sleep(0)
        except (OSError, EOFError):
            return


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head))
