"""How often something may be done."""


class RateLimit:
    """One permit per period, without saving any up. A rate of 0 is no limit."""

    __slots__ = ("_next_ms", "_period_ms")

    def __init__(self, per_second: float) -> None:
        self._period_ms = 1000 / per_second if per_second > 0 else 0.0
        self._next_ms = 0.0

    def take(self, now_ms: int) -> bool:
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._period_ms
        return True

    def rest(self, until_ms: float) -> None:
        """No permit before."""
        self._next_ms = max(self._next_ms, until_ms)
