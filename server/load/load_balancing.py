"""Combines the parts of one broker's load balancing (election, registration, the leader's duties), and starts and stops
them in the right order.

At the start the broker first takes part in the election and then registers itself (PulsarService.start). At the stop
the broker deletes its registration first, so that no leader places bundles here; then the program gives the bundles
away; the leadership is given up last (PulsarService.closeAsync).
"""

from magnetar.metadata.coordination.lock_manager import LockManager
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BrokerUsage
from magnetar.server.load.bundle_stats import BundleStatsSource
from magnetar.server.load.host_usage import HostUsage
from magnetar.server.load.leader_duties import BundleRequests, LeaderDuties
from magnetar.server.load.load_manager import LoadManager
from magnetar.server.load.load_reporter import LoadReporter
from magnetar.server.namespaces.broker_addresses import BrokerAddresses
from magnetar.server.namespaces.ownership import Ownership
from magnetar.server.topics.broker_service import BrokerService


class LoadBalancing:
    """The load balancing of this broker. One object serves the process. All calls are made on the loop's thread."""

    def __init__(
        self,
        store: MetadataStore,
        locks: LockManager,
        own: BrokerAddresses,
        cluster: str,
        settings: LoadSettings,
    ) -> None:
        self.manager = LoadManager(store, own, cluster, settings)
        """The `Placement` that lookups and the ownership of bundles use."""
        self.reporter: LoadReporter | None = None
        """None before `register`."""
        self.duties: LeaderDuties | None = None
        """None before `register`."""
        self._store = store
        self._locks = locks
        self._own = own
        self._host = HostUsage()

    async def start(self) -> None:
        """Takes part in the election. Raises MetadataError when the store fails."""
        await self.manager.start()

    async def register(self, service: BrokerService, ownership: Ownership, requests: BundleRequests) -> None:
        """Registers this broker in the cluster; its ports must be listening. Raises MetadataError when the store fails,
        and LockBusyError when another live broker has the same id."""
        stats = BundleStatsSource(service, ownership)
        settings = self.manager.settings
        self.reporter = LoadReporter(self._store, self._locks, self._own, settings, stats, self._host.measure)
        await self.reporter.start()
        self.duties = LeaderDuties(self._store, self.manager, ownership.bundles, requests)
        self.duties.start()

    async def unregister(self) -> None:
        """Deletes the registration, so that no more bundles are placed here, and ends the leader's duties. Raises
        MetadataError when the store fails."""
        if self.duties is not None:
            await self.duties.stop()
        if self.reporter is not None:
            await self.reporter.stop()

    async def close(self) -> None:
        """Gives up the leadership. Called after the bundles were given away."""
        await self.manager.close()

    @property
    def settings(self) -> LoadSettings:
        return self.manager.settings

    def settings_changed(self, changed: frozenset[str]) -> None:
        """Called after fields of `settings` were changed in place."""
        self.manager.settings_changed()

    @property
    def usage(self) -> BrokerUsage:
        """The result of the last measurement of the host's usage."""
        return self._host.last
