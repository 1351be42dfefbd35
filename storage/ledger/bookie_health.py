"""Decides which bookies a client should avoid: those that failed often lately, or just now. No I/O, no clock.

Source: BookieWatcherImpl.quarantineBookie and the client's health check. The defaults are those of a Pulsar broker
(bookkeeperClientHealthCheckEnabled and the keys beside it). Times are seconds of a monotonic clock.
"""

from collections import deque


class BookieHealth:
    """Counts the failures of each bookie."""

    def __init__(
        self,
        *,
        errors_max: int = 5,
        interval_sec: float = 60.0,
        quarantine_sec: float = 1800.0,
        recent_sec: float = 60.0,
    ) -> None:
        """A bookie with `errors_max` failures within `interval_sec` is quarantined; with 0 no bookie ever is. For
        `recent_sec` after a failure a bookie counts as failed lately."""
        self._errors_max = errors_max
        self._interval_sec = interval_sec
        self._quarantine_sec = quarantine_sec
        self._recent_sec = recent_sec
        self._failures: dict[str, deque[float]] = {}
        self._until: dict[str, float] = {}

    def failed(self, bookie_id: str, now: float) -> bool:
        """Notes that an add or read of this bookie failed or timed out. Returns True when this put the bookie into
        quarantine."""
        failures = self._failures.setdefault(bookie_id, deque(maxlen=max(1, self._errors_max)))
        failures.append(now)
        if not self._errors_max or len(failures) < self._errors_max or now - failures[0] > self._interval_sec:
            return False
        is_new = bookie_id not in self._until
        self._until[bookie_id] = now + self._quarantine_sec
        return is_new

    def failed_lately(self, bookie_id: str, now: float) -> bool:
        failures = self._failures.get(bookie_id)
        return failures is not None and now - failures[-1] <= self._recent_sec

    def quarantined(self, now: float) -> frozenset[str]:
        """Returns the bookies that should get no new ledgers as long as other bookies are available."""
        if not self._until:
            return frozenset()
        for bookie_id in [name for name, until in self._until.items() if until <= now]:
            del self._until[bookie_id]
            self._failures.pop(bookie_id, None)
        return frozenset(self._until)
