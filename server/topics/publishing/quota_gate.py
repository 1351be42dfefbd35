"""Refuses producers of a topic that is over a backlog quota.

The size of the backlog is known at any time. The age of the oldest message has to be read from the log. So the periodic
job `check_quotas` (`server/upkeep`) computes the age, and the gate keeps the result.

Source: PersistentTopic.checkBacklogQuotaExceeded.
"""

from typing import Protocol

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import BacklogAction
from magnetar.server.topics.publish_times import OldestMessage
from magnetar.server.topics.publishing.backlog_quota_rules import Excess, excesses
from pulsar_proto.errors import QuotaExceeded, QuotaExceededHold

REFUSAL = "Cannot create producer on topic with backlog quota exceeded"


class TopicWithBacklog(Protocol):
    """The gate uses its topic through this interface."""

    @property
    def policies(self) -> EffectivePolicies: ...

    @property
    def backlog_size(self) -> int:
        """The estimated size of the slowest durable subscription's backlog, in bytes."""


class QuotaGate:
    """Refuses the producers of one topic while the topic is over a backlog quota."""

    __slots__ = ("_topic", "evictions", "excess", "oldest")

    def __init__(self, topic: TopicWithBacklog, oldest: OldestMessage) -> None:
        self._topic = topic
        self.oldest = oldest
        self.evictions: dict[str, int] = {}
        """How often backlog was evicted for the quota by "size" or by "time"; a kind that never was is not there."""
        self.excess: Excess | None = None
        """The age quota, if the last periodic check found the topic over this quota and the quota stops producers;
        otherwise None."""

    async def oldest_age_seconds(self, time_ms: int) -> float:
        """Returns the age of the oldest message that some durable subscription has not acknowledged, or 0 when all
        messages are acknowledged. Raises ManagedLedgerError when the log cannot be read."""
        published_ms = await self.oldest.published_ms()
        return 0.0 if published_ms is None else (time_ms - published_ms) / 1000

    def exceeded(self) -> list[Excess]:
        """Returns the quotas that the topic exceeds: that of the size now, that of the age at the last periodic check
        if it stops producers."""
        quotas = self._topic.policies.backlog_quotas
        if quotas.destination_storage.limit < 0 and self.excess is None:
            return []
        size = self._topic.backlog_size
        found = excesses(quotas, size, 0)
        if self.excess is not None and size:
            found.append(self.excess)
        return found

    def check(self) -> None:
        """Called before a producer is created. Raises QuotaExceededHold or QuotaExceeded when the topic is over a quota
        that stops producers."""
        found = [each for each in self.exceeded() if each.stops_producers]
        if found:
            hold = found[0].action is BacklogAction.PRODUCER_REQUEST_HOLD
            raise (QuotaExceededHold if hold else QuotaExceeded)(REFUSAL)
