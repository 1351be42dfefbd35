"""The HTTP face on aiohttp: finds the call, gives it a deadline, and turns answers and faults into responses.

Imported when the first client comes (`listener`). Nothing of a call is here.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from metadata.errors import MetadataError
from pulsar_proto.errors import PulsarError
from server.admin.routes import ROUTES
from server.security.http import admit
from server.web.absent import refusal_of_path
from server.web.calls import Call, Refusal, Route, refusal_of
from server.web.connection import Connection, HttpServer
from server.web.request_log import call_of, log_request
from server.web.responses import answered, refused
from server.web.router import Found, Router, fault_of_parts
from server.web.settings import WebSettings
from storage.managed.errors import ManagedLedgerError

if TYPE_CHECKING:
    from server.broker_context import BrokerContext

log = logging.getLogger(__name__)

CALL_SECONDS_MAX = 30.0
"""Every call is answered in this time, if only with 503: a tool that waits for ever is worse than one that fails."""

BODY_SECONDS_MAX = 10.0
"""For the whole body of a request."""

ANSWER_SECONDS_MAX = 60.0
"""For a client to take its answer; then the connection is cut off."""

BODY_BYTES_MAX = 1 << 20
"""Of a request; more is refused with 413. The largest sound one is a schema."""

router = Router(ROUTES)


def make_server(broker: "BrokerContext", settings: WebSettings | None = None) -> HttpServer:
    settings = settings or WebSettings()
    loop = asyncio.get_running_loop()

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        began_s = loop.time()
        connection = request.protocol
        assert isinstance(connection, Connection)
        caller = Caller()
        try:
            response = await _answer(broker, request, caller)
            if connection.body_is_broken:
                response.force_close()
            await _send(request, response)
        finally:
            connection.ends()
        if settings.web_service_request_log_enabled:
            log_request(request, response, caller.role, loop.time() - began_s)
        return response

    return HttpServer(handle, settings)


@dataclass(slots=True)
class Caller:
    """Filled in when the call may go on."""

    role: str | None = None


async def _answer(broker: "BrokerContext", request: web.BaseRequest, caller: Caller) -> web.Response:
    """Whatever happens, there is an answer, and in time."""
    try:
        async with asyncio.timeout(CALL_SECONDS_MAX):
            return await _respond(broker, request, caller)
    except TimeoutError:
        log.warning("%s was not answered in %s s", call_of(request), CALL_SECONDS_MAX)
        return refused(Refusal(503, f"The call was not answered in {CALL_SECONDS_MAX:g} s"))


async def _send(request: web.BaseRequest, response: web.Response) -> None:
    """A client that does not read what it asked for is cut off; of one that is gone aiohttp takes notice."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await response.prepare(request)
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass


async def _respond(broker: "BrokerContext", request: web.BaseRequest, caller: Caller) -> web.Response:
    readings = router.find(request.rel_url.raw_path)
    if not readings:
        return refused(refusal_of_path(request.path))
    method = "GET" if request.method == "HEAD" else request.method
    found = next((reading for reading in readings if method in reading.routes), None)
    if found is None:
        return _not_allowed(request.method, readings)
    route = found.routes[method]
    try:
        fault = fault_of_parts(found.parts)
        if fault is not None:
            raise Refusal(412, fault)
        caller.role = await _admit(broker, route, found, request)
        body = await _body_of(request)
        call = Call(broker, found.parts, request.query, request.headers, body)
        answer = await route.handler(call)
    except Refusal as refusal:
        return refused(refusal)
    except PulsarError as error:
        return refused(refusal_of(error))
    except (MetadataError, ManagedLedgerError) as error:
        log.warning("%s failed: %s", call_of(request), error)
        return refused(Refusal(500, str(error)))
    except Exception:
        log.exception("%s failed", call_of(request))
        return refused(Refusal(500, "An unexpected error occurred in the server; its log says more"))
    return answered(answer)


async def _admit(broker: "BrokerContext", route: Route, found: Found, request: web.BaseRequest) -> str | None:
    """The caller's role. Nothing of a call is looked at before its caller may make it. Raises Refusal."""
    if broker.security is None:
        return None
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    principal = await admit(
        broker.security, route.needs, request.path, found.parts, request.headers, certificate, request.remote or ""
    )
    return None if principal is None else str(principal)


async def _body_of(request: web.BaseRequest) -> bytes:
    """Raises Refusal."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    if not request.can_read_body and not connection.body_is_broken:
        return b""
    if (request.content_length or 0) > BODY_BYTES_MAX:
        raise _too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > BODY_BYTES_MAX:
                    raise _too_large()
    except TimeoutError:
        raise Refusal(408, f"The body of the request did not come in {BODY_SECONDS_MAX:g} s", closes=True) from None
    except web.RequestPayloadError:
        raise Refusal(400, "The body of the request is not encoded as its Content-Encoding says", closes=True) from None
    except ConnectionError:
        raise Refusal(400, "The body of the request breaks off", closes=True) from None
    if connection.body_is_broken:
        raise Refusal(400, "The body of the request is not framed as HTTP/1.1 frames bodies", closes=True)
    return bytes(body)


def _too_large() -> Refusal:
    return Refusal(413, f"The body of a request may have {BODY_BYTES_MAX} bytes", closes=True)


def _not_allowed(method: str, readings: list[Found]) -> web.Response:
    allowed = ",".join([*dict.fromkeys(name for found in readings for name in found.routes), "OPTIONS"])
    if method == "OPTIONS":
        return web.Response(status=200, headers={"Allow": allowed})
    response = refused(Refusal(405, f"{method} is not allowed here"))
    response.headers["Allow"] = allowed
    return response
