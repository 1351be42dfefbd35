"""Decides which broker gets a bundle that no broker owns. Does no I/O; randomness is an argument.

The candidates are narrowed down step by step, and a strategy chooses among the rest; the steps are those of
ModularLoadManagerImpl.selectBroker. Three things differ. When all brokers are overloaded, Java drops all preferences
and chooses at random, so that a busy machine gets namespaces that are spread unevenly; here the preferences stay. Java
counts the namespace's bundles before it drops brokers with another load manager, so that such a broker, which has the
fewest bundles, brings back all candidates; here these brokers are dropped first. And Java sends a bundle to the broker
that it was promised to even if that broker may not own it any more, because an isolation policy was made meanwhile;
here such a bundle is placed anew.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load import isolation_rules
from magnetar.server.load.anti_affinity_rules import Counts, least_serving, namespaces_by_broker
from magnetar.server.load.broker_report import LOAD_MANAGER
from magnetar.server.load.bundle_averages import BundleData
from magnetar.server.load.isolation_rules import IsolationPolicies
from magnetar.server.load.load_view import DEFAULT_STATS, LoadView, namespace_of
from magnetar.server.load.placement_strategy_rules import PlacementStrategy
from magnetar.server.load.usage_rules import is_overloaded

SYSTEM_NAMESPACE = "pulsar/system"
"""The namespace whose bundles are always spread evenly."""

_SEMANTIC_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """The rules of operators for the placement of bundles."""

    isolation: IsolationPolicies = field(default_factory=IsolationPolicies)
    domains: Mapping[str, str] = field(default_factory=dict)
    """The failure domain of each broker that is in a failure domain."""
    groups: Mapping[str, str] = field(default_factory=dict)
    """The anti-affinity group of each namespace that is in a group."""


def allowed(bundle: str, view: LoadView, rules: ClusterRules) -> set[str]:
    """Returns the brokers that may own the bundle, by the isolation policies."""
    reports = {broker: load.report for broker, load in view.brokers.items()}
    return isolation_rules.candidates(namespace_of(bundle), reports, rules.isolation, non_persistent=False)


def group_counts(bundle: str, view: LoadView, rules: ClusterRules) -> Counts | None:
    """Returns how many namespaces of the bundle's anti-affinity group each broker serves; None when the bundle's
    namespace is in no group."""
    group = rules.groups.get(namespace_of(bundle), "").strip()
    if not group:
        return None
    served: dict[str, Collection[str]] = {broker: load.namespaces for broker, load in view.brokers.items()}
    return namespaces_by_broker(served, group, rules.groups)


def fit(brokers: set[str], view: LoadView, settings: LoadSettings) -> set[str]:
    """Returns the brokers that have this broker's load manager class and, if later versions are preferred, the newest
    version. Returns all brokers when no broker has that class (BrokerLoadManagerClassFilter, BrokerVersionFilter)."""
    left = {broker for broker in brokers if view.brokers[broker].report.load_manager == LOAD_MANAGER} or brokers
    return _of_newest_version(left, view) or left if settings.prefer_later_versions else left


def preferred(bundle: str, brokers: set[str], view: LoadView, settings: LoadSettings, rules: ClusterRules) -> set[str]:
    """Returns the preferred ones of `brokers`, which all may own the bundle. Returns at least one broker unless
    `brokers` is empty."""
    left = _with_room_for_topics(brokers, view, settings)
    counts = group_counts(bundle, view, rules)
    if counts is not None:
        left = least_serving(left, counts, rules.domains if settings.failure_domains_enabled else None)
    namespace = namespace_of(bundle)
    if settings.load_balancer_distribute_bundles_evenly_enabled or namespace == SYSTEM_NAMESPACE:
        left = _with_fewest_bundles(namespace, left, view)
    return left


def _with_room_for_topics(brokers: set[str], view: LoadView, settings: LoadSettings) -> set[str]:
    most = settings.load_balancer_broker_max_topics
    return {broker for broker in brokers if view.brokers[broker].topics <= most} or brokers


def _with_fewest_bundles(namespace: str, brokers: set[str], view: LoadView) -> set[str]:
    counts = {broker: view.brokers[broker].bundles_of(namespace) for broker in brokers}
    least = min(counts.values(), default=0)
    return {broker for broker in brokers if counts[broker] == least}


def _of_newest_version(brokers: Iterable[str], view: LoadView) -> set[str]:
    """Returns the brokers of the newest version. Returns no broker when a version cannot be read; all candidates count
    in that case (BrokerVersionFilter)."""
    versions = {broker: version_key(view.brokers[broker].report.version) for broker in brokers}
    known = [version for version in versions.values() if version is not None]
    if len(known) < len(versions):
        return set()
    newest = max(known, default=None)
    return {broker for broker, version in versions.items() if version == newest}


VersionKey = tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]


def version_key(version: str) -> VersionKey | None:
    """Returns a key by which semantic versions can be compared, or None when the text is not a semantic version. A
    version with a suffix, such as 4.0.0-rc-1, comes before the version without the suffix."""
    match = _SEMANTIC_VERSION.fullmatch(version)
    if match is None or len(version) > 100:
        return None
    suffix = match[4]
    parts = tuple(
        (False, int(part), "") if part.isdecimal() else (True, 0, part)
        for part in (suffix.split(".") if suffix else ())
    )
    return int(match[1]), int(match[2]), int(match[3]), suffix is None, parts


class Placer:
    """Chooses brokers for bundles, one after the other."""

    def __init__(self, strategy: PlacementStrategy) -> None:
        self.strategy = strategy

    def place(
        self,
        bundle: str,
        view: LoadView,
        settings: LoadSettings,
        rules: ClusterRules,
        *,
        random: Random,
        now_s: float,
        stored: BundleData | None = None,
    ) -> str | None:
        """Returns the broker that gets the bundle, and promises the bundle to this broker. Returns None when no broker
        may own the bundle. `stored` has the averages of the bundle from the metadata store; they are used if the view
        has no averages of the bundle.

        A bundle for which a destination was noted goes to that destination. For a bundle that is promised already,
        returns the broker of that promise if it may still own the bundle, because two brokers may ask for the same
        bundle at the same time."""
        noted = view.take_destination(bundle)
        if noted is None:
            promised = view.preallocated_to(bundle)
            if promised is not None and promised in allowed(bundle, view, rules):
                return promised
        chosen = noted or self.select(bundle, view, settings, rules, random=random)
        if chosen is not None:
            data = view.bundles.get(bundle) or stored or BundleData.assuming(DEFAULT_STATS)
            view.preallocate(bundle, chosen, data, now_s)
        return chosen

    def select(
        self, bundle: str, view: LoadView, settings: LoadSettings, rules: ClusterRules, *, random: Random
    ) -> str | None:
        """Returns the broker that should get the bundle, without promising the bundle. If the chosen broker is
        overloaded, and other brokers that may own the bundle are not, the strategy chooses among these other
        brokers."""
        brokers = fit(allowed(bundle, view, rules), view, settings)
        candidates = sorted(preferred(bundle, brokers, view, settings, rules))
        chosen = self.strategy.select(candidates, bundle, view, settings, random)
        if chosen is not None and _is_full(chosen, view, settings):
            others = sorted(broker for broker in brokers if not _is_full(broker, view, settings))
            return self.strategy.select(others, bundle, view, settings, random) or chosen
        return chosen


def _is_full(broker: str, view: LoadView, settings: LoadSettings) -> bool:
    return is_overloaded(view.brokers[broker].report.usage, settings)
