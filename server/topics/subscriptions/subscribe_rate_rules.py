"""How often one consumer may subscribe in a period: a consumer that is refused again and again must not keep the broker
busy with coming back. Rules only.

Source: SubscribeRateLimiter.subscribeAvailable, ConsumerIdentifier; facts 5.1.
"""

from typing import NamedTuple

from magnetar.server.policies.policy_values import SubscribeRate

CONSUMERS_MAX = 10_000
"""Consumers that are remembered; beyond it, those whose period is over are forgotten, and then all."""

CONSUMER_NAME_MAX = 256
"""Characters of its name that tell a consumer from others."""


class ConsumerIdentity(NamedTuple):
    """What a client keeps while it tries again."""

    host: str
    name: str
    consumer_id: int


class SubscribeLimiter:
    """Times are seconds of any clock that does not go back."""

    __slots__ = ("_periods", "rate")

    def __init__(self, rate: SubscribeRate) -> None:
        """`rate.subscribes` is positive."""
        self.rate = rate
        self._periods: dict[ConsumerIdentity, tuple[float, int]] = {}  # (its end, subscribes in it)

    def admit(self, consumer: ConsumerIdentity, now_s: float) -> bool:
        """Whether it may subscribe now; that counts."""
        end_s, count = self._periods.get(consumer, (0.0, 0))
        if now_s >= end_s:
            if len(self._periods) >= CONSUMERS_MAX:
                self._periods = {each: period for each, period in self._periods.items() if period[0] > now_s}
                if len(self._periods) >= CONSUMERS_MAX:
                    self._periods.clear()
            end_s, count = now_s + self.rate.period_seconds, 0
        self._periods[consumer] = (end_s, count + 1)
        return count < self.rate.subscribes
