"""The broker as one object, which the client port and the web port use: its topics, name, addresses and permissions,
and whether its storage takes writes."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from magnetar.metadata.store import MetadataStore
from magnetar.server.broker.broker_state import BrokerState
from magnetar.server.broker.client_counters import ClientCounters
from magnetar.server.broker.dynamic_configuration import DynamicConfiguration
from magnetar.server.broker.http_calls import HttpCalls
from magnetar.server.broker.http_publishing import HttpPublishing
from magnetar.server.broker.live_totals import LiveTotals
from magnetar.server.broker.metadata_link import MetadataLink
from magnetar.server.broker.write_readiness import WriteReadiness
from magnetar.server.config.connection_settings import ConnectionSettings
from magnetar.server.config.metrics_settings import MetricsSettings
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.lookup_service import LookupService
from magnetar.server.namespaces.placement import Placement, SolePlacement
from magnetar.server.namespaces.topic_watchers import TopicWatchers
from magnetar.server.peers.non_persistent_names import NonPersistentNames
from magnetar.server.process.compressed_text import CompressedText
from magnetar.server.process.shared_result import SharedResult
from magnetar.storage.ledger.appends_under_way import AppendsUnderWay
from pulsar_proto.errors import ServiceNotReady, TooManyRequests

if TYPE_CHECKING:
    from magnetar.server.faults.injection import FaultInjection
    from magnetar.server.leaks.live_leaks import LiveLeaks
    from magnetar.server.load.load_balancing import LoadBalancing
    from magnetar.server.namespaces.bundle_moves import BundleMoves
    from magnetar.server.peers.admin_peer import AdminPeer
    from magnetar.server.peers.peer_client import PeerClient
    from magnetar.server.security.security import Security
    from magnetar.server.topics.broker_service import BrokerService
    from magnetar.server.transactions.coordinators import TransactionCoordinators


class _LookupsInProgress:
    """Counts the blocks of `lookup_permit` that were entered and not left. All blocks share the one context manager,
    because ten thousand clients may come back at once."""

    __slots__ = ("_none", "count")

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()
        """An event that is set when the last lookup in progress ends."""

    def __enter__(self) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        self.count -= 1
        if not self.count:
            self._none.set()

    async def answered(self) -> None:
        """Returns when no lookup is in progress."""
        while self.count:
            self._none.clear()
            await self._none.wait()


class Broker:
    """The broker of this process. Every method and attribute is used on the event loop's thread only."""

    bookie_disk: Callable[[str], Awaitable[dict[str, Any]]] | None = None
    """Asks the bookie with this id for the room on its disks, and returns BookKeeper's answer (BookieInfoService).
    Raises LookupError, OSError and BookieError. The program sets this attribute."""

    def __init__(
        self,
        service: "BrokerService",
        limits: ConnectionSettings,
        *,
        cluster: str = "standalone",
        security: "Security | None" = None,
        placement: Placement | None = None,
        ask_to_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """`placement` is the load manager, which chooses a broker for each bundle. None stands for a standalone broker,
        the only broker there is."""
        self.service = service
        self.limits = limits
        self.cluster = cluster
        self.security = security
        """Authentication and authorization; None while authentication is off."""
        self.ask_to_stop = ask_to_stop
        """Stops this process when an administrator asks for that over REST; the default, for tests, does nothing."""
        self.started_ms = time.time_ns() // 1_000_000
        self.ownership = service.ownership
        """Knows which bundles this broker owns."""
        placement = placement or SolePlacement(self.ownership.addresses)
        self.lookups = LookupService(self.ownership, placement, lambda bundle: service.in_bundles.preload(bundle))
        """Finds the broker that serves a topic."""
        self.peer: AdminPeer | None = None
        """The client for admin calls to other brokers, set by the program of a cluster's broker; None in standalone."""
        self.non_persistent_names = NonPersistentNames(self.ownership, service.catalog, lambda: self.peer)
        """Lists the non-persistent topics that are loaded at any broker of the cluster."""
        self.peer_client: PeerClient | None = None
        """The client for topics of other brokers, set by the program of a cluster's broker; None in standalone."""
        self.readiness = WriteReadiness()
        """Whether the storage takes writes. The program sets this attribute as soon as it has opened the storage."""
        self.metadata_link: MetadataLink | None = None
        """The connection to the metadata of a cluster; None in a standalone broker, whose metadata is a file."""
        self.clients = ClientCounters()
        self.http_calls = HttpCalls()
        self.metrics_settings = MetricsSettings()
        """How much the page of /metrics shows. The program sets this attribute."""
        self.metrics_page: SharedResult[CompressedText] = SharedResult()
        """The page of /metrics, which is large with many topics: scrapes that come at the same time share one page."""
        self.live_totals = LiveTotals(lambda: service.all_topics)
        """The sums that all callers share who watch the broker."""
        self.watchers = TopicWatchers(service.catalog, service.metadata)
        self.http_publishing = HttpPublishing(limits.max_message_publish_buffer_size_in_mb << 20)
        self.configuration = DynamicConfiguration(service.metadata)
        """The settings that an administrator changes while the broker runs. The program says which settings may change,
        and starts this object."""
        self.load: LoadBalancing | None = None
        """The load balancing of a cluster's broker; None in a standalone broker."""
        self.transactions: TransactionCoordinators | None = None
        """The coordinators of this broker, set by the program; None while transactions are switched off."""
        self.backup: Callable[[bytes], AsyncGenerator[bytes, None]] | None = None
        """Makes the stream of a backup; the argument is the body of the client's request. The program of a standalone
        server sets this attribute; None in a cluster, whose data is on other machines."""
        self.leaks: Callable[[], Awaitable[LiveLeaks]] | None = None
        """Returns what removes what nothing refers to, in a standalone server; None in a cluster, as `backup` is."""
        self.faults: FaultInjection | None = None
        """The faults that tests inject; None unless the configuration of a standalone server allows them."""
        self.internal_configuration: Mapping[str, str | None] = {}
        """Fields of the answer to `…/brokers/internal-configuration`, from which tools learn where the metadata is
        stored. The program of a cluster's broker sets this attribute."""
        self.state = BrokerState.STARTED if self.ownership.is_sole else BrokerState.INIT
        """The broker's state. The program of a cluster's broker sets it when the broker joins and leaves."""
        self.health = -1
        """The outcome of the last health check: 1 when it succeeded, 0 when it failed, -1 before the first one."""
        self._lookups_in_progress = _LookupsInProgress()
        self._background: set[asyncio.Task[None]] = set()

    @property
    def addresses(self) -> BrokerAddresses:
        """The addresses of this broker that lookups return to clients."""
        return self.ownership.addresses

    @property
    def uses(self) -> int:
        """A number that grows with the commands of clients and with the messages that anybody publishes or reads, also
        by the web port. Whoever compares it with an older one learns whether the broker was used meanwhile."""
        cache = self.service.managed_ledgers.cache
        return self.clients.uses + cache.entries_added + cache.hits + cache.misses

    @property
    def appends(self) -> AppendsUnderWay:
        """Counts the messages that are on their way to the bookies."""
        return self.service.managed_ledgers.bookkeeper.appends

    @property
    def bookie_metadata(self) -> MetadataStore:
        """The store of the bookies' registrations, of auto-recovery and of the ledgers' records. With a
        bookkeeperMetadataServiceUri this is not the broker's own store, `service.metadata`."""
        return self.service.managed_ledgers.bookkeeper.metadata

    @property
    def broker_id(self) -> str:
        """The broker's id in the form `host:webport`, as in Pulsar."""
        return self.addresses.broker_id

    @property
    def moves(self) -> "BundleMoves":
        """The object that unloads and splits bundles."""
        return self.service.moves

    @property
    def web_url(self) -> str:
        """The URL of the web port: `http://host:port`, or `https://host:port` when the broker has only a web port with
        TLS."""
        return self.addresses.web_url

    def lookup_permit(self) -> AbstractContextManager[None]:
        """Makes a block of code hold one of the maxConcurrentLookupRequest permits, which both ports share. Raises
        TooManyRequests when no permit is left (ServerCnx, the lookup semaphore), and ServiceNotReady when the broker is
        closing (ServerCnx.handleLookup)."""
        if self.state is BrokerState.CLOSING:
            raise ServiceNotReady("Failed due to pulsar service is not ready")
        if self.lookups_in_progress >= self.limits.max_concurrent_lookup_request:
            raise TooManyRequests("Failed due to too many pending lookup requests")
        return self._lookups_in_progress

    @property
    def lookups_in_progress(self) -> int:
        return self._lookups_in_progress.count

    async def lookups_answered(self) -> None:
        """Returns when no lookup is in progress."""
        await self._lookups_in_progress.answered()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Starts a task for work that must run to its end even if the client that asked for it leaves, such as a
        request that changes state. Returns the task."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    @property
    def background_tasks(self) -> frozenset[asyncio.Task[None]]:
        """Returns the tasks that `spawn` started and that have not ended yet."""
        return frozenset(self._background)
