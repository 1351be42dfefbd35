"""The dispatch rates of a topic and of its subscriptions, from the policies `dispatchRate` and
`subscriptionDispatchRate`.
"""

import asyncio
from collections.abc import Callable

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.policies.policy_values import DispatchRate
from magnetar.server.topics.subscriptions.dispatch_throttle_rules import PerSecond, Throttle


class DispatchLimits:
    """The throttles, which enforce the dispatch rates, of one topic and of its subscriptions."""

    __slots__ = ("_policies", "_published", "_throttles")

    def __init__(self, policies: EffectivePolicies, published: Callable[[], PerSecond]) -> None:
        """`published()` returns the topic's present publish rate, for dispatch rates that are relative to the publish
        rate."""
        self._policies = policies
        self._published = published
        self._throttles: dict[str | None, tuple[DispatchRate, Throttle]] = {}

    def __len__(self) -> int:
        return len(self._throttles)

    def follow(self, policies: EffectivePolicies) -> None:
        """Applies the policies that hold from now on."""
        self._policies = policies

    def of(self, subscription: str) -> tuple[Throttle, ...]:
        """Returns all throttles that hold for a subscription; most subscriptions have no throttle. The topic's throttle
        is shared by all of its subscriptions."""
        policies = self._policies
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
        more = self._published if rate.relative_to_publish_rate else None
        of = "topic" if name is None else "subscription"
        throttle = Throttle(per_second, asyncio.get_running_loop().time(), more, of=of)
        self._throttles[name] = rate, throttle
        return throttle
