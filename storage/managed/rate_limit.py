"""A limit for how often something may be done."""


class RateLimit:
    """Gives one permit per period; unused permits are lost. A rate of 0 means no limit. Times are seconds of a
    monotonic clock."""

    __slots__ = ("_next_s", "_period_s")

    def __init__(self, per_second: float) -> None:
        self._period_s = 1 / per_second if per_second > 0 else 0.0
        self._next_s = 0.0

    def take(self, now_s: float) -> bool:
        """Takes a permit if there is one, and says whether there was."""
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._period_s
        return True

    def rest(self, until_s: float) -> None:
        """Gives no permit before `until_s`."""
        self._next_s = max(self._next_s, until_s)
