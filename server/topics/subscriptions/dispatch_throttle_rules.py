"""How fast messages may be sent: a rate of messages and one of bytes, of a topic or of a subscription.

Who sends asks how much may be sent now, reads no more, and says what it sent; a batch or a large message may exceed the
rate, and is paid for by the time after it.

Pure. Sources: DispatchRateLimiter, AbstractBaseDispatcher.acquirePermitsForDeliveredMessages; facts 7.
"""

from collections.abc import Callable
from typing import NamedTuple

from magnetar.server.topics.token_bucket import TokenBucket


class PerSecond(NamedTuple):
    """0 or less: unlimited."""

    messages: float
    bytes: float


class Throttle:
    """Times are seconds of any clock that does not go back."""

    __slots__ = ("_bytes", "_messages", "_more", "_rate")

    def __init__(self, rate: PerSecond, now_s: float, more: Callable[[], PerSecond] | None = None) -> None:
        """Everything is there at first, as after a second of silence. `more()` is what comes on top of the rate now."""
        self._rate = rate
        self._more = more
        self._messages = TokenBucket(rate.messages, now_s) if rate.messages > 0 else None
        self._bytes = TokenBucket(rate.bytes, now_s) if rate.bytes > 0 else None

    def messages_now(self, now_s: float) -> float:
        """How many messages may be sent: 0 for none, without a limit infinitely many."""
        if self._more is not None:
            more = self._more()
            if self._messages is not None:
                self._messages.set_rate(self._rate.messages + more.messages, now_s)
            if self._bytes is not None:
                self._bytes.set_rate(self._rate.bytes + more.bytes, now_s)
        if self._bytes is not None and self._bytes.tokens(now_s) <= 0:
            return 0.0
        return float("inf") if self._messages is None else max(0.0, self._messages.tokens(now_s))

    def sent(self, messages: int, size_bytes: int, now_s: float) -> None:
        if self._messages is not None:
            self._messages.take(messages, now_s)
        if self._bytes is not None:
            self._bytes.take(size_bytes, now_s)

    def wait_seconds(self, now_s: float) -> float:
        """How long until something may be sent; 0: now."""
        buckets = (self._messages, self._bytes)
        return max((each.wait_seconds(now_s) for each in buckets if each is not None), default=0.0)
