"""Decides how often one consumer may subscribe in a period. The limit keeps a consumer that is refused again and again
from making the broker busy. Does no I/O.

Sources: SubscribeRateLimiter.subscribeAvailable, ConsumerIdentifier.
"""

from typing import NamedTuple

from magnetar.server.policies.policy_values import SubscribeRate

CONSUMERS_MAX = 10_000
"""How many consumers are remembered. Beyond this number the consumers whose period is over are forgotten, and if still
too many are remembered, all consumers are forgotten."""

CONSUMER_NAME_MAX = 256
"""How many characters of a consumer's name identify the consumer."""


class ConsumerIdentity(NamedTuple):
    """The properties of a consumer that stay the same when its client subscribes again."""

    host: str
    name: str
    consumer_id: int


class SubscribeLimiter:
    """Counts the subscribes of each consumer on one topic. Times are seconds of any clock that does not go back."""

    __slots__ = ("_periods", "rate")

    def __init__(self, rate: SubscribeRate) -> None:
        """The caller makes sure that `rate.subscribes` is positive."""
        self.rate = rate
        self._periods: dict[ConsumerIdentity, tuple[float, int]] = {}  # (end of the period, subscribes in it)

    def admit(self, consumer: ConsumerIdentity, now_s: float) -> bool:
        """Counts an attempt to subscribe, and returns whether the consumer may subscribe now."""
        end_s, count = self._periods.get(consumer, (0.0, 0))
        if now_s >= end_s:
            if len(self._periods) >= CONSUMERS_MAX:
                self._periods = {each: period for each, period in self._periods.items() if period[0] > now_s}
                if len(self._periods) >= CONSUMERS_MAX:
                    self._periods.clear()
            end_s, count = now_s + self.rate.period_seconds, 0
        self._periods[consumer] = (end_s, count + 1)
        return count < self.rate.subscribes
