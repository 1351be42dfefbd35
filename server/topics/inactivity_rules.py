"""Decides when an unused topic or an unused subscription is deleted. Does no I/O.

Sources: AbstractTopic.isActive, PersistentTopic.checkGC, shouldTopicBeRetained, checkInactiveSubscriptions.
"""

from typing import NamedTuple

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import InactiveTopicDeleteMode


class TopicUse(NamedTuple):
    """How a topic is used at one moment."""

    producers: int
    consumers: int
    subscriptions: int
    backlog: int
    """How many entries are not acknowledged, over all durable subscriptions."""


def is_active(use: TopicUse, mode: InactiveTopicDeleteMode) -> bool:
    """Whether the topic counts as used. A topic with connected clients always counts as used. For a topic without
    clients, `mode` says whether any subscription keeps the topic in use, or only a subscription with a backlog."""
    if use.producers or use.consumers:
        return True
    if mode is InactiveTopicDeleteMode.DELETE_WHEN_NO_SUBSCRIPTIONS:
        return use.subscriptions > 0
    return use.backlog > 0


def is_due(policies: EffectivePolicies, inactive_seconds: float) -> bool:
    """Whether a topic that has been inactive for `inactive_seconds` is to be deleted."""
    rule = policies.inactive_topic_policies
    if not rule.delete_while_inactive or inactive_seconds < rule.max_inactive_duration_seconds:
        return False
    return not _is_retained(policies, inactive_seconds)


def _is_retained(policies: EffectivePolicies, inactive_seconds: float) -> bool:
    minutes = policies.retention_time_in_minutes
    if minutes < 0:
        return True
    if minutes == 0 or policies.retention_size_in_mb == 0:
        return False
    return inactive_seconds < minutes * 60


def subscription_is_due(expiration_minutes: int, inactive_ms: int) -> bool:
    """Whether a subscription that had no consumers for `inactive_ms` is to be deleted."""
    return 0 < expiration_minutes * 60_000 < inactive_ms
