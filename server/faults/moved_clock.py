"""The time of day of this process, which a test moves: for TTL, delays, retention and tokens.

The whole server reads the time of day by `time.time` and `time.time_ns`, so these two are replaced. Intervals are
measured by the monotonic clock, which does not move.
"""

import time

AHEAD_MS_MAX = 100 * 365 * 86_400_000
"""The farthest move, a hundred years."""


class MovedClock:
    """The clock. `install` is called once, before modules that keep a reference to the functions are imported, and
    `remove` at the end."""

    def __init__(self) -> None:
        self._ahead_ns = 0
        self._time, self._time_ns = time.time, time.time_ns

    def install(self) -> None:
        time.time = self.time
        time.time_ns = self.time_ns

    def remove(self) -> None:
        time.time, time.time_ns = self._time, self._time_ns

    def move(self, ahead_ms: int) -> None:
        """Sets the time of day this far ahead of the real one; a negative number sets it back. Raises ValueError
        beyond AHEAD_MS_MAX."""
        if abs(ahead_ms) > AHEAD_MS_MAX:
            raise ValueError(f"aheadMs must be from {-AHEAD_MS_MAX} to {AHEAD_MS_MAX}: {ahead_ms}")
        self._ahead_ns = ahead_ms * 1_000_000

    def time(self) -> float:
        return self._time() + self._ahead_ns / 1e9

    def time_ns(self) -> int:
        return self._time_ns() + self._ahead_ns
