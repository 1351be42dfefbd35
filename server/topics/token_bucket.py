"""A rate limit in the form of a bucket of tokens, which fills as time passes. Does no I/O.

A caller may take more tokens than the bucket holds. The number of tokens then becomes negative, and the caller asks the
bucket how long to wait. In this way one large message passes at once, and later messages wait until the bucket has
recovered. Source: AsyncTokenBucket."""

BURST_SECONDS = 1.0
"""The capacity of a bucket, in seconds: a full bucket holds as many tokens as flow in during this time."""


class TokenBucket:
    """The bucket of one rate limit. Times are seconds of any clock that does not go back."""

    __slots__ = ("_capacity", "_filled_s", "_per_second", "_tokens")

    def __init__(self, per_second: float, now_s: float) -> None:
        """A new bucket is full. `per_second` is positive."""
        self._per_second = per_second
        self._capacity = per_second * BURST_SECONDS
        self._tokens = self._capacity
        self._filled_s = now_s

    def take(self, count: float, now_s: float) -> None:
        self._fill(now_s)
        self._tokens -= count

    def wait_seconds(self, now_s: float) -> float:
        """Returns how many seconds pass until the number of tokens is no longer negative, or 0 when it is not negative
        now."""
        self._fill(now_s)
        return max(0.0, -self._tokens / self._per_second)

    def tokens(self, now_s: float) -> float:
        """Returns how many tokens the bucket holds. The number is negative after callers took more tokens than the
        bucket held."""
        self._fill(now_s)
        return self._tokens

    def set_rate(self, per_second: float, now_s: float) -> None:
        """Sets the rate from now on; `per_second` is positive."""
        self._fill(now_s)
        self._per_second = per_second
        self._capacity = per_second * BURST_SECONDS

    def _fill(self, now_s: float) -> None:
        if now_s > self._filled_s:
            self._tokens = min(self._capacity, self._tokens + (now_s - self._filled_s) * self._per_second)
            self._filled_s = now_s
