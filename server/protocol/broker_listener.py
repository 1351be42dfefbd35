"""Listens on the ports for clients, calls `tick` of every connection for keep-alive every few seconds (the sweep), and
closes all connections at the end."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial

from magnetar.server.network.port_listener import PortListener
from magnetar.server.protocol.client_traffic import ClientTraffic
from magnetar.server.protocol.command_handler import CommandHandler
from magnetar.server.protocol.connection import Connection
from magnetar.server.protocol.inbound import Inbound

log = logging.getLogger(__name__)

SWEEPS_PER_KEEP_ALIVE = 6
SWEEP_SECONDS_MAX = 5.0
"""The longest time between two sweeps. There is one timer for all connections, so a PING may be sent, or a dead peer
noticed, up to this many seconds late."""

BACKLOG = 65_535
"""How many connections that were not accepted yet the kernel holds; the kernel lowers the number to its own limit
(`net.core.somaxconn`, usually 4,096). It drops further ones, whose clients try again after 1, 3, 7 … seconds. All
clients of a broker that was restarted come at the same time."""

TICKS_AT_ONCE = 500
"""For how many connections the sweep calls `tick` before other work has its turn: ten thousand take 15 ms."""

CLOSE_SECONDS = 1.0
"""How long `close` waits until clients have taken their last bytes and requests that change state have ended."""


class BrokerListener(PortListener):
    """Listens on the ports for Pulsar clients. The listener's owner calls `start` once for each port, in the clear and
    with TLS, and `close` once at the end."""

    def __init__(self, traffic: ClientTraffic, commands: Mapping[int, CommandHandler]) -> None:
        """`commands` is the table of handlers that all connections of this port use."""
        super().__init__(BACKLOG)
        self._traffic = traffic
        self._connection_class = _connection_class(traffic)
        self._commands = commands
        self._sweep: asyncio.TimerHandle | None = None
        self._sweep_seconds = min(SWEEP_SECONDS_MAX, traffic.limits.keep_alive_interval_seconds / SWEEPS_PER_KEEP_ALIVE)

    def _log_start(self, port: int, *, with_tls: bool) -> None:
        log.info("listening for clients on port %d%s", port, " with TLS" if with_tls else "")

    def _accept(self, listener_name: str) -> Connection:
        self._arm_sweep()
        return self._connection_class(self._traffic, Inbound(self._commands, self._traffic.turns), listener_name)

    def _arm_sweep(self) -> None:
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(self._sweep_seconds, self.sweep)

    @property
    def is_sweeping(self) -> bool:
        return self._sweep is not None

    def sweep(self) -> None:
        """Calls `tick` of every connection, of some now and of the others soon. The next sweep is planned only while
        there are connections, so that an idle server has no timer."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        self._traffic.output_budget.count()
        self._tick(list(self._traffic.connections))

    def _tick(self, connections: list[Connection]) -> None:
        """Calls `tick` of TICKS_AT_ONCE connections, which it removes from the list, and queues for the others."""
        now_s = self._traffic.now()
        for _ in range(min(TICKS_AT_ONCE, len(connections))):
            connection = connections.pop()
            try:
                connection.tick(now_s)
            except Exception:
                log.exception("%s: the keep-alive failed", connection.remote_address)
        if connections:
            self._traffic.turns.add(partial(self._tick, connections))
        elif self._traffic.connections:
            self._arm_sweep()

    async def close(self) -> None:
        """Stops listening, closes every connection, and waits up to CLOSE_SECONDS for last bytes and open requests."""
        if not self._stop_listening():
            return
        connections = list(self._traffic.connections)
        for connection in connections:
            connection.close("the broker stops")
        await self._drain()
        for connection in list(self._traffic.connections):
            connection.abort()
        if self._sweep is not None:
            self._sweep.cancel()
        log.info("closed the client port and %d connections", len(connections))

    async def _drain(self) -> None:
        """Waits until all connections have left, which they do when their transports are closed, and until all requests
        are answered. After CLOSE_SECONDS the remaining requests are cancelled."""
        traffic, broker = self._traffic, self._traffic.broker
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await traffic.emptied()
                while broker.background_tasks:
                    await asyncio.wait(broker.background_tasks)
        except TimeoutError:
            for task in broker.background_tasks:
                task.cancel()
            log.warning(
                "%d connections and %d requests did not end in %s s",
                len(traffic.connections),
                len(broker.background_tasks),
                CLOSE_SECONDS,
            )


def _connection_class(traffic: ClientTraffic) -> type[Connection]:
    """Returns the class of all connections: one on which tests inject faults, if the configuration allows faults."""
    if traffic.broker.faults is None:
        return Connection
    from magnetar.server.protocol.faulty_connection import FaultyConnection

    return FaultyConnection
