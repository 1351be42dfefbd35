"""What all client connections of one broker share: the service behind them, limits, addresses, budgets, counters."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from magnetar.server.broker.write_readiness import WriteReadiness
from magnetar.server.namespaces.topic_watchers import TopicWatchers
from magnetar.server.network.listeners import Listeners
from magnetar.server.network.ports import Urls
from magnetar.server.process.shared_result import SharedResult
from magnetar.server.process.turns import TurnQueue
from magnetar.server.protocol.handlers import TABLE
from magnetar.server.protocol.handlers.handler import Handler
from magnetar.server.protocol.output_budget import OutputBudget
from magnetar.server.protocol.publish_window import PublishBudget
from pulsar_proto.errors import TooManyRequests
from pulsar_proto.wire.framing import FRAME_PADDING, MAX_MESSAGE_SIZE, READ_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from magnetar.server.protocol.connection import Connection
    from magnetar.server.security.security import Security
    from magnetar.server.topics.broker_service import BrokerService


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """What one connection may do. Names are those of broker.conf in snake_case; 0 means no limit where not said."""

    max_message_size: int = MAX_MESSAGE_SIZE
    """Bytes of a message's body."""
    keep_alive_interval_seconds: int = 30
    connection_liveness_check_timeout_millis: int = 5_000
    """0 or less: an old connection counts as alive without a look."""
    max_pending_publish_requests_per_connection: int = 1_000
    max_message_publish_buffer_size_in_mb: int = 64
    """Unanswered published bytes of the whole process, 0 or less: no limit. Java's default is half of its direct
    memory."""
    max_message_dispatch_buffer_size_in_mb: int = 256
    """Output of the whole process that clients have not taken; beyond it those that do not read are cut off. 0 or less:
    no limit. Ours; Java's broker has none."""
    max_concurrent_lookup_request: int = 50_000
    """LOOKUP and PARTITIONED_METADATA of all connections together."""
    broker_max_connections: int = 0
    broker_max_connections_per_ip: int = 0
    enable_broker_topic_list_watcher: bool = True
    """Clients with a topic pattern are told of topics that come and go; else they poll."""
    subscription_pattern_max_length: int = 50
    """Characters of a topic pattern that the broker is willing to evaluate."""

    def __post_init__(self) -> None:
        if self.max_message_size <= 0 or self.keep_alive_interval_seconds <= 0:
            raise ValueError("maxMessageSize and keepAliveIntervalSeconds must be positive")

    @property
    def max_frame_size(self) -> int:
        return self.max_message_size + FRAME_PADDING


@dataclass(slots=True)
class ConnectionCounters:
    """Since the start; for /metrics."""

    created: int = 0
    refused: int = 0
    closed: int = 0


class BrokerContext:
    """Lives on the event loop's thread."""

    def __init__(
        self,
        service: "BrokerService",
        limits: ConnectionLimits,
        *,
        cluster: str = "standalone",
        security: "Security | None" = None,
        ask_to_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.service = service
        self.limits = limits
        self.cluster = cluster
        self.security = security
        """None: authentication is off."""
        self.commands: Mapping[int, Handler] = TABLE if security is None else security.guarded(TABLE)
        self.ask_to_stop = ask_to_stop
        """Stops the process as its supervisor would; nothing where there is no process of its own."""
        self.started_ms = time.time_ns() // 1_000_000
        self.listeners = Listeners(Urls())
        """The addresses that lookups answer; set when the ports are known."""
        self.readiness = WriteReadiness()
        """Set when the storage is known."""
        self.metrics_page: SharedResult[list[bytes]] = SharedResult()
        """With many topics a page is large, and everybody may ask for it."""
        self.watchers = TopicWatchers(service)
        self.connections: set[Connection] = set()
        self.counters = ConnectionCounters()
        self.budget = PublishBudget(limits.max_message_publish_buffer_size_in_mb << 20, self._settle_all)
        self.output_budget = OutputBudget(
            limits.max_message_dispatch_buffer_size_in_mb << 20, lambda: list(self.connections), self.now
        )
        self.turns = TurnQueue()
        """For what connections have read and not handled yet."""
        self.read_scratch = bytearray(READ_SIZE)
        """One read buffer for all connections: see FrameReader."""
        self.lookups_in_progress = 0
        self.waiting_for_budget: set[Connection] = set()
        self._connections_per_ip: dict[str, int] = {}
        self._no_connections = asyncio.Event()
        self._no_connections.set()
        self._background: set[asyncio.Task[None]] = set()

    @property
    def broker_id(self) -> str:
        """`host:webport`, as Pulsar names its brokers."""
        return urlsplit(self.web_url).netloc

    @property
    def web_url(self) -> str:
        """`http://host:port`, `https://` where there is no other."""
        return self.listeners.internal.web or self.listeners.internal.web_tls

    @property
    def unanswered_publish_bytes(self) -> int:
        self._settle_all()
        return self.budget.unanswered_bytes

    def now(self) -> float:
        """Seconds of a monotonic clock."""
        return time.monotonic()

    @contextmanager
    def lookup_permit(self) -> "Iterator[None]":
        """Raises TooManyRequests at maxConcurrentLookupRequest (ServerCnx, the lookup semaphore)."""
        if self.lookups_in_progress >= self.limits.max_concurrent_lookup_request:
            raise TooManyRequests("Failed due to too many pending lookup requests")
        self.lookups_in_progress += 1
        try:
            yield
        finally:
            self.lookups_in_progress -= 1

    def admit(self, connection: "Connection") -> str | None:
        """Counts a new connection; the reason to refuse it, at brokerMaxConnections or brokerMaxConnectionsPerIp
        (ConnectionController.DefaultConnectionController). It must `leave` in either case."""
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
        """Returns when no connection is left."""
        await self._no_connections.wait()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs what must end although its connection is gone: closing producers, requests that change state."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    @property
    def background_tasks(self) -> frozenset[asyncio.Task[None]]:
        return frozenset(self._background)

    def budget_may_have_room(self) -> None:
        """Called when bytes became free: lets the waiting connections read again."""
        if self.waiting_for_budget and self.budget.has_room():
            waiting, self.waiting_for_budget = self.waiting_for_budget, set()
            for connection in waiting:
                connection.release_reading(self.budget)

    def _settle_all(self) -> None:
        for connection in self.connections:
            connection.settle_publishes()
