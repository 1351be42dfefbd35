"""The HTTP face on aiohttp: finds the call, gives it a deadline, and turns answers and faults into responses.

Imported when the first client comes (`listener`). Nothing of a call is here.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from pulsar_proto.errors import PulsarError
from server.web.calls import Answer, Call, Refusal, Text, refusal_of
from server.web.routes import find

if TYPE_CHECKING:
    from server.broker_context import BrokerContext

log = logging.getLogger(__name__)

CALL_SECONDS_MAX = 30.0
"""Every call is answered in this time, if only with 503: a tool that waits for ever is worse than one that fails."""

IDLE_SECONDS_MAX = 75.0
"""A connection without a call is closed after it."""

FAULT_CHARACTERS_MAX = 200

JSON = "application/json"


def make_server(broker: "BrokerContext") -> web.Server:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            async with asyncio.timeout(CALL_SECONDS_MAX):
                return await _respond(broker, request)
        except TimeoutError:
            log.warning("%s %s was not answered in %s s", request.method, request.path, CALL_SECONDS_MAX)
            return _refused(Refusal(503, f"The call was not answered in {CALL_SECONDS_MAX:g} s"))

    return web.Server(handle, access_log=None, logger=_ClientFaults(log), keepalive_timeout=IDLE_SECONDS_MAX)


class _ClientFaults(logging.LoggerAdapter[logging.Logger]):
    """aiohttp reports what a client got wrong as errors with a stack: one line of warning is what it deserves."""

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        fault = kwargs.pop("exc_info", None)
        text = " ".join(str(fault).split())[:FAULT_CHARACTERS_MAX] if isinstance(fault, Exception) else ""
        super().log(min(level, logging.WARNING), f"{msg} %s", *args, text, **kwargs)


async def _respond(broker: "BrokerContext", request: web.BaseRequest) -> web.Response:
    found = find(request.rel_url.raw_path)
    if found is None:
        return _refused(Refusal(404, f"There is nothing at {request.path}"))
    method = "GET" if request.method == "HEAD" else request.method
    handler = found.handlers.get(method)
    if handler is None:
        response = _refused(Refusal(405, f"{request.method} is not allowed here"))
        response.headers["Allow"] = ",".join([*found.handlers, "OPTIONS"])
        return response
    try:
        answer = await handler(Call(broker, found.parts, request.query, request.headers))
    except Refusal as refusal:
        return _refused(refusal)
    except PulsarError as error:
        return _refused(refusal_of(error))
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        return _refused(Refusal(500, "An unexpected error occurred in the server; its log says more"))
    return _answered(answer)


def _answered(answer: Answer) -> web.Response:
    if isinstance(answer, Text):
        return web.Response(body=answer.body, headers={"Content-Type": answer.content_type})
    return web.Response(body=orjson.dumps(answer), content_type=JSON)


def _refused(refusal: Refusal) -> web.Response:
    return web.Response(status=refusal.status, body=orjson.dumps({"reason": refusal.reason}), content_type=JSON)
