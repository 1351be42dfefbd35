"""The request log: one line for each call, like Apache's (JettyRequestLogFactory), but without the query.

Queries, headers and bodies may hold tokens, so the log never contains them. Paths are written as the client sent them,
still percent-encoded.
"""

import logging

from aiohttp import web

log = logging.getLogger(__name__)


def call_of(request: web.BaseRequest) -> str:
    """Returns the name of a call in log lines: its method and its path, without the query."""
    return f"{request.method} {request.rel_url.raw_path}"


def log_request(request: web.BaseRequest, response: web.StreamResponse, role: str | None, seconds: float) -> None:
    """Writes the line of one call. `role` is None when nobody was authenticated."""
    log.info(
        '%s role %s "%s" %d %d bytes %.1f ms',
        request.remote,
        "-" if role is None else role,
        call_of(request),
        response.status,
        response.body_length,
        seconds * 1000,
    )
