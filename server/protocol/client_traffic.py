"""The state that all client connections of a broker share: the list of connections, the limits of their traffic, and
the order of their turns."""

import asyncio
import time
from typing import TYPE_CHECKING

from magnetar.server.broker.broker import Broker
from magnetar.server.process.byte_budget import ByteBudget
from magnetar.server.process.turns import TurnQueue
from magnetar.server.protocol.publish_window_rules import PublishBudget
from pulsar_proto.wire.read_buffer import READ_BYTES

if TYPE_CHECKING:
    from magnetar.server.protocol.connection import Connection


class ClientTraffic:
    """The state that the connections of a broker share. A broker has one such object, even if it has two client ports.
    The object is used on the event loop's thread only."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.limits = limits = broker.limits
        self.connections: set[Connection] = set()
        self.counters = broker.clients
        self.counters.unanswered_publish_bytes = self._count_unanswered_publish_bytes
        self.counters.throttled = lambda: sum(bool(each.throttles) for each in self.connections)
        self.budget = PublishBudget(limits.max_message_publish_buffer_size_in_mb << 20, self._settle_all)
        broker.configuration.hold(limits, self._limits_changed)
        self.output_budget = ByteBudget(limits.max_message_dispatch_buffer_size_in_mb << 20, self.now)
        self.counters.unsent_bytes = self.output_budget.held_bytes
        self.turns = TurnQueue()
        """Gives turns to the connections that have read more than they could handle at once."""
        self.read_scratch = bytearray(READ_BYTES)
        """The read buffer of all connections; `FrameReader` copies out of it what has to be kept."""
        self.publishing: set[Connection] = set()
        """Connections whose publish windows may hold unanswered SENDs. Only these are settled: to look at ten thousand
        connections takes milliseconds, and while the budget is exceeded each publish has them settled."""
        self.waiting_for_budget: set[Connection] = set()
        """Connections that read again when `budget` has room."""
        self._connections_per_ip: dict[str, int] = {}
        self._no_connections = asyncio.Event()
        self._no_connections.set()

    def _limits_changed(self, changed: frozenset[str]) -> None:
        self.budget.resize(self.limits.max_message_publish_buffer_size_in_mb << 20)

    def now(self) -> float:
        """Returns the seconds of a monotonic clock."""
        return time.monotonic()

    def admit(self, connection: "Connection") -> str | None:
        """Counts a new connection. Returns None when the connection may stay, otherwise the reason to refuse the
        connection: brokerMaxConnections or brokerMaxConnectionsPerIp is reached
        (ConnectionController.DefaultConnectionController). In either case `leave` must be called for the connection
        later."""
        limits = self.limits
        self.connections.add(connection)
        self._no_connections.clear()
        from_there = self._connections_per_ip[connection.remote_ip] = (
            self._connections_per_ip.get(connection.remote_ip, 0) + 1
        )
        self.counters.created += 1
        reason = None
        if 0 < limits.broker_max_connections < len(self.connections):
            reason = "Reached the maximum number of connections"
        elif 0 < limits.broker_max_connections_per_ip < from_there:
            reason = "Reached the maximum number of connections on address"
        self.counters.refused += reason is not None
        return reason

    def leave(self, connection: "Connection") -> None:
        """Called once for each connection that `admit` has counted, when its transport is closed."""
        self.connections.discard(connection)
        self.counters.closed += 1
        left = self._connections_per_ip[connection.remote_ip] - 1
        if left:
            self._connections_per_ip[connection.remote_ip] = left
        else:
            del self._connections_per_ip[connection.remote_ip]
        if not self.connections:
            self._no_connections.set()

    async def emptied(self) -> None:
        """Waits until no connection is left."""
        await self._no_connections.wait()

    def budget_may_have_room(self) -> None:
        """Called when published bytes got their receipts: the connections that wait for the budget read again if the
        budget has room now."""
        if self.waiting_for_budget and self.budget.has_room():
            waiting, self.waiting_for_budget = self.waiting_for_budget, set()
            for connection in waiting:
                connection.release_reading(self.budget)

    def _count_unanswered_publish_bytes(self) -> int:
        self._settle_all()
        return self.budget.unanswered_bytes

    def _settle_all(self) -> None:
        for connection in list(self.publishing):
            connection.settle_publishes()
