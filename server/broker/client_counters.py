"""The counters of a broker's client connections for /metrics and the admin API. Only the client port changes the
counters."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class ClientCounters:
    """Counts the client connections since the start of the process. Each connection is counted in `created` when the
    connection is accepted, even if the broker then refuses the client, and in `closed` when the connection ends."""

    created: int = 0
    refused: int = 0
    closed: int = 0
    uses: int = 0
    """How many commands and groups of SENDs came from clients. PING and PONG do not count, which clients send while
    nobody uses them."""

    unanswered_publish_bytes: Callable[[], int] = lambda: 0
    """A function that returns how many bytes of SENDs have no receipt yet. The function visits all connections. The
    client port sets this field."""

    unsent_bytes: Callable[[], int] = lambda: 0
    """A function that returns how many bytes the clients have not taken yet. It visits all connections. The client port
    sets this field."""
    throttled: Callable[[], int] = lambda: 0
    """A function that returns how many connections the broker does not read now, because their clients send too fast.
    It visits all connections. The client port sets this field."""

    @property
    def active(self) -> int:
        """The number of connections that are open now."""
        return self.created - self.closed

    @property
    def accepted(self) -> int:
        return self.created - self.refused
