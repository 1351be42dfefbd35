"""Answers HTTP requests: finds the route, gives the call a deadline, and makes a response of the handler's answer or
fault.

`http_listener` imports this module on a thread, after the start. This module does not know the calls:
the builder of the server passes the table of routes.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http import HttpVersion11

from magnetar.metadata.errors import MetadataError
from magnetar.server.config.http_settings import WebSettings
from magnetar.server.web.absent_calls import refusal_of_path
from magnetar.server.web.authorization import admit
from magnetar.server.web.call_gate import CallGate
from magnetar.server.web.calls import Answer, Call, Moved, Refusal, Route, refusal_of
from magnetar.server.web.http_connection import UNEXPECTED, HttpConnection, HttpServer
from magnetar.server.web.loop_share import LoopShare
from magnetar.server.web.owner_redirects import check_place
from magnetar.server.web.request_log import call_of, log_request
from magnetar.server.web.responses import answered, redirected, refused, send
from magnetar.server.web.router import PathReading, Router, fault_of_parts
from magnetar.server.web.upgrades import Upgrades, answer_upgrade
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError

if TYPE_CHECKING:
    from magnetar.server.broker.broker import Broker

log = logging.getLogger(__name__)

CALL_SECONDS_MAX = 30.0
"""A call that takes longer is cancelled and answered with 503, because a tool that fails is better than a tool that
waits for ever."""

BODY_SECONDS_MAX = 10.0
"""How long a client may take to send the whole body of a request."""

BODY_BYTES_MAX = 1 << 20
"""The largest body of a request; a larger one is refused with 413. The largest bodies that clients have reason to send
are schemas."""


def make_server(
    broker: "Broker", router: Router, settings: WebSettings, upgrades: Upgrades | None = None
) -> HttpServer:
    """Returns a server for the calls that `router` knows. The server makes a protocol for each accepted connection.
    `upgrades` answers requests for WebSockets; when it is None, there is no WebSocket service."""
    gate = CallGate(settings.max_concurrent_http_requests, broker.http_calls)
    share = LoopShare(broker.appends)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        began_s = share.clock()
        if upgrades is not None and upgrades.takes(request.rel_url.raw_path):
            response = await answer_upgrade(upgrades, request, gate, share)
            if settings.web_service_request_log_enabled:
                log_request(request, response, None, share.clock() - began_s)
            return response
        call = _Incoming(broker, router, request)
        try:
            with gate.entered(is_urgent=call.is_urgent):
                response = await share.run(call.answer(), is_urgent=call.is_urgent)
        except Refusal as refusal:
            response = refused(refusal)
        if settings.web_service_request_log_enabled:
            log_request(request, response, call.role, share.clock() - began_s)
        return response

    return HttpServer(handle, settings, share)


class _Incoming:
    """Answers one request: finds its route, runs the route's handler and sends the answer."""

    def __init__(self, broker: "Broker", router: Router, request: web.BaseRequest) -> None:
        assert isinstance(request.protocol, HttpConnection)
        self.connection = request.protocol
        self.role: str | None = None
        """The caller's role; None until the authorization has let the call pass."""
        self._broker = broker
        self._request = request
        self._method = "GET" if request.method == "HEAD" else request.method
        self._readings = router.find(request.rel_url.raw_path)
        self._found = next((reading for reading in self._readings if self._method in reading.routes), None)

    @property
    def is_urgent(self) -> bool:
        return self._found is not None and self._found.routes[self._method].is_urgent

    async def answer(self) -> web.StreamResponse:
        """Sends an answer within CALL_SECONDS_MAX, whatever happens, and returns the response that was sent."""
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                response = await self._respond()
        except TimeoutError:
            log.warning("%s was not answered in %s s", call_of(self._request), CALL_SECONDS_MAX)
            response = refused(Refusal(503, f"The call was not answered in {CALL_SECONDS_MAX:g} s"))
        if self.connection.body_is_broken:
            response.force_close()
        await send(self._request, response)
        return response

    async def _respond(self) -> web.StreamResponse:
        request = self._request
        if self._found is None:
            if self._readings:
                return _not_allowed(request.method, self._readings)
            return refused(refusal_of_path(request.path))
        try:
            return await answered(await self._call(self._found))
        except Refusal as refusal:
            return refused(refusal)
        except Moved as moved:
            return redirected(moved)
        except PulsarError as error:
            return refused(refusal_of(error))
        except (MetadataError, ManagedLedgerError) as error:
            log.warning("%s failed: %s", call_of(request), error)
            return refused(Refusal(500, str(error)))
        except Exception:
            log.exception("%s failed", call_of(request))
            return refused(Refusal(500, UNEXPECTED))

    async def _call(self, found: PathReading) -> Answer:
        """Returns the answer of the route's handler. Before the authorization has let the caller pass, only the names
        in the path are checked, and the body is not read. After that, a call that another broker serves is redirected.
        Raises Refusal, Moved and the errors of the handler."""
        fault = fault_of_parts(found.parts)
        if fault is not None:
            raise Refusal(412, fault)
        request, route = self._request, found.routes[self._method]
        self.role = await _admit(self._broker, route, found, request)
        call = Call(
            self._broker,
            found.parts,
            request.query,
            request.headers,
            await _body_of(request),
            _address_of(request),
            self._method,
            request.rel_url.raw_path_qs,
            request.secure,
        )
        await check_place(route.place, call)
        return await route.handler(call)


async def _admit(broker: "Broker", route: Route, found: PathReading, request: web.BaseRequest) -> str | None:
    """Returns the caller's role, or None when nobody was authenticated. Raises Refusal when the caller may not call."""
    if broker.security is None:
        return None
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    principal = await admit(
        broker.security, route.needs, request.path, found.parts, request.headers, certificate, request.remote or ""
    )
    return None if principal is None else str(principal)


def _address_of(request: web.BaseRequest) -> str:
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    return f"/{f'[{peer[0]}]' if ':' in peer[0] else peer[0]}:{peer[1]}" if peer else "/unknown"


async def _body_of(request: web.BaseRequest) -> bytes:
    """Reads the body of a request. Raises Refusal when the body is too large, comes too slowly, or does not
    have the form that the request's headers declare."""
    connection = request.protocol
    assert isinstance(connection, HttpConnection)
    if not request.can_read_body and not connection.body_is_broken:
        return b""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            if request.version >= HttpVersion11 and request.headers.get("Expect", "").lower() == "100-continue":
                await _ask_for_body(request)
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise _too_large()
    except TimeoutError:
        raise Refusal(408, f"The body of the request did not come in {BODY_SECONDS_MAX:g} s", closes=True) from None
    except (web.RequestPayloadError, ConnectionError) as error:
        # The body keeps the error. With its traceback the error would keep the request, which keeps the body: a cycle
        # that only the garbage collector would free.
        error.__traceback__ = None
        is_cut_off = isinstance(error, ConnectionError)
        fault = "breaks off" if is_cut_off else "is not encoded as its Content-Encoding says"
        raise Refusal(400, f"The body of the request {fault}", closes=True) from None
    if connection.body_is_broken:
        raise Refusal(400, "The body of the request is not framed as HTTP/1.1 frames bodies", closes=True)
    return bytes(body)


async def _ask_for_body(request: web.BaseRequest) -> None:
    """Sends the line `100 Continue` to a client that asked for it with `Expect: 100-continue`: curl waits a second for
    this line before it sends a long body, other clients wait until the line comes. aiohttp sends the line only for
    routes of its own router."""
    writer = request.writer
    await writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    writer.output_size = 0  # Otherwise aiohttp would take this line for the beginning of the answer.


def _too_large() -> Refusal:
    return Refusal(413, f"The body of a request may have {BODY_BYTES_MAX} bytes", closes=True)


def _not_allowed(method: str, readings: list[PathReading]) -> web.Response:
    allowed = ",".join([*dict.fromkeys(name for found in readings for name in found.routes), "OPTIONS"])
    if method == "OPTIONS":
        return web.Response(status=200, headers={"Allow": allowed})
    response = refused(Refusal(405, f"{method} is not allowed here"))
    response.headers["Allow"] = allowed
    return response
