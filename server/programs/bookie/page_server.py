"""An HTTP port with a few pages, for processes that have no admin API: bookies and auto-recovery."""

import asyncio
import gzip
import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from magnetar.server.config.http_settings import WebSettings
from magnetar.server.network.port_listener import PortListener
from magnetar.server.process.metric_tables import MetricFamilies, text_of
from magnetar.server.web.content_encodings import takes_gzip
from magnetar.server.web.http_connection import HttpServer
from magnetar.server.web.loop_share import LoopShare
from magnetar.server.web.responses import send
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay

log = logging.getLogger(__name__)

CLOSE_SECONDS = 0.2

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Page = Callable[[web.BaseRequest], Awaitable[web.Response]]


class PageServer(PortListener):
    """The HTTP port. `start` is called once with a bound socket, then `close` once."""

    def __init__(self, pages: Mapping[str, Mapping[str, Page]]) -> None:
        """`pages` are the handlers, by path and method."""
        settings = WebSettings()
        super().__init__(settings.http_server_accept_queue_size)
        self._pages = pages
        self._web = HttpServer(self._handle, settings, LoopShare(AppendsUnderWay()))

    def _accept(self, listener_name: str) -> asyncio.BaseProtocol:
        return self._web()

    def _log_start(self, port: int, *, with_tls: bool) -> None:
        log.info("listening for HTTP on port %d", port)

    async def close(self) -> None:
        """Stops listening and ends every connection. Has no effect before `start`."""
        if self._stop_listening():
            await self._web.shutdown(CLOSE_SECONDS)

    async def _handle(self, request: web.BaseRequest) -> web.Response:
        response = await self._respond(request)
        await send(request, response)
        return response

    async def _respond(self, request: web.BaseRequest) -> web.Response:
        methods = self._pages.get(request.path.rstrip("/") or "/")
        if methods is None:
            return web.Response(status=404, text=f"there is nothing at {request.path}")
        page = methods.get("GET" if request.method == "HEAD" else request.method)
        if page is None:
            return web.Response(status=405, headers={"Allow": ",".join(methods)})
        return await page(request)


async def heartbeat(_: web.BaseRequest) -> web.Response:
    return web.Response(text="OK\n")


def metrics_response(request: web.BaseRequest, families: MetricFamilies) -> web.Response:
    """Returns the answer to a scrape, compressed if the caller takes gzip. The page of such a process is short."""
    body = text_of(families).encode()
    headers = {"Content-Type": CONTENT_TYPE, "Vary": "Accept-Encoding"}
    if takes_gzip(request.headers.get("Accept-Encoding", "")):
        return web.Response(body=gzip.compress(body, 5), headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=body, headers=headers)
