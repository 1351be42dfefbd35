"""What holds for a topic: its own policy, otherwise the namespace's, otherwise that of broker.conf."""

import json
from typing import Any

import pytest

from magnetar.metadata.cluster_init import policies_value
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.policies.effective_policies import EffectivePolicies, of_broker, with_namespace, with_topic
from magnetar.server.policies.policy_values import (
    BacklogAction,
    BacklogQuota,
    DispatchRate,
    InactiveTopicDeleteMode,
    Persistence,
    PublishRate,
    SubscribeRate,
)

SETTINGS = TopicSettings(
    ttl_duration_default_in_seconds=9,
    max_producers_per_topic=1,
    backlog_quota_default_limit_gb=10,
    default_retention_size_in_mb=-1,
)
BROKER = of_broker(SETTINGS)


def resolve(namespace: dict[str, Any], topic: dict[str, Any] | None = None, **properties: str) -> EffectivePolicies:
    return with_topic(with_namespace(BROKER, namespace, "standalone"), topic or {}, properties)


def test_without_policies_broker_conf_holds() -> None:
    assert BROKER.message_ttl_in_seconds == 9
    assert BROKER.retention_size_in_mb == -1
    assert BROKER.backlog_quotas.destination_storage == BacklogQuota(10 << 30)
    half = of_broker(TopicSettings(backlog_quota_default_limit_gb=0.5))
    assert half.backlog_quotas.destination_storage == BacklogQuota(1 << 29)
    assert BROKER.backlog_quotas.message_age.limit == -1
    assert of_broker(TopicSettings()) == EffectivePolicies(
        inactive_topic_policies=of_broker(TopicSettings()).inactive_topic_policies,
        publish_rate=PublishRate(0, 0),
        dispatch_rate=DispatchRate(0, 0),
        subscription_dispatch_rate=DispatchRate(0, 0),
        subscribe_rate=SubscribeRate(0),
    )


@pytest.mark.parametrize("auto_update", [None, True])
def test_a_new_namespace_changes_nothing(auto_update: bool | None) -> None:
    record = json.loads(policies_value(["standalone"], auto_update_schema=auto_update))
    assert resolve(record) == BROKER
    assert with_topic(BROKER, {}) is BROKER


def test_the_topic_outranks_the_namespace_and_it_the_broker() -> None:
    assert resolve({"message_ttl_in_seconds": 5}).message_ttl_in_seconds == 5
    assert resolve({"message_ttl_in_seconds": 5}, {"messageTTLInSeconds": 3}).message_ttl_in_seconds == 3
    assert resolve({"message_ttl_in_seconds": 5}, {"messageTTLInSeconds": 0}).message_ttl_in_seconds == 0
    assert resolve({"message_ttl_in_seconds": 0}).message_ttl_in_seconds == 0
    assert resolve({"message_ttl_in_seconds": None}, {"messageTTLInSeconds": None}).message_ttl_in_seconds == 9
    assert resolve({"max_producers_per_topic": 4}, {"maxConsumerPerTopic": 2}).max_producers_per_topic == 4
    assert resolve({}, {"maxProducerPerTopic": 2}).max_producers_per_topic == 2


def test_quotas_are_inherited_kind_by_kind() -> None:
    of_namespace = {
        "backlog_quota_map": {
            "message_age": {"limit": -1, "limitSize": -1, "limitTime": 60, "policy": "producer_exception"}
        }
    }
    of_topic = {"backLogQuotaMap": {"destination_storage": {"limitSize": 100, "policy": "consumer_backlog_eviction"}}}
    quotas = resolve(of_namespace, of_topic).backlog_quotas
    assert quotas.message_age == BacklogQuota(60, BacklogAction.PRODUCER_EXCEPTION)
    assert quotas.destination_storage == BacklogQuota(100, BacklogAction.CONSUMER_BACKLOG_EVICTION)
    old = {"backlog_quota_map": {"destination_storage": {"limit": 7, "policy": "producer_request_hold"}}}
    assert resolve(old).backlog_quotas.destination_storage == BacklogQuota(7)


def test_rates_are_those_of_this_cluster() -> None:
    rate = {"dispatchThrottlingRateInMsg": 500, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 2}
    namespace = {
        "topicDispatchRate": {"standalone": rate, "elsewhere": {"dispatchThrottlingRateInMsg": 1}},
        "publishMaxMessageRate": {"elsewhere": {"publishThrottlingRateInMsg": 1}},
        "clusterSubscribeRate": {"standalone": {"subscribeThrottlingRatePerConsumer": 5, "ratePeriodInSecond": 30}},
    }
    policies = resolve(namespace)
    assert policies.dispatch_rate == DispatchRate(500, -1, 2)
    assert policies.dispatch_rate.is_limited
    assert not policies.publish_rate.is_limited
    assert policies.subscribe_rate == SubscribeRate(5, 30)
    topic = {"publishRate": {"publishThrottlingRateInMsg": 3, "publishThrottlingRateInByte": 4}}
    assert resolve(namespace, topic).publish_rate == PublishRate(3, 4)


def test_a_single_subscription_has_its_own_rate() -> None:
    topic = {"subscriptionPolicies": {"slow": {"dispatchRate": {"dispatchThrottlingRateInMsg": 1}}, "other": {}}}
    policies = resolve({}, topic)
    assert policies.dispatch_rate_of("slow").messages == 1
    assert policies.dispatch_rate_of("other") == policies.subscription_dispatch_rate


def test_values_that_are_objects() -> None:
    namespace = {
        "retention_policies": {"retentionTimeInMinutes": 60, "retentionSizeInMB": -1},
        "inactive_topic_policies": {
            "inactiveTopicDeleteMode": "delete_when_subscriptions_caught_up",
            "maxInactiveDurationSeconds": 30,
            "deleteWhileInactive": False,
        },
        "persistence": {
            "bookkeeperEnsemble": 3,
            "bookkeeperWriteQuorum": 2,
            "bookkeeperAckQuorum": 2,
            "managedLedgerMaxMarkDeleteRate": 0.5,
        },
        "delayed_delivery_policies": {"tickTime": 50, "active": False, "maxDeliveryDelayInMillis": 7},
        "autoSubscriptionCreationOverride": {"allowAutoSubscriptionCreation": False},
        "subscription_types_enabled": ["Shared"],
        "encryption_required": True,
    }
    policies = resolve(namespace)
    assert (policies.retention_time_in_minutes, policies.retention_size_in_mb) == (60, -1)
    inactive = policies.inactive_topic_policies
    assert inactive.delete_mode is InactiveTopicDeleteMode.DELETE_WHEN_SUBSCRIPTIONS_CAUGHT_UP
    assert (inactive.delete_while_inactive, inactive.max_inactive_duration_seconds) == (False, 30)
    assert policies.persistence == Persistence(3, 2, 2, 0.5)
    assert (policies.delayed_delivery_enabled, policies.delayed_delivery_tick_time_millis) == (False, 50)
    assert policies.delayed_delivery_max_delay_in_millis == 7
    assert not policies.allow_auto_subscription_creation
    assert policies.subscription_types_enabled == ("Shared",)
    assert policies.encryption_required
    assert resolve(namespace, {"delayedDeliveryEnabled": True}).delayed_delivery_enabled
    assert resolve({"persistence": {"bookkeeperEnsemble": 0}}).persistence is None


def test_the_schema_strategy_of_a_namespace_may_be_written_the_old_way() -> None:
    assert resolve({"schema_compatibility_strategy": "UNDEFINED"}).schema_compatibility_strategy == "FULL"
    assert resolve({"schema_compatibility_strategy": "BACKWARD"}).schema_compatibility_strategy == "BACKWARD"
    old = {"schema_compatibility_strategy": "UNDEFINED", "schema_auto_update_compatibility_strategy": "Forward"}
    assert resolve(old).schema_compatibility_strategy == "FORWARD"
    assert resolve(old, {"schemaCompatibilityStrategy": "UNDEFINED"}).schema_compatibility_strategy == "FORWARD"


def test_holes_are_filled_as_the_property_says() -> None:
    namespace = {"properties": {"fillAckHolesIntervalSeconds": "180"}}
    assert resolve(namespace).fill_ack_holes_interval_seconds == 180
    assert resolve(namespace, fillAckHolesIntervalSeconds="0").fill_ack_holes_interval_seconds == 0
    for nonsense in ("often", "9" * 5_000, "9" * 400, "-1", "١"):
        assert resolve(namespace, fillAckHolesIntervalSeconds=nonsense).fill_ack_holes_interval_seconds == 180
