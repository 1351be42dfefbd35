"""Decides which bookies one client prefers: which one it asks first for an entry, and which ones it avoids when it
creates a ledger.

`bookie_health` counts the failures; this module adds the clock and the registrations of bookies.
"""

import logging
from collections.abc import Callable, Collection

from magnetar.storage.ledger.bookie_health import BookieHealth
from magnetar.storage.ledger.read_rules import ReplicaStanding

log = logging.getLogger(__name__)


class BookiePreference:
    """The knowledge of one client about its bookies. `writable()` and `read_only()` return the registered bookies;
    `clock` gives monotonic seconds."""

    def __init__(
        self,
        health: BookieHealth,
        clock: Callable[[], float],
        *,
        writable: Callable[[], Collection[str]],
        read_only: Callable[[], Collection[str]],
    ) -> None:
        self._health = health
        self._clock = clock
        self._writable = writable
        self._read_only = read_only

    def failed(self, bookie_id: str) -> bool:
        """Notes that an add or read of this bookie failed or was not answered. Returns whether this is the bookie's
        first failure after a while without one: a bookie that is away fails once for each of its ledgers, and only the
        first failure is worth a warning."""
        now = self._clock()
        is_first = not self._health.failed_lately(bookie_id, now)
        if self._health.failed(bookie_id, now):
            log.warning("bookie %s failed often: no new ledgers for it while there are others", bookie_id)
        return is_first

    def quarantined(self) -> frozenset[str]:
        """Returns the bookies that should get no new ledgers as long as other bookies are available."""
        return self._health.quarantined(self._clock())

    def standing(self, bookie_id: str) -> ReplicaStanding:
        """Returns how early a read should ask this bookie."""
        if self._health.failed_lately(bookie_id, self._clock()):
            registered = bookie_id in self._writable() or bookie_id in self._read_only()
            return ReplicaStanding.FAILED_LATELY if registered else ReplicaStanding.UNAVAILABLE
        if bookie_id in self._writable():
            return ReplicaStanding.AVAILABLE
        return ReplicaStanding.READ_ONLY if bookie_id in self._read_only() else ReplicaStanding.UNAVAILABLE


class _NoPreference(BookiePreference):
    """The preference of a reader without a client: every bookie is available."""

    def __init__(self) -> None:
        super().__init__(BookieHealth(errors_max=0), lambda: 0.0, writable=tuple, read_only=tuple)

    def failed(self, bookie_id: str) -> bool:
        """Ignores the failure."""
        return True

    def standing(self, bookie_id: str) -> ReplicaStanding:
        return ReplicaStanding.AVAILABLE


NO_PREFERENCE = _NoPreference()
