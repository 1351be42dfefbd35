"""The request log: a line a call, as Apache's (JettyRequestLogFactory), without what a call may keep secret.

A query may hold a token, and so may headers and bodies: none of them is ever written. A path is written as it came,
still encoded.
"""

import logging

from aiohttp import web

log = logging.getLogger(__name__)


def call_of(request: web.BaseRequest) -> str:
    """A call as log lines name it: method and path, without the query."""
    return f"{request.method} {request.rel_url.raw_path}"


def log_request(request: web.BaseRequest, response: web.StreamResponse, role: str | None, seconds: float) -> None:
    log.info(
        '%s role %s "%s" %d %d bytes %.1f ms',
        request.remote,
        "-" if role is None else role,
        call_of(request),
        response.status,
        response.body_length,
        seconds * 1000,
    )
