"""Decides how fast messages may be sent, by a rate of messages and a rate of bytes, for a topic or a subscription.

A dispatcher asks how many messages it may send now, reads no more than that, and reports the messages that it sent. A
batch or a large message may exceed the rate; the dispatcher then waits until the average is within the rate again.

Does no I/O. Sources: DispatchRateLimiter, AbstractBaseDispatcher.acquirePermitsForDeliveredMessages.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from magnetar.server.topics.token_bucket import TokenBucket


class PerSecond(NamedTuple):
    """A rate of messages and a rate of bytes, per second; 0 or less means unlimited."""

    messages: float
    bytes: float


class Balance(NamedTuple):
    """What a throttle allows at one moment. A rate of 0 stands for no limit; the balance of that rate is 0 then."""

    rate: PerSecond
    messages: float
    """How many messages may be sent now; negative after more messages were sent than the rate allowed."""
    bytes: float
    """How many bytes may be sent now, likewise."""
    wait_seconds: float
    """In how many seconds a message may be sent; 0 when one may be sent now."""


class Throttle:
    """Limits how fast the messages of one topic or subscription are sent. Times are seconds of any clock that does not
    go back."""

    __slots__ = ("_bytes", "_messages", "_more", "_rate", "is_of_topic")

    def __init__(
        self,
        rate: PerSecond,
        now_s: float,
        more: Callable[[], PerSecond] | None = None,
        *,
        is_of_topic: bool = False,
    ) -> None:
        """A new throttle allows as many messages as after a second of silence. `messages_now` adds the result of
        `more()` to `rate`; for a limit that is relative to the publish rate, `more()` returns the publish rate."""
        self._rate = rate
        self.is_of_topic = is_of_topic
        """Whether all subscriptions of the topic share this throttle."""
        self._more = more
        self._messages = TokenBucket(rate.messages, now_s) if rate.messages > 0 else None
        self._bytes = TokenBucket(rate.bytes, now_s) if rate.bytes > 0 else None

    def messages_now(self, now_s: float) -> float:
        """Returns how many messages may be sent: 0 for none, infinity without a limit for messages."""
        if self._more is not None:
            more = self._more()
            if self._messages is not None:
                self._messages.set_rate(self._rate.messages + more.messages, now_s)
            if self._bytes is not None:
                self._bytes.set_rate(self._rate.bytes + more.bytes, now_s)
        if self._bytes is not None and self._bytes.tokens(now_s) <= 0:
            return 0.0
        return float("inf") if self._messages is None else max(0.0, self._messages.tokens(now_s))

    def balance(self, now_s: float) -> Balance:
        """Returns the rate and what it allows now, for people who ask why nothing is sent."""
        self.messages_now(now_s)
        messages, size = self._messages, self._bytes
        return Balance(
            PerSecond(0.0 if messages is None else messages.per_second, 0.0 if size is None else size.per_second),
            0.0 if messages is None else messages.tokens(now_s),
            0.0 if size is None else size.tokens(now_s),
            self.wait_seconds(now_s),
        )

    def sent(self, messages: int, size_bytes: int, now_s: float) -> None:
        """Takes the sent messages and bytes from the buckets."""
        if self._messages is not None:
            self._messages.take(messages, now_s)
        if self._bytes is not None:
            self._bytes.take(size_bytes, now_s)

    def wait_seconds(self, now_s: float) -> float:
        """Returns how many seconds pass until a message may be sent, or 0 when a message may be sent now."""
        buckets = (self._messages, self._bytes)
        return max((each.wait_seconds(now_s) for each in buckets if each is not None), default=0.0)


def exhausted_rates(throttles: Iterable[Throttle], now_s: float) -> Iterator[tuple[str, str]]:
    """Yields what keeps messages back now: "msg" or "bytes", and whose rate it is, "topic" or "subscription"."""
    for throttle in throttles:
        balance = throttle.balance(now_s)
        owner = "topic" if throttle.is_of_topic else "subscription"
        if balance.rate.messages and balance.messages <= 0:
            yield "msg", owner
        if balance.rate.bytes and balance.bytes <= 0:
            yield "bytes", owner
