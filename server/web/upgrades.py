"""The web port's interface to WebSockets: the service that answers requests for an upgrade (RFC 6455) implements
`Upgrades`.

A request for an upgrade is a call until its socket is open: it counts as a call in progress, has a deadline, and its
refusals are HTTP answers. An open socket is a connection without a call in progress. Such a connection keeps its seat
(`seat_rules`), and its time on the event loop does not count in the web port's share (`loop_share`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from magnetar.metadata.errors import MetadataError
from magnetar.server.process.shared_result import SharedResult
from magnetar.server.web.call_gate import CallGate
from magnetar.server.web.calls import Refusal
from magnetar.server.web.http_connection import UNEXPECTED
from magnetar.server.web.loop_share import LoopShare
from magnetar.server.web.request_log import call_of
from magnetar.server.web.responses import refused, send
from magnetar.storage.managed.managed_ledger_errors import ManagedLedgerError
from pulsar_proto.errors import PulsarError

log = logging.getLogger(__name__)

OPEN_SECONDS_MAX = 30.0
"""The longest time until a socket is opened or refused."""


class OpenedSocket(Protocol):
    """A WebSocket that may be opened, because all checks that could refuse the request have passed."""

    async def run(self, request: web.BaseRequest) -> web.StreamResponse:
        """Sends the answer 101 and serves the socket until it is closed. Raises nothing but CancelledError."""


class Upgrades(Protocol):
    """Answers requests for an upgrade."""

    def takes(self, raw_path: str) -> bool:
        """Returns whether a path, still encoded, leads to a socket."""

    async def open(self, request: web.BaseRequest) -> OpenedSocket:
        """Judges a request, and returns the socket that may be opened. Raises Refusal when the request is refused.
        When this method is cancelled, it leaves nothing behind."""

    def close(self) -> None:
        """Called when the web port closes: asks all sockets to end."""


class LateUpgrades:
    """The sockets of a service that is imported when a client asks for the first one, because the service takes 1 MB,
    and most servers have no sockets. Implements `Upgrades`."""

    def __init__(self, takes: Callable[[str], bool], load: Callable[[], Upgrades]) -> None:
        """`takes` is the method of the service. `load` imports and makes the service; it is called on a thread."""
        self.takes = takes
        self._load = load
        self._loading = SharedResult[Upgrades]()
        self._service: Upgrades | None = None
        self._is_closed = False

    async def open(self, request: web.BaseRequest) -> OpenedSocket:
        if self._service is None:
            self._service = await self._loading.get(lambda: asyncio.to_thread(self._load))
            if self._is_closed:
                self._service.close()
        return await self._service.open(request)

    def close(self) -> None:
        self._is_closed = True
        if self._service is not None:
            self._service.close()


async def answer_upgrade(
    upgrades: Upgrades, request: web.BaseRequest, gate: CallGate, share: LoopShare
) -> web.StreamResponse:
    """Opens a socket and serves it until it is closed, or refuses the request. Returns the response that was sent."""
    try:
        with gate.entered(is_urgent=False):
            opened = await share.run(_opened(upgrades, request))
    except Refusal as error:
        response = refused(error)
        response.force_close()
        await send(request, response)
        return response
    return await opened.run(request)


async def _opened(upgrades: Upgrades, request: web.BaseRequest) -> OpenedSocket:
    try:
        async with asyncio.timeout(OPEN_SECONDS_MAX):
            return await upgrades.open(request)
    except TimeoutError:
        log.warning("%s was not answered in %s s", call_of(request), OPEN_SECONDS_MAX)
        raise Refusal(504, f"The socket was not opened in {OPEN_SECONDS_MAX:g} s") from None
    except (PulsarError, MetadataError, ManagedLedgerError) as error:
        log.warning("%s failed: %s", call_of(request), error)
        raise Refusal(500, str(error)) from error
    except Refusal:
        raise
    except Exception as error:
        log.exception("%s failed", call_of(request))
        raise Refusal(500, UNEXPECTED) from error
