"""Enforces publish rates: the broker stops reading a connection that publishes too fast, until the rate allows more
messages. No message is refused or lost.

Each topic whose policy sets a publish rate has a limiter, and the broker has a limiter for all topics together. A
limiter throttles connections, not producers: a connection is one stream of commands, so all other producers and
consumers of that connection wait too, as with Apache's broker.

Sources: PublishRateLimiterImpl, Producer.incrementThrottleCount.
"""

import asyncio

from magnetar.server.policies.policy_values import PublishRate
from magnetar.server.topics.client_connection import ClientConnection
from magnetar.server.topics.token_bucket import TokenBucket


class PublishLimiter:
    """Limits publishers to `rate`, which must limit messages or bytes."""

    def __init__(self, rate: PublishRate) -> None:
        self.rate = rate
        self.times = 0
        """How often a connection was throttled."""
        self._loop = loop = asyncio.get_running_loop()
        now_s = loop.time()
        self._messages = TokenBucket(rate.messages, now_s) if rate.messages > 0 else None
        self._bytes = TokenBucket(rate.bytes, now_s) if rate.bytes > 0 else None
        self._waiting: set[ClientConnection] = set()
        self._timer: asyncio.TimerHandle | None = None

    def wait_seconds(self) -> float:
        """Returns how many seconds a publisher should wait before it publishes, or 0 while the rate is not exceeded.
        Only publishing over HTTP uses this method, because the limiter cannot stop the broker from reading an HTTP
        connection."""
        return self._wait_seconds(self._loop.time())

    @property
    def throttled(self) -> tuple[ClientConnection, ...]:
        """The connections that are not read until the rate allows more messages."""
        return tuple(self._waiting)

    def took(self, cnx: ClientConnection, messages: int, size_bytes: int) -> None:
        """Called after messages were published over `cnx`. Stops reading the connection when the rate is exceeded."""
        now_s = self._loop.time()
        if self._messages is not None:
            self._messages.take(messages, now_s)
        if self._bytes is not None:
            self._bytes.take(size_bytes, now_s)
        wait_s = self._wait_seconds(now_s)
        if wait_s <= 0 or cnx in self._waiting:
            return
        self.times += 1
        self._waiting.add(cnx)
        cnx.throttle_reading(self)
        if self._timer is None:
            self._timer = self._loop.call_later(wait_s, self._go_on)

    def _wait_seconds(self, now_s: float) -> float:
        return max(
            (each.wait_seconds(now_s) for each in (self._messages, self._bytes) if each is not None), default=0.0
        )

    def _go_on(self) -> None:
        self._timer = None
        wait_s = self._wait_seconds(self._loop.time())
        if wait_s > 0:
            self._timer = self._loop.call_later(wait_s, self._go_on)
        else:
            self._release()

    def _release(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for cnx in waiting:
            cnx.release_reading(self)

    def close(self) -> None:
        """Ends the limit: the broker reads every throttled connection again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._release()
