"""The policies, a row each: what it is called in paths, records and events, how its value looks, what it must not be.

`namespace_policy_calls` and `topic_policy_calls` make the calls of these rows. A new policy is a row here and a field
of `EffectivePolicies`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from magnetar.server.admin import bodies
from magnetar.server.admin import policy_shapes as shapes
from magnetar.server.admin.policy_shapes import Check, Read, not_negative
from magnetar.server.config.topic_settings import ALL_SUBSCRIPTION_TYPES
from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import DispatchRate
from magnetar.server.web.calls import EMPTY, NO_CONTENT, Answer

NOT_FOUND = "Namespace does not exist"
POLICIES_NOT_FOUND = "Namespace policies does not exist"

NOTHING_TO_PAUSE_FOR = "acknowledgements are stored however many ranges they are, so delivery has nothing to pause for"
"""Apache's broker stores managedLedgerMaxUnackedRangesToPersist of them and pauses beyond
(ManagedCursorImpl.isCursorDataFullyPersistable); here see `magnetar.storage.managed.cursor_record`."""

NOTHING_OFFLOADED = "this broker does not offload: all messages stay in its own ledgers"

Applied = Callable[[EffectivePolicies], Answer]


@dataclass(frozen=True, slots=True)
class NamespaceRow:
    path: str
    """Below /admin/v2/namespaces/{tenant}/{namespace}/."""
    namespace_key: str
    """In the namespace's record."""
    name: str
    """PolicyName, for authorization."""
    read: Read
    check: Check = shapes.no_check
    method: str = "POST"
    needs_body: bool = False
    """A missing body is refused; else it counts as null."""
    per_cluster: bool = False
    """The record holds it by cluster."""
    mirrors: str = ""
    """A key that holds the same (Apache keeps the topics' dispatch rate twice)."""
    unset: Any = None
    """What the record holds where it is not set; None: nothing."""
    absent: Answer = EMPTY
    """What GET answers where it is not set."""
    removable: bool = True
    missing: str = NOT_FOUND
    """What a change is told where there is no such namespace."""
    without_effect: str = ""
    """Why it changes nothing here; the log says so when it is set."""


@dataclass(frozen=True, slots=True)
class TopicRow:
    path: str
    """Below /admin/v2/persistent/{tenant}/{namespace}/{topic}/."""
    topic_key: str
    """In TopicPolicies."""
    name: str
    read: Read
    check: Check = shapes.no_check
    method: str = "POST"
    needs_body: bool = False
    query: str = ""
    """The value stands in this parameter instead of a body."""
    absent: Answer = EMPTY
    removable: bool = True
    applied: Applied | None = None
    """`?applied=true`; None: as without it."""
    keys: Mapping[str, str] | None = None
    """The value is an object whose members are policies of their own: member -> key."""
    without_effect: str = ""
    """As of NamespaceRow."""


def _limit(path: str, key: str, name: str = "MAX_PRODUCERS", **other: Any) -> NamespaceRow:
    """A number of 0 or more."""
    check = not_negative(f"{path} must be 0 or more")
    return NamespaceRow(path, key, name, bodies.integer, check, needs_body=True, **other)


def _rate(path: str, key: str, name: str, read: Read, **other: Any) -> NamespaceRow:
    return NamespaceRow(path, key, name, read, per_cluster=True, **other)


def _offload(path: str, key: str, **other: Any) -> NamespaceRow:
    return NamespaceRow(
        path, key, "OFFLOAD", shapes.long, method="PUT", needs_body=True, without_effect=NOTHING_OFFLOADED, **other
    )


NAMESPACE_ROWS = (
    NamespaceRow(
        "retention", "retention_policies", "RETENTION", shapes.retention, shapes.check_retention,
        missing=POLICIES_NOT_FOUND,
    ),
    NamespaceRow(
        "messageTTL", "message_ttl_in_seconds", "TTL", bodies.integer,
        not_negative("Invalid value for message TTL, message TTL must >= 0"), needs_body=True,
    ),
    NamespaceRow(
        "persistence", "persistence", "PERSISTENCE", shapes.persistence, shapes.check_persistence,
    ),
    NamespaceRow("deduplication", "deduplicationEnabled", "DEDUPLICATION", bodies.boolean, needs_body=True),
    NamespaceRow(
        "deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", "DEDUPLICATION_SNAPSHOT",
        bodies.optional_integer, not_negative("interval must be greater than or equal to 0"), removable=False,
        missing=POLICIES_NOT_FOUND,
    ),
    NamespaceRow(
        "autoTopicCreation", "autoTopicCreationOverride", "AUTO_TOPIC_CREATION", shapes.auto_topic_creation,
        shapes.check_auto_topic_creation,
    ),
    NamespaceRow(
        "autoSubscriptionCreation", "autoSubscriptionCreationOverride", "AUTO_SUBSCRIPTION_CREATION",
        shapes.auto_subscription,
    ),
    _rate("dispatchRate", "topicDispatchRate", "RATE", shapes.dispatch_rate, mirrors="clusterDispatchRate"),
    _rate("subscriptionDispatchRate", "subscriptionDispatchRate", "RATE", shapes.dispatch_rate),
    _rate("replicatorDispatchRate", "replicatorDispatchRate", "REPLICATION_RATE", shapes.dispatch_rate),
    _rate("subscribeRate", "clusterSubscribeRate", "RATE", shapes.subscribe_rate),
    _rate("publishRate", "publishMaxMessageRate", "RATE", shapes.publish_rate),
    NamespaceRow(
        "compactionThreshold", "compaction_threshold", "COMPACTION", shapes.long,
        not_negative("compactionThreshold must be 0 or more"), method="PUT", needs_body=True,
    ),
    NamespaceRow(
        "schemaAutoUpdateCompatibilityStrategy", "schema_auto_update_compatibility_strategy",
        "SCHEMA_COMPATIBILITY_STRATEGY", shapes.auto_update_strategy, method="PUT", absent=NO_CONTENT, removable=False,
    ),
    NamespaceRow(
        "schemaCompatibilityStrategy", "schema_compatibility_strategy", "SCHEMA_COMPATIBILITY_STRATEGY",
        shapes.strategy, method="PUT", unset="UNDEFINED", absent="UNDEFINED", removable=False,
    ),
    NamespaceRow(
        "isAllowAutoUpdateSchema", "is_allow_auto_update_schema", "SCHEMA_COMPATIBILITY_STRATEGY", bodies.boolean,
        needs_body=True, absent=True, removable=False,
    ),
    NamespaceRow(
        "schemaValidationEnforced", "schema_validation_enforced", "SCHEMA_COMPATIBILITY_STRATEGY", bodies.boolean,
        needs_body=True, unset=False, absent=False, removable=False,
    ),
    NamespaceRow(
        "encryptionRequired", "encryption_required", "ENCRYPTION", bodies.boolean, needs_body=True, unset=False,
        absent=False, removable=False,
    ),
    NamespaceRow(
        "subscriptionAuthMode", "subscription_auth_mode", "SUBSCRIPTION_AUTH_MODE", shapes.subscription_auth_mode,
        unset="None", absent="None", removable=False,
    ),
    NamespaceRow(
        "delayedDelivery", "delayed_delivery_policies", "DELAYED_DELIVERY", shapes.delayed_delivery,
        missing=POLICIES_NOT_FOUND,
    ),
    NamespaceRow(
        "inactiveTopicPolicies", "inactive_topic_policies", "INACTIVE_TOPIC", shapes.inactive_topics,
        missing=POLICIES_NOT_FOUND,
    ),
    NamespaceRow(
        "subscriptionTypesEnabled", "subscription_types_enabled", "SUBSCRIPTION_AUTH_MODE", shapes.subscription_types,
        unset=[], absent=[],
    ),
    NamespaceRow(
        "subscriptionExpirationTime", "subscription_expiration_time_minutes", "SUBSCRIPTION_EXPIRATION_TIME",
        bodies.integer, not_negative("Invalid value for subscription expiration time"), needs_body=True,
    ),
    NamespaceRow("entryFilters", "entryFilters", "ENTRY_FILTERS", shapes.entry_filters),
    NamespaceRow(
        "dispatcherPauseOnAckStatePersistent", "dispatcherPauseOnAckStatePersistentEnabled",
        "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT", shapes.true_or_given, absent=False,
        without_effect=NOTHING_TO_PAUSE_FOR,
    ),
    _offload("offloadThreshold", "offload_threshold", unset=-1, absent=-1, removable=False),
    _offload("offloadThresholdInSeconds", "offload_threshold_in_seconds", unset=-1, absent=-1, removable=False),
    _offload("offloadDeletionLagMs", "offload_deletion_lag_ms"),
    _limit("maxProducersPerTopic", "max_producers_per_topic"),
    _limit("maxConsumersPerTopic", "max_consumers_per_topic", "MAX_CONSUMERS"),
    _limit("maxConsumersPerSubscription", "max_consumers_per_subscription", "MAX_CONSUMERS"),
    _limit("maxUnackedMessagesPerConsumer", "max_unacked_messages_per_consumer", "MAX_UNACKED"),
    _limit("maxUnackedMessagesPerSubscription", "max_unacked_messages_per_subscription", "MAX_UNACKED"),
    _limit(
        "maxSubscriptionsPerTopic", "max_subscriptions_per_topic", "MAX_SUBSCRIPTIONS", missing=POLICIES_NOT_FOUND
    ),
    _limit("maxTopicsPerNamespace", "max_topics_per_namespace", "MAX_TOPICS", missing=POLICIES_NOT_FOUND, absent=0),
)  # fmt: skip


def _dispatch_rate(rate: DispatchRate) -> dict[str, Any]:
    return {
        "dispatchThrottlingRateInMsg": rate.messages,
        "dispatchThrottlingRateInByte": rate.bytes,
        "relativeToPublishRate": rate.relative_to_publish_rate,
        "ratePeriodInSecond": rate.period_seconds,
    }


def _publish_rate(policies: EffectivePolicies) -> Answer:
    rate = policies.publish_rate
    if not rate.is_limited:
        return NO_CONTENT
    return {"publishThrottlingRateInMsg": rate.messages, "publishThrottlingRateInByte": rate.bytes}


def _subscribe_rate(policies: EffectivePolicies) -> Answer:
    rate = policies.subscribe_rate
    return {"subscribeThrottlingRatePerConsumer": rate.subscribes, "ratePeriodInSecond": rate.period_seconds}


def _retention(policies: EffectivePolicies) -> Answer:
    return {
        "retentionTimeInMinutes": policies.retention_time_in_minutes,
        "retentionSizeInMB": policies.retention_size_in_mb,
    }


def _delayed(policies: EffectivePolicies) -> Answer:
    return {
        "tickTime": policies.delayed_delivery_tick_time_millis,
        "active": policies.delayed_delivery_enabled,
        "maxDeliveryDelayInMillis": policies.delayed_delivery_max_delay_in_millis,
    }


def _inactive(policies: EffectivePolicies) -> Answer:
    inactive = policies.inactive_topic_policies
    return {
        "inactiveTopicDeleteMode": inactive.delete_mode,
        "maxInactiveDurationSeconds": inactive.max_inactive_duration_seconds,
        "deleteWhileInactive": inactive.delete_while_inactive,
    }


def _types(policies: EffectivePolicies) -> Answer:
    """None of them where all are allowed, as Apache says it."""
    types = policies.subscription_types_enabled
    return [] if set(types) == set(ALL_SUBSCRIPTION_TYPES) else sorted(types)


TOPIC_ROWS = (
    TopicRow(
        "retention", "retentionPolicies", "RETENTION", shapes.retention, shapes.check_retention, applied=_retention
    ),
    TopicRow(
        "messageTTL", "messageTTLInSeconds", "TTL", bodies.optional_integer,
        not_negative("Invalid value for message TTL"), query="messageTTL",
        applied=lambda policies: policies.message_ttl_in_seconds,
    ),
    TopicRow("persistence", "persistence", "PERSISTENCE", shapes.persistence, shapes.check_persistence),
    TopicRow(
        "deduplicationEnabled", "deduplicationEnabled", "DEDUPLICATION",
        lambda value: None if value is None else bodies.boolean(value),
        applied=lambda policies: policies.deduplication_enabled,
    ),
    TopicRow(
        "deduplicationSnapshotInterval", "deduplicationSnapshotIntervalSeconds", "DEDUPLICATION_SNAPSHOT",
        bodies.optional_integer, not_negative("interval must be 0 or more"),
    ),
    TopicRow(
        "autoSubscriptionCreation", "autoSubscriptionCreationOverride", "AUTO_SUBSCRIPTION_CREATION",
        shapes.auto_subscription,
        applied=lambda policies: {"allowAutoSubscriptionCreation": policies.allow_auto_subscription_creation},
    ),
    TopicRow(
        "dispatchRate", "dispatchRate", "RATE", shapes.dispatch_rate,
        applied=lambda policies: _dispatch_rate(policies.dispatch_rate),
    ),
    TopicRow(
        "subscriptionDispatchRate", "subscriptionDispatchRate", "RATE", shapes.dispatch_rate,
        applied=lambda policies: _dispatch_rate(policies.subscription_dispatch_rate),
    ),
    TopicRow(
        "replicatorDispatchRate", "replicatorDispatchRate", "REPLICATION_RATE", shapes.dispatch_rate,
        applied=lambda policies: _dispatch_rate(DispatchRate(0, 0)),
    ),
    TopicRow("subscribeRate", "subscribeRate", "RATE", shapes.subscribe_rate, applied=_subscribe_rate),
    TopicRow(
        "publishRate", "publishRate", "RATE", shapes.publish_rate, absent=NO_CONTENT, applied=_publish_rate
    ),
    TopicRow(
        "compactionThreshold", "compactionThreshold", "COMPACTION", shapes.long,
        not_negative("Invalid value for compactionThreshold"), needs_body=True,
        applied=lambda policies: policies.compaction_threshold,
    ),
    TopicRow(
        "delayedDelivery", "", "DELAYED_DELIVERY", shapes.delayed_delivery, applied=_delayed,
        keys={
            "tickTime": "delayedDeliveryTickTimeMillis",
            "active": "delayedDeliveryEnabled",
            "maxDeliveryDelayInMillis": "delayedDeliveryMaxDelayInMillis",
        },
    ),
    TopicRow(
        "inactiveTopicPolicies", "inactiveTopicPolicies", "INACTIVE_TOPIC", shapes.inactive_topics, applied=_inactive
    ),
    TopicRow(
        "subscriptionTypesEnabled", "subscriptionTypesEnabled", "SUBSCRIPTION_AUTH_MODE", shapes.subscription_types,
        absent=[], applied=_types,
    ),
    TopicRow(
        "schemaCompatibilityStrategy", "schemaCompatibilityStrategy", "SCHEMA_COMPATIBILITY_STRATEGY", shapes.strategy,
        method="PUT", applied=lambda policies: policies.schema_compatibility_strategy,
    ),
    TopicRow(
        "schemaValidationEnforced", "schemaValidationEnforced", "SCHEMA_COMPATIBILITY_STRATEGY", bodies.boolean,
        needs_body=True, absent=False, removable=False,
        applied=lambda policies: policies.schema_validation_enforced,
    ),
    TopicRow(
        "entryFilters", "entryFilters", "ENTRY_FILTERS", shapes.entry_filters,
        applied=lambda policies: {"entryFilterNames": ""},
    ),
    TopicRow(
        "dispatcherPauseOnAckStatePersistent", "dispatcherPauseOnAckStatePersistentEnabled",
        "DISPATCHER_PAUSE_ON_ACK_STATE_PERSISTENT", shapes.true_or_given, absent=False,
        applied=lambda policies: policies.dispatcher_pause_on_ack_state_persistent_enabled,
        without_effect=NOTHING_TO_PAUSE_FOR,
    ),
    TopicRow(
        "maxProducers", "maxProducerPerTopic", "MAX_PRODUCERS", bodies.integer,
        not_negative("maxProducers must be 0 or more"), needs_body=True,
        applied=lambda policies: policies.max_producers_per_topic,
    ),
    TopicRow(
        "maxConsumers", "maxConsumerPerTopic", "MAX_CONSUMERS", bodies.integer,
        not_negative("maxConsumers must be 0 or more"), needs_body=True,
        applied=lambda policies: policies.max_consumers_per_topic,
    ),
    TopicRow(
        "maxConsumersPerSubscription", "maxConsumersPerSubscription", "MAX_CONSUMERS", bodies.integer,
        not_negative("Invalid value for maxConsumersPerSubscription"), needs_body=True, absent=NO_CONTENT,
    ),
    TopicRow(
        "maxUnackedMessagesOnConsumer", "maxUnackedMessagesOnConsumer", "MAX_UNACKED", bodies.optional_integer,
        not_negative("maxUnackedNum must be 0 or more"),
        applied=lambda policies: policies.max_unacked_messages_per_consumer,
    ),
    TopicRow(
        "maxUnackedMessagesOnSubscription", "maxUnackedMessagesOnSubscription", "MAX_UNACKED", bodies.optional_integer,
        not_negative("maxUnackedNum must be 0 or more"),
        applied=lambda policies: policies.max_unacked_messages_per_subscription,
    ),
    TopicRow(
        "maxSubscriptionsPerTopic", "maxSubscriptionsPerTopic", "MAX_SUBSCRIPTIONS", bodies.integer,
        not_negative("maxSubscriptionsPerTopic must be 0 or more"), needs_body=True, absent=NO_CONTENT,
    ),
    TopicRow(
        "maxMessageSize", "maxMessageSize", "MAX_MESSAGE_SIZE", bodies.integer,
        not_negative(
            "topic-level maxMessageSize must be greater than or equal to 0 and must be smaller than that in the "
            "broker-level"
        ),
        needs_body=True, absent=NO_CONTENT,
    ),
)  # fmt: skip
