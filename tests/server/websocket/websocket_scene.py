"""A server in this process whose WebSockets are opened."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count as numbers
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.payload import body, parse_metadata
from tests.server.fakes import command
from tests.server.web.web_scene import Web, running
from tests.server.wire_client import Client, flow

SECONDS_MAX = 20

_numbers = numbers()

TOPIC = "persistent/public/default/ws"


class Socket:
    """A client's WebSocket."""

    def __init__(self, inner: aiohttp.ClientWebSocketResponse) -> None:
        self.inner = inner

    async def say(self, value: object) -> None:
        """Sends a value as JSON; a text or bytes as they are."""
        await self.inner.send_str(value if isinstance(value, str) else orjson.dumps(value).decode())

    async def heard(self) -> Any:
        """The value of the next text."""
        return orjson.loads(await self.inner.receive_str(timeout=SECONDS_MAX))

    async def ask(self, value: object) -> Any:
        await self.say(value)
        return await self.heard()

    async def end(self) -> tuple[int | None, str]:
        """Code and reason with which the server closes the socket."""
        message = await self.inner.receive(timeout=SECONDS_MAX)
        assert message.type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED), message
        return self.inner.close_code, str(message.extra or "")


class Sockets:
    """What opens WebSockets of one server."""

    def __init__(self, web: Web) -> None:
        self.web = web

    def url(self, path: str) -> str:
        return f"{self.web.server.web_url}/ws/v2/{path}"

    @asynccontextmanager
    async def open(
        self, path: str, headers: Mapping[str, str] | None = None, *, autoping: bool = True
    ) -> AsyncIterator[Socket]:
        """`path` follows /ws/v2/."""
        async with self.web.session.ws_connect(self.url(path), headers=headers, autoping=autoping) as inner:
            yield Socket(inner)

    async def refused(self, path: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
        """Status and reason with which the server refuses a socket."""
        asks = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
        asks |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
        async with self.web.session.get(self.url(path), headers={**asks, **(headers or {})}) as answer:
            assert answer.status != 101
            return answer.status, (await answer.json())["reason"]


@asynccontextmanager
async def sockets(folder: Path, **settings: str) -> AsyncIterator[Sockets]:
    """`settings` are keys of broker.conf."""
    async with running(folder, **settings) as web:
        yield Sockets(web)


async def stored(scene: Sockets, topic: str, count: int) -> list[tuple[pb.MessageIdData, pb.MessageMetadata, bytes]]:
    """The first `count` entries of a topic as a consumer of the client port gets them: id, metadata and body."""
    client = await Client.connect(int(scene.web.server.broker_url.rpartition(":")[2]))
    client.say(
        command(
            "SUBSCRIBE",
            "subscribe",
            topic=topic,
            subscription=f"all-{next(_numbers)}",
            subType=pb.CommandSubscribe.Exclusive,
            consumer_id=1,
            request_id=1,
            initialPosition=pb.CommandSubscribe.Earliest,
        )
    )
    assert (await client.answer()).type == pb.BaseCommand.SUCCESS
    client.say(flow(10_000))
    found: list[tuple[pb.MessageIdData, pb.MessageMetadata, bytes]] = []
    async with asyncio.timeout(SECONDS_MAX):
        while len(found) < count:
            total, size = struct.unpack(">II", await client.reader.readexactly(8))
            rest = await client.reader.readexactly(total - 4)
            made = pb.BaseCommand.FromString(rest[:size])
            if made.type == pb.BaseCommand.MESSAGE:
                found.append((made.message.message_id, parse_metadata(rest[size:]), body(rest[size:])))
    client.writer.close()
    return found
