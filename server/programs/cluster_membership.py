"""A broker's membership in its cluster: its locks, its registration, its bundles, and its part in the leader election;
and the order in which the broker takes these at the start and gives them up at the stop.

Join (PulsarService.start): leader election, registration, the namespaces that belong to this broker. Leave
(PulsarService.closeAsync): the broker first deletes the registration, so that no more bundles are placed here; then it
gives the bundles away, while it continues to answer lookups; then it gives up the leadership.
"""

import asyncio
import logging

from magnetar.metadata.coordination.lock_errors import LockBusyError
from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.errors import MetadataError
from magnetar.metadata.store import MetadataStore
from magnetar.server.broker.broker import Broker
from magnetar.server.broker.broker_state import BrokerState
from magnetar.server.config.broker_config import ServerConfig
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.config.peer_settings import PeerSettings
from magnetar.server.load.load_balancing import LoadBalancing
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.bundle_name import BundleName, heartbeat_broker
from magnetar.server.namespaces.bundle_ownership import BundleOwnership
from magnetar.server.namespaces.bundles import BundleCache
from magnetar.server.namespaces.own_namespaces import acquire_own_namespaces
from magnetar.server.peers.admin_peer import AdminPeer
from magnetar.server.peers.followed_policies import FollowedPolicies
from magnetar.server.peers.peer_client import PeerClient
from magnetar.server.peers.peer_credentials import PeerCredentials
from magnetar.server.peers.peer_snapshots import PeerSnapshotLogs
from magnetar.server.programs.bundle_calls import BundleCalls
from magnetar.server.topics.broker_service import BrokerService
from magnetar.storage.ledger.cluster_layout import ClusterError

log = logging.getLogger(__name__)

UNLOADED_AT_ONCE = 4
"""How many bundles are given away at the same time. The number is low because each bundle closes many topics at once,
and the clients of a bundle find the next owner only after the bundle's last topic is closed."""

FAREWELL_SECONDS = 0.5
"""How long a broker that owns no bundle any more continues to answer lookups. Clients look up again within this time
after their topics were closed. A client that finds the port closed would pause, and double the pause each time."""
LAST_LOOKUPS_SECONDS = 2.0
"""How long lookups that are in progress after FAREWELL_SECONDS may take."""


class ClusterMembership:
    """The membership of this broker. One object serves the process. `join` is called once, then `leave` once, also
    after a `join` that failed."""

    def __init__(self, config: ServerConfig, store: MetadataStore, addresses: BrokerAddresses) -> None:
        """Makes the parts of the membership. Raises ConfigError for invalid settings, and SecurityConfigError for
        credentials that cannot be used."""
        self._store = store
        self._cluster = config.broker.cluster_name
        self._addresses = addresses
        self._locks = LockManager(store)
        peers = config.fill(PeerSettings)
        self._peers, self._credentials = peers, PeerCredentials(peers)
        credentials = self._credentials
        self.peer = AdminPeer(store, peers, credentials)
        own = addresses.urls.broker_tls if credentials.uses_tls else addresses.urls.broker
        self.client = PeerClient(lambda: [own], self.peer.addresses, peers, credentials)
        self._policies: FollowedPolicies | None = None
        self.load = LoadBalancing(store, self._locks, addresses, self._cluster, config.fill(LoadSettings))
        self._broker: Broker | None = None

    def make_ownership(self, bundles: BundleCache) -> BundleOwnership:
        return BundleOwnership(bundles, store=self._store, locks=self._locks, addresses=self._addresses)

    def follow_policies(self, service: BrokerService) -> None:
        """Makes the service read and write the policies of single topics through the namespaces' `__change_events`
        topics, on whichever brokers these are. Called once, before the ports listen."""
        if not service.settings.topic_level_policies_enabled:
            return
        self._policies = FollowedPolicies(
            self.client,
            self._store,
            service.catalog,
            service.schemas.registry,
            service.ownership,
            cluster=self._cluster,
            on_change=service.policies.topic_changed,
        )
        service.policies.topics = self._policies
        self._policies.start()

    def reach_snapshots(self, service: BrokerService) -> None:
        """Makes the service read and write the snapshots of topics' transactions through the topics that hold them, on
        whichever brokers these are. Called once, before the ports listen."""
        if service.transactions is not None:
            service.transactions.tables.logs = PeerSnapshotLogs(self.client)

    async def join(self, broker: Broker) -> None:
        """Makes this broker, whose ports must be listening, a member of the cluster. Raises MetadataError or
        PulsarError when the metadata store fails, and ClusterError when another live broker has the same id."""
        self._broker = broker
        broker.peer, broker.peer_client, broker.load = self.peer, self.client, self.load
        broker.configuration.hold(self._peers, lambda changed: self._credentials.reload())
        broker.configuration.hold(self.load.settings, self.load.settings_changed)
        await self.load.start()
        try:
            await self.load.register(broker.service, broker.ownership, BundleCalls(self.peer, broker.broker_id))
        except LockBusyError as error:
            raise ClusterError(
                f"another broker is registered as {self._addresses.broker_id}: advertisedAddress and the web port must "
                "differ from broker to broker"
            ) from error
        await acquire_own_namespaces(broker.ownership, self._cluster, broker.service.catalog.namespace_exists)
        broker.state = BrokerState.STARTED

    async def leave(self) -> None:
        """Gives up the registration, the bundles and the leadership. Locks that the metadata store does not delete in
        time end with the session."""
        broker = self._broker
        if broker is not None:
            broker.ownership.take_no_more()
        if self._policies is not None:
            await self._policies.close()
        try:
            await self.load.unregister()
        except MetadataError as error:
            log.warning("the registration is left to the end of the session: %s", error)
        if broker is not None:
            await self._give_away(broker)
            await _answer_last_lookups(broker)
            broker.state = BrokerState.CLOSING
        try:
            await self.load.close()
        except MetadataError as error:
            log.warning("the leadership is left to the end of the session: %s", error)
        await self._close_clients()

    async def close(self) -> None:
        """Releases the remaining locks. Called when all topics are closed."""
        await self._close_clients()
        await self._locks.close()

    async def _close_clients(self) -> None:
        if self._policies is not None:
            await self._policies.close()
        await self.client.close()
        await self.peer.close()

    async def _give_away(self, broker: Broker) -> None:
        """Unloads all bundles; the bundles for health checks come last."""
        limit = asyncio.Semaphore(UNLOADED_AT_ONCE)

        async def unload(bundle: BundleName) -> None:
            async with limit:
                await broker.moves.unload_all((bundle,))

        bundles = sorted(broker.ownership.owned_bundles(), key=lambda one: heartbeat_broker(one.namespace) is not None)
        await asyncio.gather(*map(unload, bundles))


async def _answer_last_lookups(broker: Broker) -> None:
    """Returns when the clients of the bundles that were given away have had the time to find the new owners."""
    if not broker.clients.active:
        return
    await asyncio.sleep(FAREWELL_SECONDS)
    try:
        async with asyncio.timeout(LAST_LOOKUPS_SECONDS):
            await broker.lookups_answered()
    except TimeoutError:
        log.warning("%d lookups are not answered any more", broker.lookups_in_progress)
