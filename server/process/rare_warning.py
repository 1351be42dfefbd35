"""Warnings about events that may happen thousands of times a second: the log gets at most one warning per interval."""

import time
from collections.abc import Callable


class RareWarning:
    """Says when the next warning is due."""

    __slots__ = ("_interval_s", "_last_s", "_now")

    def __init__(self, interval_s: float, now: Callable[[], float] = time.monotonic) -> None:
        """`now` returns seconds of a monotonic clock."""
        self._interval_s = interval_s
        self._now = now
        self._last_s = float("-inf")

    def is_due(self) -> bool:
        """Returns True at the first call, and again at each call that comes at least an interval after the last
        True."""
        now_s = self._now()
        if now_s - self._last_s < self._interval_s:
            return False
        self._last_s = now_s
        return True
