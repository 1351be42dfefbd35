"""The counters of a broker's HTTP calls for /metrics. Only the web port changes them."""

from dataclasses import dataclass


@dataclass(slots=True)
class HttpCalls:
    """Counts the HTTP calls since the web port began to serve."""

    calls_max: int = 0
    """How many calls may be in progress at once."""
    in_progress: int = 0
    began: int = 0
    """How many calls have begun."""
