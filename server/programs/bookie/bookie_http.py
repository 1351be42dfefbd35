"""The bookie's HTTP port (httpServerEnabled), which answers whether the bookie is alive, ready and writable, and has
pages for its disk space and its metrics.

Paths and answers are those of BookKeeper 4.17's HttpRouter and its services. Callers do not log in, as with BookKeeper:
the port is off unless it is switched on, and the only thing that a caller can do is to start a garbage collection.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from magnetar.metadata import paths
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore
from magnetar.server.process.metric_tables import MetricFamilies
from magnetar.server.programs.bookie import bookie_metrics as metrics
from magnetar.server.programs.bookie.page_server import Page, PageServer, heartbeat, metrics_response
from magnetar.server.programs.bookie.recovery_metrics import add_recovery
from magnetar.server.programs.bookie.registration_rules import Wanted
from magnetar.storage.bookie.bookie import Bookie
from magnetar.storage.bookie.disks import BookieMode
from magnetar.storage.bookie.wire_server import BookieWireServer
from magnetar.storage.repair.auto_recovery import AutoRecovery

log = logging.getLogger(__name__)


class RunningBookie(Protocol):
    """The pages read the state of the running bookie through this interface."""

    bookie: Bookie
    wire: BookieWireServer
    ledger_directories: tuple[str, ...]
    recovery: AutoRecovery | None
    """Auto-recovery in the bookie's process; None when it does not run here."""

    @property
    def store(self) -> MetadataStore: ...

    @property
    def disk_space(self) -> Callable[[], tuple[int, int]]: ...

    @property
    def registered_as(self) -> Wanted | None: ...


class BookieHttp(PageServer):
    """The HTTP port of a bookie."""

    def __init__(self, running: RunningBookie, *, metrics_only: bool = False) -> None:
        self._running = running
        self._collecting: asyncio.Task[None] | None = None
        pages: dict[str, dict[str, Page]] = {"/metrics": {"GET": self._metrics}}
        super().__init__(pages if metrics_only else pages | self._bookkeepers())

    def _bookkeepers(self) -> dict[str, dict[str, Page]]:
        return {
            "/heartbeat": {"GET": heartbeat},
            "/api/v1/bookie/state": {"GET": self._state},
            "/api/v1/bookie/is_ready": {"GET": self._is_ready},
            "/api/v1/bookie/info": {"GET": self._info},
            "/api/v1/bookie/list_bookies": {"GET": self._list_bookies},
            "/api/v1/bookie/gc": {"GET": self._gc, "PUT": self._trigger_gc},
        }

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        running, families = self._running, MetricFamilies()
        usages = await asyncio.to_thread(metrics.directory_usages, running.ledger_directories)
        metrics.add_bookie(
            families,
            running.bookie.stats(),
            running.registered_as,
            running.wire.connection_count,
            running.wire.inflight_bytes,
            running.ledger_directories,
        )
        for directory, percent in usages.items():
            families.add(metrics.usage_name(directory), "", percent)
        if running.recovery is not None:
            add_recovery(families, running.recovery, prefix="replication_")
        return metrics_response(request, families)

    async def _state(self, _: web.BaseRequest) -> web.Response:
        mode = self._running.bookie.mode
        return answer(
            {
                "running": mode in (BookieMode.WRITABLE, BookieMode.READ_ONLY),
                "readOnly": mode is BookieMode.READ_ONLY,
                "shuttingDown": mode is BookieMode.CLOSED,
                "availableForHighPriorityWrites": self._running.bookie.takes_high_priority_writes,
            }
        )

    async def _is_ready(self, _: web.BaseRequest) -> web.Response:
        """Answers 200 if the bookie serves requests and is registered in ZooKeeper; a read-only bookie is ready, too,
        as with Apache. Otherwise answers 503 with the reason."""
        bookie = self._running.bookie
        if bookie.mode not in (BookieMode.WRITABLE, BookieMode.READ_ONLY):
            return web.Response(status=503, text=bookie.hindrance)
        if self._running.registered_as is None:
            return web.Response(status=503, text="the bookie is not registered in ZooKeeper")
        return web.Response(status=200)

    async def _info(self, _: web.BaseRequest) -> web.Response:
        try:
            total, free = self._running.disk_space()
        except OSError as error:
            return web.Response(status=500, text=str(error))
        return answer({"freeSpace": free, "totalSpace": total})

    async def _list_bookies(self, request: web.BaseRequest) -> web.Response:
        """Answers the ids of the bookies that `?type=rw` or `?type=ro` asks for. The value of each id is null; Apache's
        bookie gives a host name there on request."""
        kind = request.query.get("type")
        if kind not in ("rw", "ro"):
            return web.Response(status=400, text="the query must have type=rw or type=ro")
        path = paths.AVAILABLE_BOOKIES if kind == "rw" else paths.READ_ONLY_BOOKIES
        try:
            names = await self._running.store.children(path)
        except MetadataError as error:
            return web.Response(status=503, text=str(error))
        readonly = paths.READ_ONLY_BOOKIES.rpartition("/")[2]
        return answer({name: None for name in names if kind == "ro" or name != readonly})

    async def _gc(self, _: web.BaseRequest) -> web.Response:
        running = self._collecting is not None and not self._collecting.done()
        return answer({"is_in_force_gc": str(running).lower()})

    async def _trigger_gc(self, _: web.BaseRequest) -> web.Response:
        """Begins a garbage collection. A request during a collection has no effect."""
        if self._collecting is None or self._collecting.done():
            self._collecting = asyncio.get_running_loop().create_task(self._collect())
        return web.Response(text="Triggered GC on BookieServer\n")

    async def _collect(self) -> None:
        try:
            await self._running.bookie.collect_garbage()
        except Exception as error:
            log.warning("the garbage collection that was asked for broke off: %r", error)


def answer(value: object) -> web.Response:
    return web.Response(text=json.dumps(value), content_type="application/json")
