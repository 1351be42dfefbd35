"""A server in this process whose WebSockets are opened."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from tests.server.web.web_scene import SECONDS_MAX, Web, running

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
    async def open(self, path: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[Socket]:
        """`path` follows /ws/v2/."""
        async with self.web.session.ws_connect(self.url(path), headers=headers, autoping=False) as inner:
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
