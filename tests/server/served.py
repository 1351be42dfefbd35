"""Runs a whole server on a thread of its own, for tests with blocking clients."""

import asyncio
import json
import socket
import struct
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from magnetar.server.process.loop_watch import LoopWatch, Stall
from magnetar.server.programs.standalone import Standalone, StandaloneOptions
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command
from tests.server.loop_limit import CPU_LIMIT_SECONDS
from tests.server.protocol.frame_strategies import CONNECT

SECONDS_MAX = 60


class Served(NamedTuple):
    port: int
    web_url: str

    def get(self, path: str, method: str = "GET", body: bytes | None = None) -> bytes:
        """Calls the web port and returns the answer. Raises HTTPError for an answer that is not a success."""
        request = urllib.request.Request(self.web_url + path, body, method=method)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
            return bytes(answer.read())

    def json(self, path: str) -> Any:
        return json.loads(self.get(path))


class Wire:
    """A blocking client of the binary protocol."""

    def __init__(self, port: int, *, connects: bool = True) -> None:
        """Sends CONNECT, unless `connects` is False because the test sends the first command."""
        self._socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        if connects:
            self.say(CONNECT)

    def say(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError:
            return  # the server has closed the connection, which `until` finds out

    def until(self, wanted: int) -> pb.BaseCommand | None:
        """Returns the next command of the type `wanted`, or None when the server closes the connection before."""
        while (made := self.next()) is not None and made.type != wanted:
            pass
        return made

    def next(self) -> pb.BaseCommand | None:
        """Returns the next command, or None when the server has closed the connection."""
        return self.frame()[0]

    def frame(self) -> tuple[pb.BaseCommand | None, bytes]:
        """Returns the next command with the payload behind it."""
        head = self._read(8)
        rest = None if head is None else self._read(struct.unpack(">I", head[:4])[0] - 4)
        if head is None or rest is None:
            return None, b""
        (size,) = struct.unpack(">I", head[4:])
        return parse_command(rest[:size]), rest[size:]

    def _read(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                part = self._socket.recv(size - len(data))
            except ConnectionError:
                return None
            if not part:
                return None
            data += part
        return data

    def close(self) -> None:
        self._socket.close()


@contextmanager
def serving(folder: Path, **options: Any) -> Iterator[Served]:
    """Runs a server on a thread of its own. The test fails when a callback holds the server's loop for long."""
    server = Standalone(StandaloneOptions(data_dir=folder, broker_port=0, web_port=0, **options))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    stalls: list[Stall] = []
    watch = LoopWatch(loop, CPU_LIMIT_SECONDS, stalls.append, by_cpu=True)
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(SECONDS_MAX)
        loop.call_soon_threadsafe(watch.start)
        try:
            yield Served(int(server.broker_url.rpartition(":")[2]), server.web_url)
        finally:
            loop.call_soon_threadsafe(watch.close)
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(SECONDS_MAX)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
    assert not stalls, "\n".join(f"{each.seconds:.3f} s in {each.place}" for each in stalls)
