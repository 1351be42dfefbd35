"""The HTTP face on aiohttp: finds the call, gives it a deadline, and turns answers and faults into responses.

Imported when the first client comes (`listener`). Nothing of a call is here.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from metadata.errors import MetadataError
from pulsar_proto.errors import PulsarError
from server.admin.routes import ROUTES
from server.security.http import admit
from server.web.absent import refusal_of_path
from server.web.calls import Answer, Call, Refusal, Route, Status, Text, refusal_of
from server.web.router import Found, Router, fault_of_parts
from storage.managed.errors import ManagedLedgerError

if TYPE_CHECKING:
    from server.broker_context import BrokerContext

log = logging.getLogger(__name__)

CALL_SECONDS_MAX = 30.0
"""Every call is answered in this time, if only with 503: a tool that waits for ever is worse than one that fails."""

IDLE_SECONDS_MAX = 75.0
"""A connection without a call is closed after it."""

BODY_BYTES_MAX = 1 << 20
"""Of a request; more is refused with 413. The largest sound one is a schema."""

FAULT_CHARACTERS_MAX = 200

HEAD_END = b"\r\n\r\n"

JSON = "application/json"

router = Router(ROUTES)


def make_server(broker: "BrokerContext") -> web.Server:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                return await _respond(broker, request)
        except TimeoutError:
            log.warning("%s %s was not answered in %s s", request.method, request.path, CALL_SECONDS_MAX)
            return _refused(Refusal(503, f"The call was not answered in {CALL_SECONDS_MAX:g} s"))

    return _Server(handle)


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        options: dict[str, Any] = {
            "access_log": None,
            "logger": _ClientFaults(log),
            "keepalive_timeout": IDLE_SECONDS_MAX,
        }
        return _Connection(self, loop=asyncio.get_running_loop(), **options)


class _Connection(RequestHandler):
    """Answers a request though what follows it is none: Node sends the body of a DELETE without a length, so that it
    reads as a broken request of its own, and aiohttp forgets a read's sound requests when one of them is broken."""

    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        head, end, rest = data.partition(HEAD_END)
        super().data_received(head + end)
        if rest:
            super().data_received(rest)


class _ClientFaults(logging.LoggerAdapter[logging.Logger]):
    """aiohttp reports what a client got wrong as errors with a stack: one line of warning is what it deserves."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        fault = kwargs.pop("exc_info", None)
        text = " ".join(str(fault).split())[:FAULT_CHARACTERS_MAX] if isinstance(fault, Exception) else ""
        super().log(min(level, logging.WARNING), f"{msg} %s", *args, text, **kwargs)


async def _respond(broker: "BrokerContext", request: web.BaseRequest) -> web.Response:
    readings = router.find(request.rel_url.raw_path)
    if not readings:
        return _refused(refusal_of_path(request.path))
    method = "GET" if request.method == "HEAD" else request.method
    found = next((reading for reading in readings if method in reading.routes), None)
    if found is None:
        return _not_allowed(request.method, readings)
    route = found.routes[method]
    try:
        fault = fault_of_parts(found.parts)
        if fault is not None:
            raise Refusal(412, fault)
        await _admit(broker, route, found, request)
        body = await _body_of(request)
        call = Call(broker, found.parts, request.query, request.headers, body)
        answer = await route.handler(call)
    except Refusal as refusal:
        return _refused(refusal)
    except PulsarError as error:
        return _refused(refusal_of(error))
    except (MetadataError, ManagedLedgerError) as error:
        log.warning("%s %s failed: %s", request.method, request.path, error)
        return _refused(Refusal(500, str(error)))
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _refused(Refusal(500, "An unexpected error occurred in the server; its log says more"))
    return _answered(answer)


async def _admit(broker: "BrokerContext", route: Route, found: Found, request: web.BaseRequest) -> None:
    """Nothing of a call is looked at before its caller may make it. Raises Refusal."""
    if broker.security is None:
        return
    transport = request.transport
    certificate = transport.get_extra_info("peercert") if transport is not None else None
    await admit(
        broker.security, route.needs, request.path, found.parts, request.headers, certificate, request.remote or ""
    )


async def _body_of(request: web.BaseRequest) -> bytes:
    """Raises Refusal."""
    if not request.can_read_body:
        return b""
    body = bytearray()
    async for chunk in request.content.iter_any():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise Refusal(413, f"The body of a request may have {BODY_BYTES_MAX} bytes")
    return bytes(body)


def _not_allowed(method: str, readings: list[Found]) -> web.Response:
    allowed = ",".join([*dict.fromkeys(name for found in readings for name in found.routes), "OPTIONS"])
    if method == "OPTIONS":
        return web.Response(status=200, headers={"Allow": allowed})
    response = _refused(Refusal(405, f"{method} is not allowed here"))
    response.headers["Allow"] = allowed
    return response


def _answered(answer: Answer) -> web.Response:
    if isinstance(answer, Text):
        return web.Response(body=answer.body, headers={"Content-Type": answer.content_type, **answer.headers})
    if isinstance(answer, Status):
        if answer.value is None:
            return web.Response(status=answer.code)
        return web.Response(status=answer.code, body=orjson.dumps(answer.value), content_type=JSON)
    return web.Response(body=orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS), content_type=JSON)


def _refused(refusal: Refusal) -> web.Response:
    return web.Response(status=refusal.status, body=orjson.dumps({"reason": refusal.reason}), content_type=JSON)
