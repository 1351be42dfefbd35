"""The traffic and the clients of the bundles that this broker owns, from the topics that are loaded.

Every owned bundle is reported, also one without topics, so that the leader counts it for this broker; Java reports only
bundles with loaded topics. Source: PulsarStats.updateStats, which fills the map of NamespaceBundleStats.
"""

from magnetar.server.load.broker_report import BundleStats
from magnetar.server.namespaces.ownership import Ownership
from magnetar.server.process.turns import in_portions
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.broker_service import BrokerService


class BundleStatsSource:
    """Adds up the figures of the topics of each bundle. All calls are made on the loop's thread."""

    def __init__(self, service: BrokerService, ownership: Ownership) -> None:
        self._service = service
        self._ownership = ownership
        self._last: dict[str, BundleStats] = {}

    async def collect(self) -> dict[str, BundleStats]:
        """Returns the sums over all loaded topics, by bundle. Lets other tasks run in between. Topics of bundles that
        this broker loses meanwhile do not count. Raises PulsarError when the bundle of a topic cannot be found."""
        found: dict[str, BundleStats] = {}
        bundles = self._ownership.bundles
        async for topic in in_portions(self._service.all_topics):
            namespace = topic.name.namespace
            known = bundles.cached(namespace) or await bundles.get(namespace)
            _add(found.setdefault(str(known.of_topic(topic.name.full)), BundleStats()), topic)
        self._last = found
        return self.current()

    def current(self) -> dict[str, BundleStats]:
        """Returns the bundles that are owned now, with the traffic that was collected last."""
        names = sorted(map(str, self._ownership.owned_bundles()))
        return {name: self._last.get(name) or BundleStats() for name in names}


def _add(stats: BundleStats, topic: BaseTopic) -> None:
    counters = topic.publishing.counters
    stats.topics += 1
    stats.msg_rate_in += counters.message_rate.value
    stats.msg_throughput_in += counters.byte_rate.value
    stats.producers += len(topic.producers)
    stats.consumers += topic.consumer_count
    out = topic.counters_out()
    stats.msg_rate_out += out.message_rate.value
    stats.msg_throughput_out += out.byte_rate.value
