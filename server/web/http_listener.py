"""The listener of the web port, which imports aiohttp and the table of routes on a thread while clients are served.

A server is ready without these modules, whose import takes longer than the rest of its start. The program calls
`begin_to_load` as soon as the ports listen. Until the imports are done, a `_Door` keeps each connection and the bytes
that its client sends. Nothing is imported on the event loop, because an import stops every client: all modules that the
handlers of the routes need have to be imported with the table.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from magnetar.server.config.http_settings import WebSettings
from magnetar.server.network.port_listener import PortListener
from magnetar.server.process.garbage_collection import uncollected_imports
from magnetar.server.web.aiohttp_import import import_aiohttp_web

if TYPE_CHECKING:
    from aiohttp import web

    from magnetar.server.broker.broker import Broker
    from magnetar.server.web.calls import Route
    from magnetar.server.web.upgrades import Upgrades

log = logging.getLogger(__name__)

WAITING_BYTES_MAX = 65_536
"""When a client has sent more than this before aiohttp is imported, its socket is not read until the import is done."""

CLOSE_SECONDS = 0.2
"""How long `close` waits for calls that are being answered."""

_REASON = b'{"reason":"The web server cannot be loaded; the log of the server says why"}'

NOT_LOADED = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
    b"Connection: close\r\n\r\n%b"
) % (len(_REASON), _REASON)
"""The answer to a client when the import failed. The bytes are written out here because aiohttp itself may be
missing."""


class WebListener(PortListener):
    """Listens on the web ports. The listener's owner calls `start` once for each port, and `close` once."""

    def __init__(
        self,
        broker: "Broker",
        load_routes: "Callable[[], Iterable[Route]]",
        settings: WebSettings | None = None,
        load_upgrades: "Callable[[Broker], Upgrades] | None" = None,
    ) -> None:
        """`load_routes` imports the calls of this port and returns them, and `load_upgrades` returns the service that
        answers requests for WebSockets; both are called on a thread."""
        self._settings = settings or WebSettings()
        super().__init__(self._settings.http_server_accept_queue_size)
        self._broker = broker
        self._load_routes = load_routes
        self._load_upgrades = load_upgrades
        self._upgrades: Upgrades | None = None
        self._web: web.Server | None = None
        self._loading: asyncio.Task[None] | None = None
        """The task of the import. The attribute is None again after an import that failed, so that the next client
        repeats the import."""
        self._doors: dict[_Door, None] = {}
        """The connections that wait for the import, in the order in which they came, which is also the order in which
        they get seats (`seat_rules`)."""

    def _log_start(self, port: int, *, with_tls: bool) -> None:
        log.info("listening for %s on port %d", "HTTPS" if with_tls else "HTTP", port)

    async def close(self) -> None:
        """Stops listening and ends every connection."""
        if not self._stop_listening():
            return
        if self._loading is not None:
            self._loading.cancel()
        for door in list(self._doors):
            door.refuse()
        if self._upgrades is not None:
            self._upgrades.close()
        if self._web is not None:
            await self._web.shutdown(CLOSE_SECONDS)

    @property
    def waiting(self) -> int:
        """The number of connections that wait until aiohttp is imported."""
        return len(self._doors)

    def _accept(self, listener_name: str) -> asyncio.Protocol:
        if self._web is not None:
            return cast(asyncio.Protocol, self._web())
        door = _Door(self._doors, self._arrived)
        if len(self._doors) >= self._settings.max_http_server_connections:
            log.warning("an HTTP connection is refused: %d wait for the web server", len(self._doors))
            door.is_refused = True
        else:
            self.begin_to_load()
        return door

    def _arrived(self, door: "_Door") -> None:
        """Called when the connection of a `_Door` is made, for TLS after its handshake.

        The import of aiohttp was begun when the client was accepted at the latest, and may have ended by now. `_load`
        did not see this door if the import ended before the connection was made. So this method hands the connection
        to aiohttp after a successful import, and begins the import again after a failed one.
        """
        if self._web is not None:
            door.open(cast(asyncio.Protocol, self._web()))
        else:
            self.begin_to_load()

    def begin_to_load(self) -> None:
        """Begins the import, unless it has begun already. The first client also begins it, when nobody else has."""
        if self._loading is None:
            self._loading = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        try:
            app, router, self._upgrades = await asyncio.to_thread(self._import)
            self._web = app.make_server(self._broker, router, self._settings, self._upgrades)
            for door in list(self._doors):
                door.open(cast(asyncio.Protocol, self._web()))
        except Exception:
            log.exception("the web server cannot be loaded")
            self._loading = None
            for door in list(self._doors):
                door.fail()

    def _import(self) -> Any:
        """Returns the module `http_app`, the router of all routes, and the service for WebSockets, which is None when
        there is none. The method runs on a thread."""
        with uncollected_imports():
            import_aiohttp_web()
            app = import_module(".http_app", __package__)
            upgrades = None if self._load_upgrades is None else self._load_upgrades(self._broker)
            return app, app.Router(self._load_routes()), upgrades


class _Door(asyncio.Protocol):
    """A connection that waits until aiohttp is imported. The door keeps the bytes that the client sends, until `open`
    hands the connection and these bytes to aiohttp.

    A door is a member of `doors` from when its connection is made until the door is opened or the connection is lost.
    `arrived` is called with the door as soon as the door is a member.
    """

    def __init__(self, doors: "dict[_Door, None]", arrived: "Callable[[_Door], None]") -> None:
        self.is_refused = False
        """Whether the connection is to be closed as soon as it is made. The flag is set before the connection is
        made."""
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
        """Keeps the socket open for the answer, because a client that has ended its side may still wait for the
        answer."""
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

    def fail(self) -> None:
        """Closes the connection. A client that has sent something first gets the answer NOT_LOADED."""
        assert self._transport is not None
        if self._waiting:
            self._transport.write(NOT_LOADED)
        self.refuse()

    def refuse(self) -> None:
        """Closes the connection without an answer."""
        if self._transport is not None:
            self._transport.close()
