"""Connections between simulated clients and brokers: a broker's end is the product's own `Connection`, a client's end
understands frames. Bytes arrive in order, after a delay; a cut connection is reset, or falls silent for ever."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from random import Random
from typing import Any

from magnetar.server.protocol.connection import Connection
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.wire.commands import parse_command, pong_frame, simple_frame
from pulsar_proto.wire.framing import FrameReader
from tests.sim.sim_broker import SimBroker

WAY_SECONDS_MAX = 0.01
ANSWER_SECONDS = 4.0
"""How long a client waits for an answer before it gives the connection up."""
FEED_BYTES = 16_384


class LostError(Exception):
    """The connection is gone."""


class RefusedError(Exception):
    """The broker answered with an error."""


class Transport(asyncio.Transport):
    """The broker's end of a wire."""

    def __init__(self, wire: "Wire") -> None:
        super().__init__()
        self._wire = wire
        self._is_closing = False
        self._paused: deque[bytes] | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 5000) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Does nothing, because a wire takes everything."""

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._wire.to_client(bytes(data))

    def writelines(self, chunks: Any) -> None:
        self.write(b"".join(chunks))

    def pause_reading(self) -> None:
        if self._paused is None:
            self._paused = deque()

    def resume_reading(self) -> None:
        paused, self._paused = self._paused, None
        while paused:
            self.feed(paused.popleft())

    def feed(self, data: bytes) -> None:
        """Called in the broker's process with what a client has sent."""
        connection = self._wire.connection
        if self._is_closing or connection is None:
            return
        if self._paused is not None:
            self._paused.append(data)
            return
        for start in range(0, len(data), FEED_BYTES):
            part = data[start : start + FEED_BYTES]
            connection.get_buffer(-1)[: len(part)] = part
            connection.buffer_updated(len(part))

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        self._wire.closed_by_broker()
        connection = self._wire.connection
        if connection is not None:
            asyncio.get_running_loop().call_soon(connection.connection_lost, None)

    abort = close


class Wire:
    """One connection from a client to a broker. `heard(command, payload)` and `lost()` are called in the world around
    the processes. Nothing is heard after the loss, which is told once."""

    def __init__(
        self,
        broker: SimBroker,
        rng: Random,
        home: Context,
        heard: Callable[[pb.BaseCommand, bytes | None], None],
        lost: Callable[[], None],
    ) -> None:
        self.broker = broker
        self.is_silent = False
        self.connection: Connection | None = None
        self._rng = rng
        self._home = home
        self._heard = heard
        self._lost = lost
        self._is_open = True
        self._arrivals = {True: 0.0, False: 0.0}
        self._reader = FrameReader()
        self._transport = Transport(self)
        broker.wires[self] = None
        self._carry(self._connect, to_broker=True)

    def send(self, frame: bytes) -> None:
        if self._is_open:
            self._carry(lambda: self._transport.feed(frame), to_broker=True)

    def close(self) -> None:
        """Closes the connection on the client's side. The client hears nothing any more."""
        if self._is_open:
            self._is_open = False
            self.broker.wires.pop(self, None)
            self._carry(self._client_left, to_broker=True)

    def reset(self) -> None:
        """Breaks the connection; both sides hear of it."""
        if self._is_open:
            self._carry(self._tell_lost, to_broker=False)
            self._carry(self._client_left, to_broker=True)

    def to_client(self, data: bytes) -> None:
        self._carry(lambda: self._take(data), to_broker=False)

    def closed_by_broker(self) -> None:
        self._carry(self._tell_lost, to_broker=False)

    def _carry(self, deliver: Callable[[], None], *, to_broker: bool) -> None:
        loop = asyncio.get_running_loop()
        arrival = max(self._arrivals[to_broker], loop.time()) + self._rng.uniform(0, WAY_SECONDS_MAX)
        self._arrivals[to_broker] = arrival

        def arrive() -> None:
            if self.is_silent:
                return
            if not to_broker:
                deliver()
            elif self.broker.process.is_dead:
                self._tell_lost()
            else:
                self.broker.process.run_soon(deliver)

        loop.call_at(arrival, arrive, context=self._home.copy())

    def _connect(self) -> None:
        if not self.broker.listens:
            self.closed_by_broker()
            return
        self.connection = self.broker.accept()
        self.connection.connection_made(self._transport)

    def _client_left(self) -> None:
        self._transport.close()

    def _take(self, data: bytes) -> None:
        if not self._is_open:
            return
        for start in range(0, len(data), FEED_BYTES):
            part = data[start : start + FEED_BYTES]
            self._reader.get_buffer()[: len(part)] = part
            for head, payload in self._reader.received(len(part)):
                if self._is_open:
                    self._heard(parse_command(head), payload)

    def _tell_lost(self) -> None:
        if self._is_open:
            self._is_open = False
            self.broker.wires.pop(self, None)
            self._lost()


class ClientLink:
    """A client's end of a wire: requests with answers, and what comes unasked."""

    def __init__(
        self, broker: SimBroker, rng: Random, home: Context, heard: Callable[[pb.BaseCommand, bytes | None], None]
    ) -> None:
        self.broker = broker
        self.is_lost = False
        self._heard = heard
        self._ids = 0
        self._asked: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._ended = asyncio.Event()
        self._wire = Wire(broker, rng, home, self._take, self.end)

    async def connect(self) -> None:
        connect = pb.CommandConnect(client_version="sim", protocol_version=21)
        await self._ask(0, pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect=connect))

    async def ask(self, kind: str, **fields: Any) -> pb.BaseCommand:
        """Sends a request and returns its answer. Raises RefusedError, LostError, TimeoutError."""
        self._ids += 1
        return await self._ask(self._ids, command_of(kind, request_id=self._ids, **fields))

    def tell(self, kind: str, **fields: Any) -> None:
        self._wire.send(simple_frame(command_of(kind, **fields)))

    def send(self, frame: bytes) -> None:
        self._wire.send(frame)

    async def ended(self) -> None:
        await self._ended.wait()

    def break_off(self, *, silently: bool) -> None:
        """Breaks the connection on its way. `silently`, nobody hears of it."""
        if silently:
            self._wire.is_silent = True
        else:
            self._wire.reset()

    def end(self) -> None:
        """Gives the connection up."""
        if not self.is_lost:
            self.is_lost = True
            self._wire.close()
            self._ended.set()
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(LostError())
                    asked.exception()

    async def _ask(self, request_id: int, command: pb.BaseCommand) -> pb.BaseCommand:
        if self.is_lost:
            raise LostError
        future: asyncio.Future[pb.BaseCommand] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = future
        self._wire.send(simple_frame(command))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await future
        finally:
            del self._asked[request_id]

    def _take(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        kind = pb.BaseCommand.Type.Name(command.type)
        if kind == "PING":
            self._wire.send(pong_frame())
            return
        part = getattr(command, PARTS[kind]) if kind in PARTS else None
        if part is None:
            self._heard(command, payload)
            return
        future = self._asked.get(getattr(part, "request_id", 0) if kind != "CONNECTED" else 0)
        if future is None or future.done():
            return
        if kind == "ERROR" or ("error" in part.DESCRIPTOR.fields_by_name and part.HasField("error")):
            future.set_exception(RefusedError(part.message))
            with suppress(BaseException):
                future.exception()
        else:
            future.set_result(command)


PARTS = {
    "CONNECTED": "connected",
    "LOOKUP_RESPONSE": "lookupTopicResponse",
    "PRODUCER_SUCCESS": "producer_success",
    "SUCCESS": "success",
    "ERROR": "error",
    "ACK_RESPONSE": "ackResponse",
}
"""The kinds of answers, each with the field of the command that holds it."""

_FIELDS = {"LOOKUP": "lookupTopic"}


def command_of(kind: str, **fields: Any) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.Type.Value(kind))
    part = getattr(command, _FIELDS.get(kind, kind.lower()))
    part.MergeFrom(type(part)(**fields))
    return command
