"""Answers and refusals as HTTP responses."""

import orjson
from aiohttp import web

from server.web.calls import Answer, Refusal, Status, Text

JSON = "application/json"


def answered(answer: Answer) -> web.Response:
    if isinstance(answer, Text):
        return web.Response(body=answer.body, headers={"Content-Type": answer.content_type, **answer.headers})
    if isinstance(answer, Status):
        if answer.value is None:
            return web.Response(status=answer.code)
        return web.Response(status=answer.code, body=orjson.dumps(answer.value), content_type=JSON)
    return web.Response(body=orjson.dumps(answer, option=orjson.OPT_NON_STR_KEYS), content_type=JSON)


def refused(refusal: Refusal) -> web.Response:
    """A refusal that `closes` takes its connection with it."""
    response = web.Response(
        status=refusal.status,
        body=orjson.dumps({"reason": refusal.reason}),
        content_type=JSON,
        headers=refusal.headers,
    )
    if refusal.closes:
        response.force_close()
    return response
