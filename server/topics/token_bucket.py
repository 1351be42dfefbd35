"""A rate as a bucket of tokens that fills by the clock. Rules only.

What is taken may make it negative: who takes looks afterwards how long it must wait. So one large message passes, and
is paid for by the time after it (AsyncTokenBucket).
"""

BURST_SECONDS = 1.0
"""A full bucket holds what comes in so long."""


class TokenBucket:
    """Times are seconds of any clock that does not go back."""

    __slots__ = ("_capacity", "_filled_s", "_per_second", "_tokens")

    def __init__(self, per_second: float, now_s: float) -> None:
        """`per_second` is positive. Full at first."""
        self._per_second = per_second
        self._capacity = per_second * BURST_SECONDS
        self._tokens = self._capacity
        self._filled_s = now_s

    def take(self, count: float, now_s: float) -> None:
        self._fill(now_s)
        self._tokens -= count

    def wait_seconds(self, now_s: float) -> float:
        """How long until there is something in it: 0 when there is."""
        self._fill(now_s)
        return max(0.0, -self._tokens / self._per_second)

    def tokens(self, now_s: float) -> float:
        """What is in it; below zero when more was taken."""
        self._fill(now_s)
        return self._tokens

    def set_rate(self, per_second: float, now_s: float) -> None:
        """From now on; positive."""
        self._fill(now_s)
        self._per_second = per_second
        self._capacity = per_second * BURST_SECONDS

    def _fill(self, now_s: float) -> None:
        if now_s > self._filled_s:
            self._tokens = min(self._capacity, self._tokens + (now_s - self._filled_s) * self._per_second)
            self._filled_s = now_s
