"""The dispatch rates of a topic and of its subscriptions, from the policies `dispatchRate` and
`subscriptionDispatchRate`.
"""

import asyncio
from typing import Protocol

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import DispatchRate
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import PerSecond, Throttle


class LimitedTopic(Protocol):
    """`DispatchLimits` uses its topic through this interface."""

    @property
    def policies(self) -> EffectivePolicies: ...

    def published_per_second(self) -> PerSecond:
        """Returns the topic's present publish rate, for dispatch rates that are relative to the publish rate."""


class DispatchLimits:
    """The throttles, which enforce the dispatch rates, of one topic and of its subscriptions."""

    __slots__ = ("_throttles", "_topic")

    def __init__(self, topic: LimitedTopic) -> None:
        self._topic = topic
        self._throttles: dict[str | None, tuple[DispatchRate, Throttle]] = {}

    def __len__(self) -> int:
        return len(self._throttles)

    def of(self, subscription: str) -> tuple[Throttle, ...]:
        """Returns all throttles that hold for a subscription; most subscriptions have no throttle. The topic's throttle
        is shared by all of its subscriptions."""
        policies = self._topic.policies
        rates = ((None, policies.dispatch_rate), (subscription, policies.dispatch_rate_of(subscription)))
        return tuple(self._throttle(name, rate) for name, rate in rates if rate.is_limited)

    def forget(self, subscription: str) -> None:
        """Called when a subscription has ended: removes the subscription's throttle. Without this call readers would
        fill the table, because each reader's subscription has a new name."""
        self._throttles.pop(subscription, None)

    def _throttle(self, name: str | None, rate: DispatchRate) -> Throttle:
        known = self._throttles.get(name)
        if known is not None and known[0] == rate:
            return known[1]
        per_second = PerSecond(rate.messages / rate.period_seconds, rate.bytes / rate.period_seconds)
        more = self._topic.published_per_second if rate.relative_to_publish_rate else None
        throttle = Throttle(per_second, asyncio.get_running_loop().time(), more, is_of_topic=name is None)
        self._throttles[name] = rate, throttle
        return throttle
