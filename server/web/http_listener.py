"""The web port. aiohttp and all routes are imported when the first client comes, on a thread, so that an idle server
neither waits for them at the start (0.2 s) nor holds them in memory (14 MB of 67); until they are there, the client's
bytes wait in its connection. Whatever a call imports is imported then: nothing is imported on the loop.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from magnetar.server.config.http_settings import WebSettings
from magnetar.server.network.ports import listen

if TYPE_CHECKING:
    import ssl

    from aiohttp import web

    from magnetar.server.broker.broker_context import BrokerContext

log = logging.getLogger(__name__)

WAITING_BYTES_MAX = 65_536
"""What a client may send before aiohttp is there; then its socket is not read."""

CLOSE_SECONDS = 0.2
"""How long `close` waits for calls that are being answered."""


class WebListener:
    """`start` once for each port, then `close` once."""

    def __init__(self, broker: "BrokerContext", settings: WebSettings | None = None) -> None:
        self._broker = broker
        self._settings = settings or WebSettings()
        self._servers: list[asyncio.Server] = []
        self._web: web.Server | None = None
        self._loading: asyncio.Task[None] | None = None
        self._doors: dict[_Door, None] = {}
        """In the order in which they came, which is the order of their seats."""

    async def start(
        self,
        host: str | None = None,
        port: int = 0,
        *,
        sock: socket.socket | None = None,
        tls: "ssl.SSLContext | None" = None,
    ) -> int:
        """Listens; returns the actual port. `sock`: bound already, then host and port are not used. Raises OSError."""
        backlog = self._settings.http_server_accept_queue_size
        server, actual = await listen(self._accept, host, port, sock=sock, tls=tls, backlog=backlog)
        self._servers.append(server)
        log.info("listening for %s on port %d", "HTTPS" if tls is not None else "HTTP", actual)
        return actual

    async def close(self) -> None:
        """Stops listening and ends every connection."""
        if not self._servers:
            return
        for server in self._servers:
            server.close()
        if self._loading is not None:
            self._loading.cancel()
        for door in list(self._doors):
            door.refuse()
        if self._web is not None:
            await self._web.shutdown(CLOSE_SECONDS)

    @property
    def waiting(self) -> int:
        """Connections that wait for aiohttp."""
        return len(self._doors)

    def _accept(self) -> asyncio.Protocol:
        if self._web is not None:
            return cast(asyncio.Protocol, self._web())
        door = _Door(self._doors, self._arrived)
        if len(self._doors) >= self._settings.max_http_server_connections:
            log.warning("an HTTP connection is refused: %d wait for the web server", len(self._doors))
            door.is_refused = True
        elif self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())
        return door

    def _arrived(self, door: "_Door") -> None:
        """A handshake may have lasted until after the loading: nobody else would open that door."""
        if self._web is not None:
            door.open(cast(asyncio.Protocol, self._web()))

    async def _load(self) -> None:
        try:
            app = await asyncio.to_thread(import_module, ".http_app", __package__)
            self._web = app.make_server(self._broker, self._settings)
            for door in list(self._doors):
                door.open(cast(asyncio.Protocol, self._web()))
        except Exception:
            log.exception("the web server cannot be loaded")
            for door in list(self._doors):
                door.refuse()


class _Door(asyncio.Protocol):
    """A connection that waits for the web server. Registers itself in `doors` while it waits, from when `arrived` is
    called with it."""

    def __init__(self, doors: "dict[_Door, None]", arrived: "Callable[[_Door], None]") -> None:
        self.is_refused = False
        self._doors = doors
        self._arrived = arrived
        self._transport: asyncio.Transport | None = None
        self._waiting = bytearray()
        self._at_end = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self.is_refused:
            transport.close()
        else:
            self._doors[self] = None
            self._arrived(self)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._waiting += data
        if len(self._waiting) > WAITING_BYTES_MAX:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        """Keeps the socket open for the answer: the client may have only finished asking."""
        self._at_end = True
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._doors.pop(self, None)

    def open(self, protocol: asyncio.Protocol) -> None:
        """Hands the connection over to aiohttp."""
        assert self._transport is not None
        self._doors.pop(self, None)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if self._waiting:
            protocol.data_received(bytes(self._waiting))
        if self._at_end:
            protocol.eof_received()
        elif len(self._waiting) > WAITING_BYTES_MAX:
            self._transport.resume_reading()

    def refuse(self) -> None:
        if self._transport is not None:
            self._transport.close()
