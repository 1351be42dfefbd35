"""The metrics that only persistent or only non-persistent topics and subscriptions have, by Pulsar's names.

Source: TopicStats.printTopicStats; names as in Pulsar 4.0.7.
"""

from collections.abc import Iterable

from magnetar.server.stats.compaction_stats import compaction_metrics
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.counters import now_ms
from magnetar.server.topics.non_persistent.subscription import NonPersistentSubscription
from magnetar.server.topics.subscriptions.base_subscription import BaseSubscription
from magnetar.server.topics.subscriptions.subscription import Subscription
from magnetar.server.topics.topic import Topic

Samples = Iterable[tuple[str, float]]
"""Pairs of (metric name, value)."""


def topic_metrics(topic: BaseTopic) -> Samples:
    """Returns the metrics that only persistent topics have. The result for a non-persistent topic is empty."""
    return _of_persistent_topic(topic) if isinstance(topic, Topic) else ()


def subscription_metrics(subscription: BaseSubscription) -> Samples:
    """Returns the metrics that only subscriptions of persistent topics have or, for a subscription of a non-persistent
    topic, the metrics that only such subscriptions have."""
    if isinstance(subscription, NonPersistentSubscription):
        return (("pulsar_subscription_msg_drop_rate", subscription.drop_rate.value),)
    assert isinstance(subscription, Subscription)
    return _of_persistent_subscription(subscription)


def _of_persistent_topic(topic: Topic) -> Samples:
    quotas = topic.policies.backlog_quotas
    oldest_ms = topic.quota.oldest.known_ms()
    compaction = () if topic.compaction is None else compaction_metrics(topic.compaction)
    return (
        *compaction,
        ("pulsar_storage_backlog_size", topic.backlog_size),
        ("pulsar_storage_backlog_quota_limit", quotas.destination_storage.limit),
        ("pulsar_storage_backlog_quota_limit_time", quotas.message_age.limit),
        ("magnetar_storage_unreadable_entries", topic.ledger.gaps.entries),
        ("magnetar_storage_unreadable_entries_skipped", topic.ledger.gaps.entries_skipped),
        ("pulsar_storage_backlog_age_seconds", -1 if oldest_ms is None else (now_ms() - oldest_ms) // 1000),
    )


def backlog_age_metrics(topic: BaseTopic, subscription: BaseSubscription) -> Samples:
    """Returns the age of the subscription's oldest unacknowledged message, as the last check of the backlog quotas has
    found it (PIP-492): -1 when everything was acknowledged then. The result is empty unless that is configured."""
    if not topic.settings.expose_subscription_backlog_age_in_prometheus or not isinstance(topic, Topic):
        return ()
    assert isinstance(subscription, Subscription)
    oldest_ms = topic.backlog_ages.known_ms(subscription)
    age_seconds = -1 if oldest_ms is None else (now_ms() - oldest_ms) // 1000
    return (("pulsar_subscription_storage_backlog_age_seconds", age_seconds),)


def _of_persistent_subscription(subscription: Subscription) -> Samples:
    backlog, expired = subscription.cursor.backlog, subscription.expired
    delayed = subscription.delayed_messages
    return (
        ("pulsar_subscription_back_log", backlog),
        ("pulsar_subscription_back_log_no_delayed", backlog - delayed),
        ("pulsar_subscription_delayed", delayed),
        ("pulsar_subscription_unacked_messages", subscription.unacked_messages),
        ("pulsar_subscription_blocked_on_unacked_messages", int(subscription.is_blocked)),
        ("pulsar_subscription_in_replay", subscription.messages_in_replay),
        ("pulsar_subscription_msg_rate_expired", expired.rate.value),
        ("pulsar_subscription_total_msg_expired", expired.entries),
        ("pulsar_subscription_last_expire_timestamp", expired.last_ms),
    )
