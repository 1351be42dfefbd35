"""One broker, as its ports see it: its topics, name, addresses and permissions, and whether it can write."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from magnetar.server.broker.client_counters import ClientCounters
from magnetar.server.broker.http_publishing import HttpPublishing
from magnetar.server.broker.write_readiness import WriteReadiness
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.namespaces.topic_watchers import TopicWatchers
from magnetar.server.network.advertised_listeners import AdvertisedListeners
from magnetar.server.network.ports import Urls
from magnetar.server.process.shared_result import SharedResult
from pulsar_proto.errors import TooManyRequests

if TYPE_CHECKING:
    from magnetar.server.security.security import Security
    from magnetar.server.topics.broker_service import BrokerService


class Broker:
    """The broker of this process. All of it is used on the event loop's thread only."""

    def __init__(
        self,
        service: "BrokerService",
        limits: ConnectionSettings,
        *,
        cluster: str = "standalone",
        security: "Security | None" = None,
        ask_to_stop: Callable[[], None] = lambda: None,
    ) -> None:
        self.service = service
        self.limits = limits
        self.cluster = cluster
        self.security = security
        """None while authentication is off."""
        self.ask_to_stop = ask_to_stop
        """Stops the process as its supervisor would. It has no effect in a test, where the process is not ours."""
        self.started_ms = time.time_ns() // 1_000_000
        self.listeners = AdvertisedListeners(Urls())
        """The addresses that lookups answer. The program sets them as soon as it knows its ports."""
        self.readiness = WriteReadiness()
        """The program sets it as soon as it has opened the storage."""
        self.clients = ClientCounters()
        self.metrics_page: SharedResult[list[bytes]] = SharedResult()
        """A page of many topics is large, so scrapes that come at the same time share one."""
        self.watchers = TopicWatchers(service.catalog, service.metadata)
        self.http_publishing = HttpPublishing(limits.max_message_publish_buffer_size_in_mb << 20)
        self.lookups_in_progress = 0
        self._background: set[asyncio.Task[None]] = set()

    @property
    def broker_id(self) -> str:
        """`host:webport`, as Pulsar names its brokers."""
        return urlsplit(self.web_url).netloc

    @property
    def web_url(self) -> str:
        """`http://host:port`, or `https://host:port` when the only web port is one with TLS."""
        return self.listeners.internal.web or self.listeners.internal.web_tls

    @contextmanager
    def lookup_permit(self) -> Iterator[None]:
        """Holds one of the maxConcurrentLookupRequest permits, which both ports share. Raises TooManyRequests when none
        is left (ServerCnx, the lookup semaphore)."""
        if self.lookups_in_progress >= self.limits.max_concurrent_lookup_request:
            raise TooManyRequests("Failed due to too many pending lookup requests")
        self.lookups_in_progress += 1
        try:
            yield
        finally:
            self.lookups_in_progress -= 1

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts work that must end even if the client that asked for it leaves: a request that changes state."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    @property
    def background_tasks(self) -> frozenset[asyncio.Task[None]]:
        """Returns the tasks that `spawn` started and that have not ended yet."""
        return frozenset(self._background)
