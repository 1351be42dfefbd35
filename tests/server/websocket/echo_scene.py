"""Sockets whose session says back what it hears: the scene of tests of one socket."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from magnetar.server.config.websocket_settings import WebSocketSettings
from magnetar.server.web.http_listener import WebListener
from magnetar.server.websocket.upgrade import WebSocketService
from magnetar.server.websocket.websocket_client import WebSocketClient
from magnetar.server.websocket.websocket_path_rules import SocketKind, SocketPath
from pulsar_proto.errors import PulsarError
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.fakes import make_broker

SECONDS_MAX = 20


class Echo:
    """A session that says back what it hears, and takes notes."""

    def __init__(self, client: WebSocketClient, path: SocketPath, query: Mapping[str, str]) -> None:
        self.client = client
        self.events: list[str] = []
        self.fault: PulsarError | None = None
        self.gate: asyncio.Event | None = None
        self.answer: Callable[[str], None] = lambda text: client.say(text.encode())

    async def open(self) -> None:
        self.events.append("open")
        if self.gate is not None:
            await self.gate.wait()
        if self.fault is not None:
            raise self.fault

    def started(self) -> None:
        self.events.append("started")

    def on_texts(self, texts: Sequence[bytearray]) -> int:
        for text in texts:
            self.events.append(text[:20].decode())
            self.answer(text.decode())
        return len(texts)

    def on_command(self, command: pb.BaseCommand, payload: bytes | None) -> None:
        self.events.append(pb.BaseCommand.Type.Name(command.type))

    def tick(self, now_s: float) -> None: ...

    def closed(self) -> None:
        self.events.append("closed")


class Scene:
    """One service with sockets of `Echo`."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url = f"{url}/ws/v2/producer/persistent/public/default/t"
        self.http = session
        self.sessions: list[Echo] = []
        self.prepare: Callable[[Echo], None] = lambda echo: None
        self.listener: WebListener
        self.service: WebSocketService

    def make(self, client: WebSocketClient, path: SocketPath, query: Mapping[str, str]) -> Echo:
        echo = Echo(client, path, query)
        self.prepare(echo)
        self.sessions.append(echo)
        return echo

    def connect(self, **options: Any) -> Any:
        return self.http.ws_connect(self.url, **options)

    async def refused(self) -> tuple[int, str]:
        asks = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        async with self.http.get(self.url, headers={**asks, "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}) as answer:
            return answer.status, (await answer.json())["reason"]


@asynccontextmanager
async def scene(**settings: Any) -> AsyncIterator[Scene]:
    def load(broker: Any) -> WebSocketService:
        kinds = dict.fromkeys(SocketKind, made.make)
        made.service = WebSocketService(broker, WebSocketSettings(**settings), 100, kinds)
        return made.service

    async with aiohttp.ClientSession() as session:
        made = Scene("", session)
        made.listener = WebListener(make_broker(), lambda: (), None, load)
        port = await made.listener.start("127.0.0.1", 0)
        made.url = f"http://127.0.0.1:{port}{made.url}"
        try:
            yield made
        finally:
            await made.listener.close()
