"""The connections of the web port: how many there may be, their deadlines, and the answers to bytes that are not HTTP.
Each connection needs one of a limited number of seats; `seat_rules` decides which connection loses its seat when all
are taken.

A client has HEAD_SECONDS_MAX to send a whole head, counted from when the client connected or from the head's first
byte, and IDLE_SECONDS_MAX between two calls. Both limits are needed because waiting costs the client nothing. Bytes
that a client sent are never logged or sent back, because a broken header line may hold a token.

`HttpConnection` is a subclass of aiohttp's RequestHandler, because aiohttp has no other place to choose the answer to a
request that cannot be parsed: aiohttp's `handle_error` logs the client's bytes and sends them back
(https://github.com/aio-libs/aiohttp/issues/3287). Nor does aiohttp report that the body of the call in progress cannot
be parsed, so that call would wait for the body until its deadline.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import StreamReader

from magnetar.server.config.http_settings import WebSettings
from magnetar.server.process.descriptors import DESCRIPTORS
from magnetar.server.process.rare_warning import RareWarning
from magnetar.server.web.calls import Refusal
from magnetar.server.web.loop_share import LoopShare
from magnetar.server.web.responses import refused
from magnetar.server.web.seat_rules import Seats

log = logging.getLogger(__name__)

HEAD_SECONDS_MAX = 10.0
"""How long a client may take to send the head of a call. For the first call the time begins when the client
connects."""

IDLE_SECONDS_MAX = 30.0
"""The time without a call after which a connection is closed, as Jetty does (AbstractConnector, the idle timeout)."""

LINGER_SECONDS = 2.0
"""How long the rest of a refused body is still read and discarded, so that the client sees the answer."""

WARNING_SECONDS = 10.0
"""The least time between two warnings that tell how many connections lost their seats, or were closed because no seat
was free."""

DESCRIPTORS_SHARE = 2
"""HTTP connections take at most one in two file descriptors, because clients of the binary port need the rest."""

PIECES_MAX = 64
"""The number of heads in one read that are parsed one by one. The rest of a longer read is parsed as a whole."""

HEAD_END = b"\r\n\r\n"

HEAD_TOO_LARGE = 431

UNEXPECTED = "An unexpected error occurred in the server; its log says more"

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpSocket(Protocol):
    """The interface through which a connection that has become a WebSocket reports events to the WebSocket."""

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def lost(self) -> None:
        """Called when the connection is lost."""


class HttpServer(web.Server):
    """Makes an `HttpConnection` for each client and gives it a seat. The time that parsing takes is subtracted from the
    balance of `share`."""

    def __init__(self, handle: Handle, settings: WebSettings, share: LoopShare) -> None:
        super().__init__(partial(_handled, handle), request_factory=_make_request)
        self.settings = settings
        self.share = share
        most = min(settings.max_http_server_connections, DESCRIPTORS.limit // DESCRIPTORS_SHARE)
        self.seats: Seats[HttpConnection] = Seats(most)
        self._warning = RareWarning(WARNING_SECONDS)
        self._unseated = 0

    def __call__(self) -> "HttpConnection":
        return HttpConnection(self)

    def seat(self, connection: "HttpConnection", address: str) -> bool:
        """Gives a connection a seat, and closes the connection that loses its seat to it. Returns False when there is
        no seat for the new connection; the caller then closes the new connection."""
        evicted = self.seats.enter(connection, address)
        if evicted is None:
            return True
        self._warn()
        evicted.force_close()
        return evicted is not connection

    def _warn(self) -> None:
        self._unseated += 1
        if self._warning.is_due():
            log.warning(
                "there are %d HTTP connections (maxHttpServerConnections): %d were closed for others or refused",
                len(self.seats),
                self._unseated,
            )
            self._unseated = 0


class HttpConnection(web.RequestHandler):
    """One client's connection.

    The connection answers a sound request even when the bytes behind the request are no HTTP: Node sends the body of a
    DELETE without a length, so that the body looks like a broken request. When one request of a read is broken, aiohttp
    forgets the sound requests of that read. So this class hands a read over in pieces, each up to the end of a head.
    """

    __slots__ = (
        "_body",
        "_deadline",
        "_head_bytes",
        "_head_bytes_max",
        "_is_busy",
        "_is_unreadable",
        "_server",
        "_socket",
        "body_is_broken",
    )

    def __init__(self, server: HttpServer) -> None:
        options: dict[str, Any] = {
            "access_log": None,
            "logger": _ClientFaults(log),
            "keepalive_timeout": IDLE_SECONDS_MAX,
            "lingering_time": LINGER_SECONDS,
        }
        limit = server.settings.http_max_request_header_size
        super().__init__(server, loop=asyncio.get_running_loop(), max_line_size=limit, max_field_size=limit, **options)
        self.body_is_broken = False
        """Whether the body of the call in progress was ended before it was whole, because its framing is not valid
        HTTP or the connection was lost."""
        self._server = server
        self._head_bytes = 0
        """The number of received bytes of a head that is not whole yet."""
        self._head_bytes_max = limit
        self._body: StreamReader | None = None
        """The body of the latest call."""
        self._is_busy = False
        """Whether a call is in progress."""
        self._is_unreadable = False
        """Whether all further bytes are ignored, because it is unknown where a request begins."""
        self._deadline: asyncio.TimerHandle | None = None
        """Closes the connection when the head does not come in time."""
        self._socket: HttpSocket | None = None
        """The WebSocket that the connection has become, or None. The bytes that a WebSocket receives are its frames;
        aiohttp hands them to the parser that the WebSocket has set."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        self._arm()
        if not self._server.seat(self, str(peer[0]) if isinstance(peer, tuple) else ""):
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._server.seats.leave(self)
        self._disarm()
        self._is_unreadable = True
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.lost()
        if self._body is not None:
            # A call that reads the body later would get a RuntimeError of aiohttp, which looks like a fault of ours.
            self._break_off(self._body)
            self._body = None
        super().connection_lost(exc)

    def upgraded(self, socket: HttpSocket) -> None:
        """Called when an upgrade was answered. From then on the connection's time is not counted in the web port's
        share of the event loop, and the connection reports its events to `socket` until the connection is lost."""
        self._socket = socket

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._socket is not None:
            self._socket.pause_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._socket is not None:
            self._socket.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self._socket is not None:
            super().data_received(data)
            return
        began_s = self._server.share.clock()
        self._receive(data)
        self._server.share.spend(self._server.share.clock() - began_s)

    def _receive(self, data: bytes) -> None:
        if self._is_unreadable:
            return
        head, end, rest = data.partition(HEAD_END)
        is_of_head = self._body is None or self._body.is_eof()
        if is_of_head and data and not self._take_head(len(head) + len(end), is_whole=bool(end)):
            return
        self._parse(head + end)
        for _ in range(PIECES_MAX):
            if not rest:
                break
            head, end, rest = rest.partition(HEAD_END)
            self._parse(head + end)
        if rest:
            self._parse(rest)
        if self._is_unreadable and self._body is not None:
            self._break_off(self._body)

    def _parse(self, data: bytes) -> None:
        if self._is_unreadable:
            return
        super().data_received(data)
        # aiohttp queues unreadable bytes behind the call in progress. When they are that call's body,
        # aiohttp does not tell the call, which would wait for the rest of the body until its deadline. aiohttp has no
        # public method that tells this, so this code looks into aiohttp's queue.
        latest: Any = self._messages[-1][0] if self._messages else None
        if latest is not None and not isinstance(latest, RawRequestMessage):
            self._is_unreadable = True
            # The traceback refers to this connection, which refers to the fault: a reference cycle.
            latest.exc.__traceback__ = None

    def begins(self, body: StreamReader) -> None:
        """Called when a request was parsed and its call begins."""
        self._disarm()
        self._body = body
        self._is_busy = True
        self._head_bytes = 0
        self._server.seats.begins(self)
        if self._is_unreadable:
            self._break_off(body)

    def ends(self) -> None:
        """Called when the call was answered."""
        self._is_busy = False
        self._server.seats.ends(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Returns the answer to bytes that are no request, and to a call that failed. This method overrides that of
        aiohttp, which would log the client's bytes and send them back. Raises ConnectionError, which makes aiohttp
        close the connection, when a part of the answer was sent before the call failed."""
        if request.writer.output_size > 0:
            raise ConnectionError("the answer breaks off")
        if status >= 500:
            log.error("%s %s failed", request.method, request.rel_url.raw_path, exc_info=exc)
            return refused(Refusal(status, UNEXPECTED, closes=True))
        if isinstance(exc, LineTooLong):
            status = HEAD_TOO_LARGE
        log.warning("%s: answered %d to what is no HTTP request (%s)", request.remote, status, type(exc).__name__)
        return refused(Refusal(status, f"This is no HTTP/1.1 request ({type(exc).__name__})", closes=True))

    def _break_off(self, body: StreamReader) -> None:
        """Ends a body that is not whole yet, and sets `body_is_broken`. Has no effect on a body that is whole."""
        if not body.is_eof():
            self.body_is_broken = True
            body.feed_eof()

    def _take_head(self, size: int, *, is_whole: bool) -> bool:
        """Counts bytes of a head and starts the head's deadline. Returns False when the head is too long, after
        refusing the request."""
        self._head_bytes += size
        if self._head_bytes > self._head_bytes_max + len(HEAD_END):
            self._refuse_head()
            return False
        if is_whole:
            self._head_bytes = 0
        if self._deadline is None and not self._is_busy:
            self._arm()
        return True

    def _refuse_head(self) -> None:
        self._is_unreadable = True
        log.warning("a request has a head of more than %d bytes (httpMaxRequestHeaderSize)", self._head_bytes_max)
        if self.transport is not None:
            status = b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
            self.transport.write(status + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        self.force_close()

    def _arm(self) -> None:
        self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS_MAX, self.force_close)

    def _disarm(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


async def _handled(handle: Handle, request: web.BaseRequest) -> web.StreamResponse:
    assert isinstance(request.protocol, HttpConnection)
    try:
        return await handle(request)
    finally:
        request.protocol.ends()


def _make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    assert isinstance(protocol, HttpConnection)
    protocol.begins(payload)
    return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())


class _ClientFaults(logging.LoggerAdapter[logging.Logger]):
    """The logger that aiohttp gets. aiohttp logs a client's fault as an error with a stack and the client's bytes. This
    adapter logs one warning instead, which names only the kind of fault."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        fault = kwargs.pop("exc_info", None)
        super().log(min(level, logging.WARNING), f"{msg} %s", *args, type(fault).__name__, **kwargs)
