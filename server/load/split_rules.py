"""Decides which bundles are split because they became too large for one broker. Does no I/O. Source:
BundleSplitterTask."""

from collections import Counter
from collections.abc import Mapping

from magnetar.server.config.load_settings import LoadSettings
from magnetar.server.load.broker_report import BundleStats
from magnetar.server.load.load_view import LoadView, namespace_of
from magnetar.server.namespaces.lookup_rules import is_bound

MB = 1 << 20
TOPICS_MIN = 2
"""The fewest topics of a bundle that is split. A bundle with one topic cannot be made smaller."""


def too_large(view: LoadView, settings: LoadSettings) -> list[str]:
    """Returns the bundles that are over one of the limits and were not split lately, in the order of their names.

    Topics, producers and consumers are the present numbers; traffic is the long-term average, so that a short peak
    causes no split."""
    return sorted(
        {
            bundle
            for load in view.brokers.values()
            for bundle, stats in load.report.last_stats.items()
            if bundle not in view.split_s and _exceeds(bundle, stats, view, settings)
        }
    )


def _exceeds(bundle: str, stats: BundleStats, view: LoadView, settings: LoadSettings) -> bool:
    namespace = namespace_of(bundle)
    if stats.topics < TOPICS_MIN or is_bound(namespace):
        return False
    data = view.bundles.get(bundle)
    rate = data.long_term.message_rate if data is not None else 0.0
    throughput = data.long_term.throughput if data is not None else 0.0
    return (
        stats.topics > settings.load_balancer_namespace_bundle_max_topics
        or stats.consumers + stats.producers > settings.load_balancer_namespace_bundle_max_sessions
        or rate > settings.load_balancer_namespace_bundle_max_msg_rate
        or throughput > settings.load_balancer_namespace_bundle_max_bandwidth_mbytes * MB
    )


def within_limit(bundles: list[str], bundle_counts: Mapping[str, int], settings: LoadSettings) -> list[str]:
    """Returns the bundles whose namespaces may have one bundle more. Each split in the list raises the number that is
    assumed for the following bundles. Bundles of a namespace whose number of bundles is not known are left out."""
    more: Counter[str] = Counter()
    kept = []
    for bundle in bundles:
        namespace = namespace_of(bundle)
        count = bundle_counts.get(namespace)
        if count is not None and count + more[namespace] < settings.load_balancer_namespace_maximum_bundles:
            more[namespace] += 1
            kept.append(bundle)
    return kept
