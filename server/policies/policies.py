"""The current policies of topics and namespaces, resolved from broker.conf, namespace records and topic policies."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from magnetar.metadata.store import MetadataStore
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import EffectivePolicies, of_broker, with_namespace, with_topic
from magnetar.server.policies.namespace_records import NamespaceRecords
from magnetar.server.policies.policy_values import NEVER_INACTIVE, AutoTopicCreation
from magnetar.server.policies.topic_policies_service import TopicPoliciesDisabled, TopicPoliciesService
from pulsar_proto.names import TopicName
from pulsar_proto.system_topics import is_system_topic

EVENTS_TOPIC = "__change_events"
"""The local name of the topic that holds the policies of a namespace's topics. Only the last event of a topic counts.
Therefore `__change_events` is compacted, and its messages are deleted only after compaction has processed them."""

TABLE_TOPICS = (
    EVENTS_TOPIC,
    "__transaction_buffer_snapshot",
    "__transaction_buffer_snapshot_indexes",
    "__transaction_buffer_snapshot_segments",
)
"""The local names of system topics in which only the last message of a key counts."""

TABLES_COMPACTED_AT_BYTES = 1 << 20
"""The backlog, in bytes, at which a topic of TABLE_TOPICS is compacted."""

SYSTEM_NAMESPACE = "pulsar/system"


class Policies:
    """The current policies of all topics. One object serves the whole process. `on_change(namespace, topic)` is called
    when policies may have changed. If `topic` is None, the policies of all topics of the namespace may have changed,
    otherwise only the policies of that topic and its partitions."""

    def __init__(
        self, store: MetadataStore, settings: TopicSettings, on_change: Callable[[str, TopicName | None], None]
    ) -> None:
        self.namespaces = NamespaceRecords(store, self._namespace_changed)
        self.topics: TopicPoliciesService = TopicPoliciesDisabled()
        self._settings = settings
        self._on_change = on_change
        self._of_broker = of_broker(settings)
        self._of_namespace: dict[str, EffectivePolicies] = {}
        """Caches the resolved policies of each namespace. All topics of a namespace that have no policies of their own
        share one object."""

    def start(self) -> None:
        self.namespaces.start()

    def close(self) -> None:
        self.namespaces.close()

    async def load(self, name: TopicName) -> None:
        """Loads the records that `of` needs for the topic. Raises MetadataError or PulsarError when the records cannot
        be read."""
        await self.namespaces.get(name.namespace)
        if not is_exempt(name):
            await self.topics.load(name.namespace)

    async def topic_deleted(self, name: TopicName) -> None:
        """Deletes the policies of a topic that was deleted. After the deletion of `__change_events`, or of one of its
        partitions, forgets all that was read from it. Raises PulsarError when the policies cannot be deleted."""
        if name.base.local_name == EVENTS_TOPIC:
            self.topics.forget(name.namespace)
        elif not name.is_partition:
            await self.topics.delete(name)

    def of(self, name: TopicName, properties: Mapping[str, str] | None = None) -> EffectivePolicies:
        """Returns the policies that hold for a topic; `properties` are the properties of the topic. The caller must
        have called `load` for the topic."""
        if is_exempt(name):
            policies = exempted(self.of_namespace(name.namespace))
            if name.base.local_name in TABLE_TOPICS:
                policies = replace(policies, compaction_threshold=TABLES_COMPACTED_AT_BYTES)
            return policies
        return with_topic(self.of_namespace(name.namespace), self.topics.merged(name.base), properties)

    @property
    def of_broker(self) -> EffectivePolicies:
        """The policies of broker.conf."""
        return self._of_broker

    def of_namespace(self, namespace: str) -> EffectivePolicies:
        """Returns the policies that hold for the namespace's topics that have no policies of their own."""
        known = self._of_namespace.get(namespace)
        if known is None:
            record = self.namespaces.cached(namespace)
            if record is None:
                return self._of_broker
            known = with_namespace(self._of_broker, record, self._settings.cluster_name)
            self._of_namespace[namespace] = known
        return known

    def auto_topic_creation(self, namespace: Mapping[str, Any] | None) -> AutoTopicCreation:
        """Returns whether missing topics are created in a namespace and with how many partitions. `namespace` is the
        namespace's record. Source: BrokerService.isAllowAutoTopicCreationAsync."""
        override = (namespace or {}).get("autoTopicCreationOverride")
        if override:
            return AutoTopicCreation.of(override)
        settings = self._settings
        partitioned = settings.allow_auto_topic_creation_type == "partitioned"
        return AutoTopicCreation(
            settings.allow_auto_topic_creation, settings.default_num_partitions if partitioned else 0
        )

    def defaults_changed(self) -> None:
        """Called after the broker's settings were changed: drops the policies that were computed from the old settings.
        The caller then applies the new policies to its topics."""
        self._of_broker = of_broker(self._settings)
        self._of_namespace.clear()

    def topic_changed(self, name: TopicName) -> None:
        """Called by the topic policies service when the policies of one topic have changed: calls `on_change`."""
        self._on_change(name.namespace, name)

    def _namespace_changed(self, namespace: str) -> None:
        if self.namespaces.cached(namespace) is None:
            self.topics.forget(namespace)
        self._of_namespace.pop(namespace, None)
        self._on_change(namespace, None)


def is_exempt(name: TopicName) -> bool:
    """Whether users' policies do not apply to the topic, because the topic belongs to the system itself. If policies
    stopped or deleted such a topic, the broker would break (BrokerService.isSystemTopic)."""
    return name.namespace == SYSTEM_NAMESPACE or is_system_topic(name)


def exempted(policies: EffectivePolicies) -> EffectivePolicies:
    """Returns the policies of a system topic: limits that are meant for users' topics are lifted (SystemTopic)."""
    free = EffectivePolicies()
    return replace(
        free,
        retention_time_in_minutes=policies.retention_time_in_minutes,
        retention_size_in_mb=policies.retention_size_in_mb,
        persistence=policies.persistence,
        inactive_topic_policies=NEVER_INACTIVE,
        max_unacked_messages_per_consumer=policies.max_unacked_messages_per_consumer,
        max_unacked_messages_per_subscription=policies.max_unacked_messages_per_subscription,
        schema_compatibility_strategy="ALWAYS_COMPATIBLE",
    )
