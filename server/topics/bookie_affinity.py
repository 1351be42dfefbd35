"""Places the ledgers of topics on the bookies of their namespace's affinity group, which is kept in the namespace's
LocalPolicies.

A changed group holds for every ledger that a topic creates after the change, including the ledgers of the topic's
cursors. Source: BrokerService.getManagedLedgerConfig (LocalPolicies.bookieAffinityGroup, strictBookieAffinityEnabled).
"""

from weakref import WeakSet

from magnetar.metadata import paths
from magnetar.metadata.coordination.record_cache import RecordCache
from magnetar.metadata.store import MetadataStore
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.namespace_records import parse_object
from magnetar.server.topics.affinity_rules import bookie_groups, groups_in
from magnetar.server.topics.topic import Topic
from magnetar.storage.ledger.isolation_rules import BookieGroups
from pulsar_proto.names import TopicName

NAMESPACES_CACHED_MAX = 10_000
"""For how many namespaces the affinity groups are cached and watched. Beyond this number the least recently used
namespace is dropped from the cache, and its topics learn of a changed group only when the topics are loaded again."""


class BookieAffinity:
    """Applies the affinity groups of namespaces to the loaded topics. One object serves the whole process. Every method
    is called on the loop's thread."""

    def __init__(self, store: MetadataStore, settings: TopicSettings) -> None:
        self._settings = settings
        self._topics: dict[str, WeakSet[Topic]] = {}
        """Namespace -> the loaded topics of that namespace."""
        self._groups: RecordCache[BookieGroups | None] = RecordCache(
            store, paths.LOCAL_POLICIES, _parse, on_change=self._changed, cached_max=NAMESPACES_CACHED_MAX
        )
        self.start = self._groups.start
        self.close = self._groups.close

    async def follow(self, topic: Topic) -> None:
        """Called when a topic was opened: places the topic's new ledgers in the groups of the topic's namespace, and
        does so again whenever these groups change. Raises MetadataError or MetadataFault when the namespace's
        LocalPolicies cannot be read."""
        namespace = topic.name.namespace
        await self._groups.get(paths.local_policies_path(namespace))
        topics = self._topics.get(namespace)
        if topics is None:
            topics = self._topics[namespace] = WeakSet()
        topics.add(topic)
        self._place(topic)

    def _place(self, topic: Topic) -> None:
        topic.ledger.place_on(self._of(topic.name))

    def _of(self, name: TopicName) -> BookieGroups | None:
        copy = self._groups.cached(paths.local_policies_path(name.namespace))
        asked = None if copy is None else copy.value
        return bookie_groups(asked, name, is_strict=self._settings.strict_bookie_affinity_enabled)

    def _changed(self, path: str) -> None:
        namespace = path.removeprefix(f"{paths.LOCAL_POLICIES}/")
        topics = self._topics.get(namespace)
        if topics is None:
            return
        for topic in topics:
            self._place(topic)
        if not topics:
            del self._topics[namespace]


def _parse(path: str, value: bytes) -> BookieGroups | None:
    return groups_in(parse_object(path, value, "the record of a namespace's local policies"))
