"""The counters of a broker's client connections for /metrics and the admin API. The client port counts; all others only
read."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class ClientCounters:
    """Connections since the start of the process. Each connection is counted in `created` when it is accepted, even if
    it is then refused, and in `closed` when it ends."""

    created: int = 0
    refused: int = 0
    closed: int = 0
    unanswered_publish_bytes: Callable[[], int] = lambda: 0
    """Counts the bytes of SENDs that have no receipt yet, in a walk over all connections. The client port sets it."""

    @property
    def active(self) -> int:
        """Connections that are open now."""
        return self.created - self.closed

    @property
    def accepted(self) -> int:
        return self.created - self.refused
