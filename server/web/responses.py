"""Turns answers and refusals into HTTP responses and sends them."""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping

import orjson
from aiohttp import web

from magnetar.server.process.turns import Turns
from magnetar.server.web.calls import Answer, Moved, Refusal, Status, Streamed, Text, Unpacked
from magnetar.server.web.json_encoding import encoded, encoded_parts

JSON = "application/json"

ANSWER_SECONDS_MAX = 60.0
"""The time within which a client has to take its answer. A slower client is cut off."""


class InParts(web.StreamResponse):
    """A response whose body is sent part by part, as fast as its client reads."""

    def __init__(self, parts: Iterable[bytes], size: int, headers: Mapping[str, str]) -> None:
        """`size` is the size of all parts together."""
        super().__init__(headers=headers)
        self.content_length = size
        self._parts = parts

    async def write_parts(self) -> None:
        """Sends the body. The caller calls `prepare` before this method, and `write_eof` after it. Other tasks run in
        between even if the client takes everything at once."""
        turns = Turns()
        for part in self._parts:
            await self.write(part)
            await turns.breathe()


class AsMade(web.StreamResponse):
    """A response whose body is made while it is sent."""

    def __init__(self, answer: Streamed) -> None:
        super().__init__(headers={"Content-Type": answer.content_type})
        self._parts = answer.parts

    async def send_to(self, request: web.BaseRequest) -> None:
        """Sends head and body. Raises TimeoutError when the client does not take a part within ANSWER_SECONDS_MAX, and
        the errors of the parts."""
        try:
            async with contextlib.aclosing(self._parts) as parts:
                await self.prepare(request)
                async for part in parts:
                    async with asyncio.timeout(ANSWER_SECONDS_MAX):
                        await self.write(part)
                await self.write_eof()
        except BaseException:
            if request.transport is not None:
                request.transport.abort()  # otherwise aiohttp may end the answer as if it were whole
            raise


async def answered(answer: Answer) -> web.StreamResponse:
    """Returns the response for a handler's answer. Raises TypeError for an answer that JSON cannot hold."""
    if isinstance(answer, Text) and isinstance(answer.body, list):
        return _in_parts(answer.body, {"Content-Type": answer.content_type, **answer.headers})
    if isinstance(answer, Unpacked):
        headers = {"Content-Type": answer.content_type, **answer.headers}
        return InParts(answer.body.unpacked(), answer.body.size, headers)
    if isinstance(answer, Streamed):
        return AsMade(answer)
    if isinstance(answer, Text):
        return web.Response(body=answer.body, headers={"Content-Type": answer.content_type, **answer.headers})
    if isinstance(answer, Status):
        if answer.value is None:
            return web.Response(status=answer.code, headers=answer.headers)
        body = await encoded(answer.value)
        return web.Response(status=answer.code, body=body, content_type=JSON, headers=answer.headers)
    parts = await encoded_parts(answer)
    if len(parts) == 1:
        return web.Response(body=parts[0], content_type=JSON)
    return _in_parts(parts, {"Content-Type": JSON})


def _in_parts(parts: list[bytes], headers: Mapping[str, str]) -> InParts:
    return InParts(parts, sum(map(len, parts)), headers)


def refused(refusal: Refusal) -> web.Response:
    """Returns the response for a refusal. If the refusal `closes`, the response ends the connection as well."""
    response = web.Response(
        status=refusal.status,
        body=orjson.dumps({"reason": refusal.reason}),
        content_type=JSON,
        headers=refusal.headers,
    )
    if refusal.closes:
        response.force_close()
    return response


def redirected(moved: Moved) -> web.Response:
    """Returns the response that sends a client to another broker or path."""
    return web.Response(status=moved.status, headers={"Location": moved.location})


async def send(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Sends a response. A client that does not read the response within ANSWER_SECONDS_MAX is cut off. When the client
    is gone, nothing is raised: aiohttp ends the connection by itself."""
    try:
        if isinstance(response, AsMade):
            await response.send_to(request)
            return
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await response.prepare(request)
            if isinstance(response, InParts) and request.method != "HEAD":
                await response.write_parts()
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionError:
        pass
