"""A TCP proxy in front of a ZooKeeper server that cuts, delays and swallows."""

import asyncio
from collections.abc import Callable

Rule = Callable[[int, bytes], bool]
"""Takes the type of the request that is answered, or 0, and the answer from its xid on; returns whether to swallow
it."""

WRITES = {1, 2, 5, 14, 15}
"""The types of requests that write (ZooDefs.OpCode): create, delete, setData, multi, create2."""
EXISTS = 3
SET_WATCHES = 105
ADD_WATCH = 106
AUTH = 100


class ZkProxy:
    """`await start(upstream_port)`; `port` is where clients connect. It knows frames by their lengths."""

    def __init__(self) -> None:
        self.port = 0
        self.refusing = False
        """When set, new connections are cut at once."""
        self.silent = False
        """When set, answers are swallowed, and requests go on."""
        self.deaf = False
        """When set, requests are swallowed."""
        self.chop_bytes = 0
        """When set, answers are handed over in pieces of this size, each in a turn of its own."""
        self.swallow: Rule | None = None
        """When this returns True for an answer, the answer is not handed over, and the connection is cut."""
        self.cut_when_swallowing = True
        self.cut_midway = False
        """When set, half of a swallowed answer is handed over, then the connection ends in order (FIN)."""
        self.swallowed = 0
        """Answers that `swallow` took."""
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
        """Cuts all connections with RST."""
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
        asked: dict[int, int] = {}
        for pump in (self._forward(reader, upstream, asked), self._back(upstream_reader, writer, asked)):
            task = asyncio.ensure_future(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _: self._end(writer))
            task.add_done_callback(lambda _: upstream.transport.abort())

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        if not writer.is_closing():
            writer.transport.abort()

    async def _forward(
        self, reader: asyncio.StreamReader, upstream: asyncio.StreamWriter, asked: dict[int, int]
    ) -> None:
        try:
            while True:
                frame = await _frame(reader)
                if upstream.is_closing():
                    return
                asked[_int_at(frame, 4)] = _int_at(frame, 8)
                if not self.deaf:
                    self.requests.append(frame[4:])
                    upstream.write(frame)
        except (OSError, EOFError):
            return

    async def _back(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, int]) -> None:
        try:
            while True:
                frame = await _frame(reader)
                opcode = asked.pop(_int_at(frame, 4), 0)
                if self.silent:
                    continue
                if self.swallow is not None and self.swallow(opcode, frame[4:]):
                    self.swallowed += 1
                    if not self.cut_when_swallowing:
                        continue
                    if self.cut_midway:
                        writer.write(frame[: len(frame) // 2])
                        await writer.drain()
                        writer.close()
                    return
                step = self.chop_bytes or len(frame)
                for start in range(0, len(frame), step):
                    if writer.is_closing():
                        return
                    writer.write(frame[start : start + step])
                    if self.chop_bytes:
                        await asyncio.sleep(0)
        except (OSError, EOFError):
            return


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(int.from_bytes(head))


def _int_at(frame: bytes, offset: int) -> int:
    return int.from_bytes(frame[offset : offset + 4], signed=True)


def once(rule: Rule) -> Rule:
    """Returns a rule that swallows only the first of the answers that `rule` would swallow."""
    used = False

    def first(opcode: int, answer: bytes) -> bool:
        nonlocal used
        if used or not rule(opcode, answer):
            return False
        used = True
        return True

    return first


def answers_of_writes(opcode: int, answer: bytes) -> bool:
    return opcode in WRITES
