"""The pure rules about quotas and about topics and subscriptions that nobody uses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import (
    BacklogAction,
    BacklogQuota,
    BacklogQuotas,
    InactiveTopicDeleteMode,
    InactiveTopicPolicies,
)
from magnetar.server.topics.inactivity_rules import TopicUse, is_active, is_due, subscription_is_due
from magnetar.server.topics.publishing.backlog_quota_rules import KEPT_SHARE, BacklogQuotaType, entries_to_cut, excesses

NO_SUBSCRIPTIONS = InactiveTopicDeleteMode.DELETE_WHEN_NO_SUBSCRIPTIONS
CAUGHT_UP = InactiveTopicDeleteMode.DELETE_WHEN_SUBSCRIPTIONS_CAUGHT_UP


@given(st.lists(st.integers(1, 100), max_size=40), st.integers(0, 4_000))
def test_a_cut_leaves_nine_tenths_of_the_limit_and_takes_no_entry_too_many(sizes: list[int], limit: int) -> None:
    def bytes_behind(count: int) -> int:
        return sum(sizes[count:])

    cut = entries_to_cut(len(sizes), limit, bytes_behind)
    target = int(limit * KEPT_SHARE)
    assert bytes_behind(cut) <= target
    assert cut == 0 or bytes_behind(cut - 1) > target


def test_a_quota_is_exceeded_at_its_size_and_beyond_its_age() -> None:
    hold, evict = BacklogAction.PRODUCER_REQUEST_HOLD, BacklogAction.CONSUMER_BACKLOG_EVICTION
    quotas = BacklogQuotas(BacklogQuota(100, hold), BacklogQuota(10, evict))
    assert excesses(quotas, 99, 10) == []
    assert [(each.kind, each.stops_producers) for each in excesses(quotas, 100, 10.5)] == [
        (BacklogQuotaType.SIZE, True),
        (BacklogQuotaType.AGE, False),
    ]
    assert excesses(BacklogQuotas(BacklogQuota(), BacklogQuota()), 10**12, 10**9) == []
    assert excesses(BacklogQuotas(BacklogQuota(), BacklogQuota(0, hold)), 10**12, 10**9) == []


@pytest.mark.parametrize(
    ("use", "mode", "expected"),
    [
        (TopicUse(0, 0, 0, 0), NO_SUBSCRIPTIONS, False),
        (TopicUse(1, 0, 0, 0), NO_SUBSCRIPTIONS, True),
        (TopicUse(0, 0, 1, 0), NO_SUBSCRIPTIONS, True),
        (TopicUse(0, 0, 1, 0), CAUGHT_UP, False),
        (TopicUse(0, 0, 1, 3), CAUGHT_UP, True),
        (TopicUse(0, 1, 1, 0), CAUGHT_UP, True),
        (TopicUse(1, 0, 0, 0), CAUGHT_UP, True),
    ],
)
def test_what_counts_as_use_depends_on_the_mode(use: TopicUse, mode: InactiveTopicDeleteMode, expected: bool) -> None:
    assert is_active(use, mode) is expected


def test_an_inactive_topic_stays_for_its_time_and_its_retention() -> None:
    policies = EffectivePolicies(inactive_topic_policies=InactiveTopicPolicies(True, 60))
    assert not is_due(policies, 59)
    assert is_due(policies, 60)
    assert not is_due(replace(policies, inactive_topic_policies=InactiveTopicPolicies(False, 60)), 10**9)
    kept = replace(policies, retention_time_in_minutes=10, retention_size_in_mb=-1)
    assert not is_due(kept, 599)
    assert is_due(kept, 600)
    assert not is_due(replace(policies, retention_time_in_minutes=-1, retention_size_in_mb=-1), 10**9)


def test_a_subscription_expires_only_where_that_is_asked_for() -> None:
    assert not subscription_is_due(0, 10**12)
    assert not subscription_is_due(5, 300_000)
    assert subscription_is_due(5, 300_001)
