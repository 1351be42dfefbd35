"""A connection of the web port, around aiohttp's: its seat, its deadlines, and its answers to what is not HTTP.

A client is given little time for what costs it nothing: `HEAD_SECONDS_MAX` from its first byte (or its silence) to a
whole head, `IDLE_SECONDS_MAX` between calls. Nothing that it sent is ever logged or answered back: a broken header line
may hold a token.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import LineTooLong
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from magnetar.server.config.http_settings import WebSettings
from magnetar.server.process.descriptors import DESCRIPTORS
from magnetar.server.process.rare_warning import RareWarning
from magnetar.server.web.calls import Refusal
from magnetar.server.web.loop_share import LoopShare
from magnetar.server.web.responses import refused
from magnetar.server.web.seats import Seats

log = logging.getLogger(__name__)

HEAD_SECONDS_MAX = 10.0
"""How long a client may take for the head of a call, and for its first one after it connected."""

IDLE_SECONDS_MAX = 30.0
"""A connection without a call is closed after it, as Jetty closes it (AbstractConnector, the idle timeout)."""

LINGER_SECONDS = 2.0
"""How long a refused body is read and thrown away, so that its client sees the answer."""

WARNING_SECONDS = 10.0
"""One warning in this time tells of connections that lost their seats or found none."""

DESCRIPTORS_SHARE = 2
"""HTTP connections take at most one of so many file descriptors: clients of the binary port need the others."""

PIECES_MAX = 64
"""Heads of one read that are parsed one by one."""

HEAD_END = b"\r\n\r\n"

HEAD_TOO_LARGE = 431

UNEXPECTED = "An unexpected error occurred in the server; its log says more"

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpServer(web.Server):
    """Makes a `HttpConnection` for each client, and seats it. `share` learns how long requests take to parse."""

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
        """False: there is no seat for it."""
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


class HttpConnection(RequestHandler):
    """Answers a request though what follows it is none: Node sends the body of a DELETE without a length, so that it
    reads as a broken request of its own, and aiohttp forgets a read's sound requests when one of them is broken."""

    __slots__ = (
        "_body",
        "_deadline",
        "_head_bytes",
        "_head_bytes_max",
        "_is_busy",
        "_is_unreadable",
        "_server",
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
        """The body of the call in progress breaks off: its framing is not HTTP's."""
        self._server = server
        self._head_bytes = 0
        """What came since the last call began and is not a whole head yet."""
        self._head_bytes_max = limit
        self._body: StreamReader | None = None
        """Of the latest call."""
        self._is_busy = False
        self._is_unreadable = False
        """What follows on the connection cannot be understood any more."""
        self._deadline: asyncio.TimerHandle | None = None

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
        if self._body is not None:
            # A call that waits for it later would get aiohttp's RuntimeError, which reads like a fault of ours.
            self._break_off(self._body)
            self._body = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
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
        # aiohttp has no call for this: it queues the fault behind the call whose body it has ruined, which would wait
        # for the rest of the body until its deadline.
        latest: Any = self._messages[-1][0] if self._messages else None
        if latest is not None and not isinstance(latest, RawRequestMessage):
            self._is_unreadable = True
            latest.exc.__traceback__ = None  # or the fault keeps this connection, and itself

    def begins(self, body: StreamReader) -> None:
        """A call begins."""
        self._disarm()
        self._body = body
        self._is_busy = True
        self._head_bytes = 0
        self._server.seats.begins(self)
        if self._is_unreadable:
            self._break_off(body)

    def ends(self) -> None:
        """The call was answered."""
        self._is_busy = False
        self._server.seats.ends(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is no request, and to a call that failed. aiohttp's own would log what came and send it
        back."""
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
        """Has no effect on a body that is whole."""
        if not body.is_eof():
            self.body_is_broken = True
            body.feed_eof()

    def _take_head(self, size: int, *, is_whole: bool) -> bool:
        """Counts bytes of a head; False when they are too many."""
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
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.BaseRequest:
    assert isinstance(protocol, HttpConnection)
    protocol.begins(payload)
    return web.BaseRequest(message, payload, protocol, writer, task, asyncio.get_running_loop())


class _ClientFaults(logging.LoggerAdapter[logging.Logger]):
    """aiohttp reports what a client got wrong as errors with a stack and with the client's bytes: one line of warning
    that names the kind of fault is what it deserves."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        fault = kwargs.pop("exc_info", None)
        super().log(min(level, logging.WARNING), f"{msg} %s", *args, type(fault).__name__, **kwargs)
