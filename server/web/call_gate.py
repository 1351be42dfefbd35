"""Bounds how many calls are in progress at once. Urgent calls (lookups and health checks) have a bound of their own, so
that other calls never keep a client from its topic or a supervisor from the answer to a health check."""

from collections.abc import Iterator
from contextlib import contextmanager

from magnetar.server.broker.http_calls import HttpCalls
from magnetar.server.web.calls import Refusal

RETRY_AFTER_SECONDS = "1"


class CallGate:
    """Limits the calls in progress to `calls_max` urgent calls and `calls_max` other calls
    (maxConcurrentHttpRequests), and counts all of them."""

    def __init__(self, calls_max: int, counters: HttpCalls) -> None:
        self._calls_max = counters.calls_max = calls_max
        self._counters = counters
        self._in_progress = {True: 0, False: 0}

    @contextmanager
    def entered(self, *, is_urgent: bool) -> Iterator[None]:
        """Counts a call while it is in progress. Raises Refusal 503 when there are too many, without waiting."""
        if self._in_progress[is_urgent] >= self._calls_max:
            reason = f"There are {self._calls_max} calls in progress (maxConcurrentHttpRequests): try again"
            raise Refusal(503, reason, headers={"Retry-After": RETRY_AFTER_SECONDS})
        self._in_progress[is_urgent] += 1
        self._counters.in_progress += 1
        self._counters.began += 1
        try:
            yield
        finally:
            self._counters.in_progress -= 1
            self._in_progress[is_urgent] -= 1
