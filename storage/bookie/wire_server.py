"""The bookie's port: a server that listens, counts the connections, and closes them when the bookie ends.

`wire_peer` is one connection, and `wire_session` is the protocol.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from magnetar.storage.bookie.start_tls_gate import StartTlsGate
from magnetar.storage.bookie.wire_calls import WireBookie, WireCalls
from magnetar.storage.bookie.wire_limits import Budget, WireLimits
from magnetar.storage.bookie.wire_peer import WirePeer
from pulsar_proto.wire.read_buffer import READ_BYTES

if TYPE_CHECKING:
    import ssl

log = logging.getLogger(__name__)

BACKLOG = 1_024
CLOSE_DEADLINE_SECONDS = 5.0
"""How long `close` waits for the peers to take their last answers, before it aborts their connections."""


class BookieWireServer:
    """The port of a bookie that is open already. The server is made and used on the loop's thread."""

    def __init__(
        self,
        bookie: WireBookie,
        *,
        disk_space: Callable[[], tuple[int, int]],
        limits: WireLimits | None = None,
        has_room: Callable[[], bool] = lambda: True,
        tls: "Callable[[], ssl.SSLContext] | None" = None,
    ) -> None:
        """`disk_space()` returns total and free bytes (`disks.DiskSpace`). `has_room()` returns whether this
        process may have one more connection, and logs why not. `tls()` returns the SSL context of a handshake that
        begins now; None refuses START_TLS."""
        self._bookie = bookie
        self._limits = limits or WireLimits()
        self._calls = WireCalls(bookie, disk_space)
        self._has_room = has_room
        self._tls = tls
        self._gates: set[StartTlsGate] = set()
        """The connections that have not said yet whether they want TLS, or are in the handshake."""
        self._budget = Budget(self._limits.inflight_bytes_max)
        self._scratch = bytearray(READ_BYTES)
        self._connections: set[_Accepted] = set()
        self._server: asyncio.Server | None = None
        self._all_gone = asyncio.Event()
        self._all_gone.set()
        self._full = False

    async def start(self, host: str | None = None, port: int = 0, *, sock: socket.socket | None = None) -> int:
        """Opens the port and returns its number. Listens on `sock`, a bound socket, if it is given; a `port` of 0 takes
        a free port. Raises OSError."""
        loop = asyncio.get_running_loop()
        if sock is None:
            self._server = await loop.create_server(self._accept, host, port, backlog=BACKLOG)
        else:
            self._server = await loop.create_server(self._accept, sock=sock, backlog=BACKLOG)
        actual: int = self._server.sockets[0].getsockname()[1]
        log.info("bookie port %d is open", actual)
        return actual

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def inflight_bytes(self) -> int:
        """The bytes of all connections' adds that have no answer yet."""
        return self._budget.used

    @property
    def parked_long_polls(self) -> int:
        return self._calls.lacs.watching

    @property
    def connections(self) -> frozenset[WirePeer]:
        return frozenset(self._connections)

    def ledgers_deleted(self, ledger_ids: Iterable[int]) -> None:
        """Answers all long polls on these ledgers at once. The bookie calls this method when it has forgotten the
        ledgers."""
        for ledger_id in ledger_ids:
            self._calls.lacs.deleted(ledger_id)

    async def close(self) -> None:
        """Closes the port, and closes each connection when its peer has taken the answers that are ready. A second call
        has no effect."""
        if self._server is not None:
            self._server.close()
            self._server = None
            log.info("bookie port is closed, %d connections open", len(self._connections))
        self._calls.lacs.close()
        await asyncio.sleep(0)  # The long polls that were woken are answered in this turn.
        for gate in list(self._gates):
            gate.close()
        for connection in list(self._connections):
            if connection.is_made:
                connection.close("the bookie is closing", logging.DEBUG)
            else:
                # The event loop has accepted this connection and has not called its `connection_made` yet. Whether that
                # call still comes after the port was closed depends on the loop.
                connection.refused = True
                self._ended(connection)
        try:
            async with asyncio.timeout(CLOSE_DEADLINE_SECONDS):
                await self._all_gone.wait()
        except TimeoutError:
            for connection in list(self._connections):
                connection.abort()
            await self._all_gone.wait()

    def _accept(self) -> asyncio.BufferedProtocol:
        """Returns the protocol of a new connection: a peer, or on a port with TLS a gate, which reads the first packet.
        Marks the connection as refused when there are too many."""
        connection = _Accepted(self._bookie, self._calls, self._budget, self._limits, self._scratch, self._ended)
        full = len(self._connections) + len(self._gates) >= self._limits.connections_max
        if full != self._full:
            self._full = full
            log.log(
                logging.WARNING if full else logging.INFO,
                "bookie port: %d connections, %s",
                len(self._connections),
                "further ones are refused" if full else "further ones are taken again",
            )
        connection.refused = full or not self._has_room()
        self._all_gone.clear()
        if self._tls is None:
            self._connections.add(connection)
            return connection
        gate = StartTlsGate(connection, self._tls, partial(self._passed, connection))
        self._gates.add(gate)
        return gate

    def _passed(self, connection: "_Accepted", gate: StartTlsGate, has_peer: bool) -> None:
        """Called when a gate has handed its connection over, or when the connection has ended before."""
        self._gates.discard(gate)
        if has_peer:
            self._connections.add(connection)
        self._ended_if_last()

    def _ended(self, connection: WirePeer) -> None:
        self._connections -= {connection}
        self._ended_if_last()

    def _ended_if_last(self) -> None:
        if not self._connections and not self._gates:
            self._all_gone.set()


class _Accepted(WirePeer):
    """An accepted connection. It is closed at once if the port has too many connections already, or is closing."""

    is_made = False
    refused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.is_made = True
        if self.refused:
            self.close("the port takes no more", logging.DEBUG)
            return
        own = transport.get_extra_info("socket")
        if own is not None and own.family in (socket.AF_INET, socket.AF_INET6):
            own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
