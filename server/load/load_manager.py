"""Decides which broker gets a bundle. Keeps this broker's view of the cluster's load, and answers as the leader, or in
place of a leader that is not known.

Every broker keeps the view, so that a new leader knows the load at once. The rules of the decisions are in the modules
`*_rules.py` of this package. Source: ModularLoadManagerImpl, LeaderElectionService, RedirectManager.
"""

import logging
import time
from collections.abc import Callable, Iterable
from random import Random

from magnetar.metadata.coordination.leader_election import LeaderElection
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load import anti_affinity_rules
from magnetar.server.load.broker_report import LOAD_MANAGER, LocalBrokerData
from magnetar.server.load.bundle_averages import LeaderRecord
from magnetar.server.load.bundle_data_records import BundleDataRecords
from magnetar.server.load.cluster_rule_records import ClusterRuleRecords
from magnetar.server.load.load_view import LoadView, namespace_of
from magnetar.server.load.placement_rules import ClusterRules, Placer, allowed, group_counts
from magnetar.server.load.registered_brokers import RegisteredBrokers
from magnetar.server.load.strategies import strategies_of
from magnetar.server.namespaces.broker_addresses import BrokerAddresses, parse_listeners_value
from magnetar.server.namespaces.bundle_name import BundleName
from magnetar.server.namespaces.lookup_rules import reserved_for
from magnetar.server.network.ports import Urls
from magnetar.server.process.storage_faults import storage_faults_told

log = logging.getLogger(__name__)

LEADER = "/loadbalance/leader"


class LoadManager:
    """The `Placement` of a broker in a cluster. All calls are made on the loop's thread."""

    def __init__(
        self,
        store: MetadataStore,
        own: BrokerAddresses,
        cluster: str,
        settings: LoadSettings,
        *,
        random: Random | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.view = LoadView()
        self.records = BundleDataRecords(store)
        self.clock_s = clock_s
        self.random = random or Random()
        self._own = own
        self._brokers = RegisteredBrokers(store, self._reports_changed)
        self._rules = ClusterRuleRecords(store, cluster)
        value = LeaderRecord(own.broker_id, own.web_url).to_bytes()
        self._election = LeaderElection(store, LEADER, value, self._led, is_same=_is_same_leader)
        placement, self.shedder = strategies_of(settings)
        self.placer = Placer(placement)
        self._strategies = (settings.placement, settings.shedder)
        self._changed: list[Callable[[], None]] = []

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Takes part in the election, and begins to watch the other brokers. Called when the ports listen, before this
        broker is registered. Raises MetadataError when the store fails."""
        self._rules.start()
        await self._brokers.start()
        await self._election.start()

    async def close(self) -> None:
        """Gives up the leadership. Called after all bundles were given away, because the other brokers ask this broker
        until then, if it is the leader."""
        await self._election.close()
        self._rules.close()
        self._brokers.close()

    def on_changed(self, callback: Callable[[], None]) -> None:
        """Calls `callback` on the loop after reports, the leader or the settings have changed."""
        self._changed.append(callback)

    def settings_changed(self) -> None:
        """Called after the settings were changed in place. A strategy that is still the configured one keeps its
        memory."""
        names = (self.settings.placement, self.settings.shedder)
        if names != self._strategies:
            self._strategies = names
            placement, self.shedder = strategies_of(self.settings)
            self.placer = Placer(placement)
        self._tell()

    # --- Placement ---------------------------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self._election.is_leader

    async def leader(self) -> BrokerAddresses | None:
        with storage_faults_told():
            value = await self._election.leader()
        record = None if value is None else LeaderRecord.read(value)
        return None if record is None else await self.broker(record.broker_id)

    async def broker(self, broker_id: str) -> BrokerAddresses | None:
        report = (await self._brokers.settled()).get(broker_id)
        return None if report is None else _addresses(broker_id, report)

    async def brokers(self) -> list[str]:
        """Returns the ids of all registered brokers, sorted."""
        return sorted(await self._brokers.settled())

    async def choose(self, bundle: BundleName) -> BrokerAddresses | None:
        reserved = reserved_for(bundle)
        if reserved is not None:
            broker_id, only_while_alive = reserved
            found = await self.broker(broker_id)
            if found is not None or not only_while_alive:
                return found
        name = str(bundle)
        with storage_faults_told():
            rules = await self.rules_for(name)
            stored = None if name in self.view.bundles else await self.records.read(name)
        chosen = self.placer.place(
            name, self.view, self.settings, rules, random=self.random, now_s=self.clock_s(), stored=stored
        )
        if chosen is None:
            log.warning("there is no broker for %s among %d registered ones", bundle, len(self.view.brokers))
            return None
        log.info("%s goes to %s", bundle, chosen)
        return _addresses(chosen, self.view.brokers[chosen].report)

    async def newer_make(self) -> BrokerAddresses | None:
        reports = await self._brokers.settled()
        latest = max(reports.values(), key=lambda report: report.start_ms, default=None)
        if latest is None or latest.load_manager == LOAD_MANAGER or not latest.start_ms:
            return None
        same = sorted(broker for broker, report in reports.items() if report.load_manager == latest.load_manager)
        chosen = self.random.choice(same)
        return _addresses(chosen, reports[chosen])

    def throughput_of(self, bundle: BundleName) -> float:
        data = self.view.bundles.get(str(bundle))
        return 0.0 if data is None else data.long_term.throughput

    def note_destination(self, bundle: BundleName, broker_id: str) -> None:
        """Makes the next placement of the bundle choose this broker. Java remembers only the range, so that a bundle of
        another namespace with an equal range may go there instead; Magnetar remembers the whole name."""
        self.view.note_destination(str(bundle), broker_id)

    # --- for the leader's duties -------------------------------------------------------------------------------------

    async def rules_for(self, bundle: str) -> ClusterRules:
        """Waits until the view is up to date, and returns the rules of operators for the bundle. Raises MetadataError
        when the store fails."""
        await self._brokers.settled()
        domains = self.settings.failure_domains_enabled
        return await self._rules.rules_for(namespace_of(bundle), self._served, domains=domains)

    def _served(self) -> set[str]:
        return {namespace for load in self.view.brokers.values() for namespace in load.namespaces}

    def may_leave(self, bundle: str, broker: str, rules: ClusterRules) -> bool:
        """Returns whether a bundle can be moved away from a broker: another broker may own the bundle, and the
        anti-affinity group does not bring the bundle back (shouldNamespacePoliciesUnload,
        shouldAntiAffinityNamespaceUnload)."""
        candidates = allowed(bundle, self.view, rules)
        if not candidates - {broker}:
            return False
        counts = group_counts(bundle, self.view, rules)
        return counts is None or anti_affinity_rules.may_unload(broker, candidates, counts)

    # --- changes -----------------------------------------------------------------------------------------------------

    def _reports_changed(self, changed: Iterable[str]) -> None:
        reports = self._brokers.reports
        gone = self.view.keep_brokers(reports)
        for broker in changed:
            if broker in reports:
                self.view.set_report(broker, reports[broker])
        if gone:
            log.info("%s: not registered any more", ", ".join(sorted(gone)))
            self.placer.strategy.keep_brokers(reports)
            self.shedder.keep_brokers(reports)
        self._tell()

    def _led(self, is_leader: bool) -> None:
        log.info("this broker, %s, %s the leader", self._own.broker_id, "is" if is_leader else "is not any more")
        self._tell()

    def _tell(self) -> None:
        for callback in self._changed:
            callback()


def _addresses(broker_id: str, report: LocalBrokerData) -> BrokerAddresses:
    urls = Urls(
        report.pulsar_service_url, report.pulsar_service_url_tls, report.web_service_url, report.web_service_url_tls
    )
    try:
        listeners = parse_listeners_value(report.advertised_listeners)
    except (TypeError, AttributeError, ValueError):
        listeners = {}
    return BrokerAddresses(broker_id, urls, listeners)


def _is_same_leader(one: bytes, other: bytes) -> bool:
    first, second = LeaderRecord.read(one), LeaderRecord.read(other)
    return first is not None and first == second
