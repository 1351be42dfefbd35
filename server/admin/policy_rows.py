"""The table of policies. A row says how a policy is named in paths, records and events, how its value is read from
JSON and checked, and what the calls on the policy answer.

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
"""Apache's broker stores only managedLedgerMaxUnackedRangesToPersist ranges and pauses the delivery when there are more
(ManagedCursorImpl.isCursorDataFullyPersistable). `magnetar.storage.managed.cursor_record` describes how this broker
stores the ranges.
"""

NOTHING_OFFLOADED = "this broker does not offload: all messages stay in its own ledgers"

Applied = Callable[[EffectivePolicies], Answer]
"""A function that returns the policy in force, as the answer to a call."""


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """The fields that rows of namespaces' policies and of topics' policies have in common."""

    path: str
    """The end of the path of the policy's calls, after the path of the namespace or of the topic."""
    key: str
    """The key of the policy's value in the namespace's record, or in the TopicPolicies of the topic."""
    name: str
    """Java's PolicyName of the policy, by which a caller is authorized."""
    read: Read
    check: Check = shapes.no_check
    method: str = "POST"
    """The HTTP method of the call that sets the policy."""
    needs_body: bool = False
    """Whether a call that sets the policy without a body is refused. Otherwise a missing body counts as null."""
    absent: Answer = EMPTY
    """The answer of the call that reads the policy when it is not set."""
    removable: bool = True
    """Whether there is a call that removes the policy."""
    without_effect: str = ""
    """The reason why the policy has no effect in this broker, which is logged when the policy is set. Empty for a
    policy that has an effect."""


@dataclass(frozen=True, slots=True)
class NamespaceRow(PolicyRow):
    """A policy of a namespace."""

    per_cluster: bool = False
    """Whether the record holds a value for each cluster; calls read and set only the value of this cluster."""
    mirrors: str = ""
    """A second key that always holds the value of `key`, because Apache stores the topics' dispatch rate under two
    keys."""
    unset: Any = None
    """The value in the record when the policy is not set; None stands for a missing key."""
    missing: str = NOT_FOUND
    """The text of the refusal of a change when the namespace does not exist."""


@dataclass(frozen=True, slots=True)
class TopicRow(PolicyRow):
    """A policy of a topic."""

    query: str = ""
    """The query parameter that holds the value; an empty name stands for the body."""
    applied: Applied | None = None
    """A function that returns the answer to `?applied=true` when the topic has no value of its own. When `applied` is
    None, that parameter is ignored."""
    keys: Mapping[str, str] | None = None
    """The members of the value, each with its key, for a policy that is stored under several keys; otherwise None. With
    `keys`, `key` is not used."""


def _limit(path: str, key: str, name: str = "MAX_PRODUCERS", **other: Any) -> NamespaceRow:
    """Returns the row of a limit, which is a number of 0 or more."""
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


def shown_dispatch_rate(rate: DispatchRate) -> dict[str, Any]:
    """Returns a dispatch rate as Jackson writes DispatchRateImpl."""
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
    """Returns the subscription types that are allowed. As in Apache's broker, an empty list means that all are
    allowed."""
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
        applied=lambda policies: shown_dispatch_rate(policies.dispatch_rate),
    ),
    TopicRow(
        "subscriptionDispatchRate", "subscriptionDispatchRate", "RATE", shapes.dispatch_rate,
        applied=lambda policies: shown_dispatch_rate(policies.subscription_dispatch_rate),
    ),
    TopicRow(
        "replicatorDispatchRate", "replicatorDispatchRate", "REPLICATION_RATE", shapes.dispatch_rate,
        applied=lambda policies: shown_dispatch_rate(DispatchRate(0, 0)),
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
