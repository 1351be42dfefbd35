"""The policies that hold for one topic. Each policy is taken from the topic's own policies if it is set there,
otherwise from the record of the topic's namespace if it is set there, otherwise from broker.conf.

A value that is null or missing on one of these levels is inherited from the next level. Callers pass the records as
JSON; this module does no I/O.

Sources: AbstractTopic.updateTopicPolicy and updateTopicPolicyByNamespacePolicy, HierarchyTopicPolicies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from magnetar.server.config.topic_settings import ALL_SUBSCRIPTION_TYPES, TopicSettings
from magnetar.server.policies.policy_values import (
    NEVER_INACTIVE,
    NO_DISPATCH_RATE,
    NO_PUBLISH_RATE,
    NO_QUOTAS,
    NO_SUBSCRIBE_RATE,
    UNLIMITED,
    BacklogAction,
    BacklogQuota,
    BacklogQuotas,
    DispatchRate,
    InactiveTopicDeleteMode,
    InactiveTopicPolicies,
    Json,
    Persistence,
    PublishRate,
    SubscribeRate,
)

FILL_ACK_HOLES_PROPERTY = "fillAckHolesIntervalSeconds"
"""The property of a namespace or topic that holds a policy which Apache's broker does not have. The policy is a
property so that Apache's admin tools can set the policy and Apache's brokers keep it."""

FILL_ACK_HOLES_DIGITS_MAX = 9
"""A number of seconds with more digits (more than about 30 years) is ignored."""


@dataclass(frozen=True, slots=True)
class EffectivePolicies:
    """The policies of one topic. The object is immutable: a changed policy leads to a new object. A limit of 0 means
    that there is no limit, unless the field's text says otherwise."""

    message_ttl_in_seconds: int = 0
    """With 0, messages do not expire."""
    subscription_expiration_time_minutes: int = 0
    """With 0, subscriptions do not expire."""
    retention_time_in_minutes: int = 0
    """With 0, acknowledged messages are not kept; with -1, they are kept without a limit of time."""
    retention_size_in_mb: int = 0
    """With 0, acknowledged messages are not kept; with -1, they are kept without a limit of size."""
    backlog_quotas: BacklogQuotas = NO_QUOTAS
    inactive_topic_policies: InactiveTopicPolicies = NEVER_INACTIVE
    compaction_threshold: int = 0
    """The bytes of backlog at which the topic is compacted. With 0, only an admin call compacts the topic."""
    persistence: Persistence | None = None
    """With None, the quorums of broker.conf hold."""

    deduplication_enabled: bool = False
    deduplication_snapshot_interval_seconds: int = 120
    delayed_delivery_enabled: bool = True
    delayed_delivery_tick_time_millis: int = 1_000
    delayed_delivery_max_delay_in_millis: int = 0
    encryption_required: bool = False
    fill_ack_holes_interval_seconds: int = 0
    """For how many seconds a message may stay unacknowledged while later messages are acknowledged. After this time the
    message is delivered again. 0 means never."""
    dispatcher_pause_on_ack_state_persistent_enabled: bool = False
    """This policy is stored and shown but has no effect; its row in `magnetar.server.admin.policy_rows` says why."""

    allow_auto_subscription_creation: bool = True
    subscription_types_enabled: tuple[str, ...] = ALL_SUBSCRIPTION_TYPES
    max_producers_per_topic: int = 0
    max_consumers_per_topic: int = 0
    max_consumers_per_subscription: int = 0
    max_subscriptions_per_topic: int = 0
    max_unacked_messages_per_consumer: int = 50_000
    max_unacked_messages_per_subscription: int = 200_000
    max_message_size: int = 0
    """The largest message in bytes, if this limit is below the connection's. With 0, only the connection's limit
    holds."""

    publish_rate: PublishRate = NO_PUBLISH_RATE
    dispatch_rate: DispatchRate = NO_DISPATCH_RATE
    """The rate at which messages are sent to all subscriptions of the topic together."""
    subscription_dispatch_rate: DispatchRate = NO_DISPATCH_RATE
    """The rate at which messages are sent to each subscription."""
    dispatch_rates_of_subscriptions: Mapping[str, DispatchRate] = field(default_factory=dict)
    """Subscription -> its own dispatch rate, which holds in place of `subscription_dispatch_rate`."""
    subscribe_rate: SubscribeRate = NO_SUBSCRIBE_RATE

    schema_compatibility_strategy: str = "FULL"
    is_allow_auto_update_schema: bool = True
    schema_validation_enforced: bool = False

    def dispatch_rate_of(self, subscription: str) -> DispatchRate:
        return self.dispatch_rates_of_subscriptions.get(subscription, self.subscription_dispatch_rate)


def of_broker(settings: TopicSettings) -> EffectivePolicies:
    """Returns the policies of broker.conf. A policy of broker.conf holds if it is set neither for the namespace nor for
    the topic."""
    backlog_action = BacklogAction(settings.backlog_quota_default_retention_policy)
    inactive_seconds = settings.broker_delete_inactive_topics_max_inactive_duration_seconds
    return EffectivePolicies(
        message_ttl_in_seconds=settings.ttl_duration_default_in_seconds,
        subscription_expiration_time_minutes=settings.subscription_expiration_time_minutes,
        retention_time_in_minutes=settings.default_retention_time_in_minutes,
        retention_size_in_mb=settings.default_retention_size_in_mb,
        backlog_quotas=BacklogQuotas(
            BacklogQuota(_default_backlog_bytes(settings), backlog_action),
            BacklogQuota(settings.backlog_quota_default_limit_second, backlog_action),
        ),
        inactive_topic_policies=InactiveTopicPolicies(
            settings.broker_delete_inactive_topics_enabled,
            inactive_seconds or settings.broker_delete_inactive_topics_frequency_seconds,
            InactiveTopicDeleteMode(settings.broker_delete_inactive_topics_mode),
        ),
        compaction_threshold=settings.broker_service_compaction_threshold_in_bytes,
        deduplication_enabled=settings.broker_deduplication_enabled,
        deduplication_snapshot_interval_seconds=settings.broker_deduplication_snapshot_interval_seconds,
        delayed_delivery_enabled=settings.delayed_delivery_enabled,
        delayed_delivery_tick_time_millis=settings.delayed_delivery_tick_time_millis,
        delayed_delivery_max_delay_in_millis=settings.delayed_delivery_max_delay_in_millis,
        encryption_required=settings.encryption_require_on_producer,
        fill_ack_holes_interval_seconds=settings.fill_ack_holes_interval_seconds,
        allow_auto_subscription_creation=settings.allow_auto_subscription_creation,
        subscription_types_enabled=settings.subscription_types_enabled,
        max_producers_per_topic=settings.max_producers_per_topic,
        max_consumers_per_topic=settings.max_consumers_per_topic,
        max_consumers_per_subscription=settings.max_consumers_per_subscription,
        max_subscriptions_per_topic=settings.max_subscriptions_per_topic,
        max_unacked_messages_per_consumer=settings.max_unacked_messages_per_consumer,
        max_unacked_messages_per_subscription=settings.max_unacked_messages_per_subscription,
        publish_rate=PublishRate(
            settings.max_publish_rate_per_topic_in_messages, settings.max_publish_rate_per_topic_in_bytes
        ),
        dispatch_rate=DispatchRate(
            settings.dispatch_throttling_rate_per_topic_in_msg,
            settings.dispatch_throttling_rate_per_topic_in_byte,
            relative_to_publish_rate=settings.dispatch_throttling_rate_relative_to_publish_rate,
        ),
        subscription_dispatch_rate=DispatchRate(
            settings.dispatch_throttling_rate_per_subscription_in_msg,
            settings.dispatch_throttling_rate_per_subscription_in_byte,
            relative_to_publish_rate=settings.dispatch_throttling_rate_relative_to_publish_rate,
        ),
        subscribe_rate=SubscribeRate(
            settings.subscribe_throttling_rate_per_consumer, settings.subscribe_rate_period_per_consumer_in_second
        ),
        schema_compatibility_strategy=_or_full(settings.schema_compatibility_strategy),
        is_allow_auto_update_schema=settings.is_allow_auto_update_schema_enabled,
        schema_validation_enforced=settings.is_schema_validation_enforced,
    )


def _or_full(strategy: str) -> str:
    """Returns the strategy, or FULL if the strategy is UNDEFINED, because UNDEFINED in broker.conf means FULL
    (ServiceConfiguration.getSchemaCompatibilityStrategy)."""
    return "FULL" if strategy == "UNDEFINED" else strategy


def _default_backlog_bytes(settings: TopicSettings) -> int:
    gigabytes = settings.backlog_quota_default_limit_gb
    return int(gigabytes * (1 << 30)) if gigabytes > 0 else settings.backlog_quota_default_limit_bytes


def with_namespace(base: EffectivePolicies, namespace: Json, cluster: str) -> EffectivePolicies:
    """Returns `base` changed by a namespace's record (/admin/policies/{tenant}/{namespace}). The record has rates for
    each cluster; only the rates of `cluster` are used."""
    if not namespace:
        return base
    changes = _scalars(namespace, NAMESPACE_SCALARS)
    _add_retention(changes, namespace.get("retention_policies"))
    _add_inactive(changes, namespace.get("inactive_topic_policies"))
    _add_persistence(changes, namespace.get("persistence"))
    delayed = namespace.get("delayed_delivery_policies")
    if delayed:
        changes |= _scalars(delayed, NAMESPACE_DELAYED)
    auto_subscription = namespace.get("autoSubscriptionCreationOverride")
    if auto_subscription:
        changes["allow_auto_subscription_creation"] = bool(auto_subscription.get("allowAutoSubscriptionCreation"))
    for key, name, make in NAMESPACE_RATES:
        rate = (namespace.get(key) or {}).get(cluster)
        if rate:
            changes[name] = make(rate)
    if namespace.get("encryption_required"):
        changes["encryption_required"] = True
    if namespace.get("schema_validation_enforced"):
        changes["schema_validation_enforced"] = True
    strategy = _strategy_of_namespace(namespace)
    if strategy is not None:
        changes["schema_compatibility_strategy"] = strategy
    changes["backlog_quotas"] = _quotas(base.backlog_quotas, namespace.get("backlog_quota_map"))
    changes |= _subscription_types(namespace.get("subscription_types_enabled"))
    changes |= _fill_ack_holes(namespace.get("properties"))
    return replace(base, **changes)


def with_topic(
    base: EffectivePolicies, policies: Json, properties: Mapping[str, str] | None = None
) -> EffectivePolicies:
    """Returns `base` changed by a topic's policies, whose keys are those of Apache's TopicPolicies, and by the topic's
    properties."""
    if not policies and not (properties and FILL_ACK_HOLES_PROPERTY in properties):
        return base
    changes = _scalars(policies, TOPIC_SCALARS)
    _add_retention(changes, policies.get("retentionPolicies"))
    _add_inactive(changes, policies.get("inactiveTopicPolicies"))
    _add_persistence(changes, policies.get("persistence"))
    auto_subscription = policies.get("autoSubscriptionCreationOverride")
    if auto_subscription:
        changes["allow_auto_subscription_creation"] = bool(auto_subscription.get("allowAutoSubscriptionCreation"))
    for key, name, make in TOPIC_RATES:
        if policies.get(key):
            changes[name] = make(policies[key])
    changes["dispatch_rates_of_subscriptions"] = {
        subscription: DispatchRate.of(each["dispatchRate"])
        for subscription, each in (policies.get("subscriptionPolicies") or {}).items()
        if each and each.get("dispatchRate")
    }
    if changes.get("schema_compatibility_strategy") == "UNDEFINED":
        del changes["schema_compatibility_strategy"]
    changes["backlog_quotas"] = _quotas(base.backlog_quotas, policies.get("backLogQuotaMap"))
    changes |= _subscription_types(policies.get("subscriptionTypesEnabled"))
    changes |= _fill_ack_holes(properties)
    return replace(base, **changes)


NAMESPACE_SCALARS = {
    "message_ttl_in_seconds": "message_ttl_in_seconds",
    "subscription_expiration_time_minutes": "subscription_expiration_time_minutes",
    "compaction_threshold": "compaction_threshold",
    "deduplicationEnabled": "deduplication_enabled",
    "deduplicationSnapshotIntervalSeconds": "deduplication_snapshot_interval_seconds",
    "dispatcherPauseOnAckStatePersistentEnabled": "dispatcher_pause_on_ack_state_persistent_enabled",
    "max_producers_per_topic": "max_producers_per_topic",
    "max_consumers_per_topic": "max_consumers_per_topic",
    "max_consumers_per_subscription": "max_consumers_per_subscription",
    "max_subscriptions_per_topic": "max_subscriptions_per_topic",
    "max_unacked_messages_per_consumer": "max_unacked_messages_per_consumer",
    "max_unacked_messages_per_subscription": "max_unacked_messages_per_subscription",
    "is_allow_auto_update_schema": "is_allow_auto_update_schema",
}
"""Maps keys of the namespace's record to the fields of EffectivePolicies that take their values as they are, unless the
value is null."""

NAMESPACE_DELAYED = {
    "active": "delayed_delivery_enabled",
    "tickTime": "delayed_delivery_tick_time_millis",
    "maxDeliveryDelayInMillis": "delayed_delivery_max_delay_in_millis",
}
"""Maps keys of the record's `delayed_delivery_policies` to fields of EffectivePolicies, as NAMESPACE_SCALARS does for
keys of the record itself."""

TOPIC_SCALARS = {
    "messageTTLInSeconds": "message_ttl_in_seconds",
    "subscriptionExpirationTimeInMinutes": "subscription_expiration_time_minutes",
    "compactionThreshold": "compaction_threshold",
    "deduplicationEnabled": "deduplication_enabled",
    "deduplicationSnapshotIntervalSeconds": "deduplication_snapshot_interval_seconds",
    "delayedDeliveryEnabled": "delayed_delivery_enabled",
    "delayedDeliveryTickTimeMillis": "delayed_delivery_tick_time_millis",
    "delayedDeliveryMaxDelayInMillis": "delayed_delivery_max_delay_in_millis",
    "dispatcherPauseOnAckStatePersistentEnabled": "dispatcher_pause_on_ack_state_persistent_enabled",
    "maxProducerPerTopic": "max_producers_per_topic",
    "maxConsumerPerTopic": "max_consumers_per_topic",
    "maxConsumersPerSubscription": "max_consumers_per_subscription",
    "maxSubscriptionsPerTopic": "max_subscriptions_per_topic",
    "maxUnackedMessagesOnConsumer": "max_unacked_messages_per_consumer",
    "maxUnackedMessagesOnSubscription": "max_unacked_messages_per_subscription",
    "maxMessageSize": "max_message_size",
    "schemaCompatibilityStrategy": "schema_compatibility_strategy",
    "schemaValidationEnforced": "schema_validation_enforced",
}
"""Maps keys of a topic's policies to fields of EffectivePolicies, as NAMESPACE_SCALARS does for keys of the namespace's
record."""

NAMESPACE_RATES = (
    ("topicDispatchRate", "dispatch_rate", DispatchRate.of),
    ("subscriptionDispatchRate", "subscription_dispatch_rate", DispatchRate.of),
    ("publishMaxMessageRate", "publish_rate", PublishRate.of),
    ("clusterSubscribeRate", "subscribe_rate", SubscribeRate.of),
)
"""Each row has a key of the namespace's record, the field of EffectivePolicies that the key sets, and the function that
reads the value of the key from JSON."""

TOPIC_RATES = (
    ("dispatchRate", "dispatch_rate", DispatchRate.of),
    ("subscriptionDispatchRate", "subscription_dispatch_rate", DispatchRate.of),
    ("publishRate", "publish_rate", PublishRate.of),
    ("subscribeRate", "subscribe_rate", SubscribeRate.of),
)
"""Each row has a key of a topic's policies, the field of EffectivePolicies that the key sets, and the function that
reads the value of the key from JSON."""

_AUTO_UPDATE_STRATEGIES = {
    "AutoUpdateDisabled": "ALWAYS_INCOMPATIBLE",
    "Backward": "BACKWARD",
    "Forward": "FORWARD",
    "Full": "FULL",
    "AlwaysCompatible": "ALWAYS_COMPATIBLE",
    "BackwardTransitive": "BACKWARD_TRANSITIVE",
    "ForwardTransitive": "FORWARD_TRANSITIVE",
    "FullTransitive": "FULL_TRANSITIVE",
}
"""Maps the names of strategies in an older key of the namespace's record to today's names
(SchemaCompatibilityStrategy.fromAutoUpdatePolicy)."""


def _scalars(record: Json, names: Mapping[str, str]) -> dict[str, Any]:
    return {name: record[key] for key, name in names.items() if record.get(key) is not None}


def _add_retention(changes: dict[str, Any], value: Json | None) -> None:
    if value:
        changes["retention_time_in_minutes"] = value.get("retentionTimeInMinutes") or 0
        changes["retention_size_in_mb"] = value.get("retentionSizeInMB") or 0


def _add_inactive(changes: dict[str, Any], value: Json | None) -> None:
    if value:
        changes["inactive_topic_policies"] = InactiveTopicPolicies.of(value)


def _add_persistence(changes: dict[str, Any], value: Json | None) -> None:
    persistence = Persistence.of(value) if value else None
    if persistence is not None:
        changes["persistence"] = persistence


def _quotas(base: BacklogQuotas, quotas: Json | None) -> BacklogQuotas:
    if not quotas:
        return base
    result = base
    size, age = quotas.get("destination_storage"), quotas.get("message_age")
    if size:
        # Pulsar before 2.9 wrote `limit` where `limitSize` is now (BacklogQuotaImpl).
        limit = size.get("limitSize")
        legacy = size.get("limit")
        chosen = limit if limit is not None else UNLIMITED if legacy is None else legacy
        result = result._replace(destination_storage=BacklogQuota(chosen, _action(size)))
    if age:
        limit = age.get("limitTime")
        result = result._replace(message_age=BacklogQuota(UNLIMITED if limit is None else limit, _action(age)))
    return result


def _action(quota: Json) -> BacklogAction:
    return BacklogAction(quota.get("policy") or BacklogAction.PRODUCER_REQUEST_HOLD)


def _subscription_types(types: Any) -> dict[str, Any]:
    return {"subscription_types_enabled": tuple(types)} if types else {}


def _strategy_of_namespace(namespace: Json) -> str | None:
    strategy: str | None = namespace.get("schema_compatibility_strategy")
    if strategy not in (None, "UNDEFINED"):
        return strategy
    return _AUTO_UPDATE_STRATEGIES.get(namespace.get("schema_auto_update_compatibility_strategy") or "")


def _fill_ack_holes(properties: Mapping[str, str] | None) -> dict[str, Any]:
    """Returns the field of EffectivePolicies that the property FILL_ACK_HOLES_PROPERTY sets, with its value. Users may
    write any text into a property. The result is empty when the property is missing, is no number of seconds, or has
    more than FILL_ACK_HOLES_DIGITS_MAX digits."""
    text = (properties or {}).get(FILL_ACK_HOLES_PROPERTY, "")
    is_number = text.isascii() and text.isdigit() and len(text) <= FILL_ACK_HOLES_DIGITS_MAX
    return {"fill_ack_holes_interval_seconds": int(text)} if is_number else {}
