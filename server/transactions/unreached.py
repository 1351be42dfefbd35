"""Tells in the log which topics and subscriptions cannot be told the ends of transactions.

When a broker dies, the ends of hundreds of transactions may fail at the same few topics, again and again. The log gets
one line for each topic or subscription, with the number of transactions, and the longer it lasts the fewer lines.
"""

import asyncio
import logging

from pulsar_proto.ids import TxnId

log = logging.getLogger(__name__)

LINE_SECONDS_MIN, LINE_SECONDS_MAX = 1.0, 60.0
"""How long failures are collected before they are told: at first, and at most. The time doubles after each telling."""
LINES_AT_ONCE = 20
"""How many topics and subscriptions are named at a time; the others are only counted."""


class Unreached:
    """The failures since the last lines. Every method is called on the event loop's thread."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[set[TxnId], Exception]] = {}
        """Topic or subscription -> the transactions that could not be ended there, and one of the errors."""
        self._timer: asyncio.TimerHandle | None = None
        self._seconds = LINE_SECONDS_MIN

    def failed(self, where: str, txn_id: TxnId, error: Exception) -> None:
        """Notes that a topic or subscription did not confirm the end of a transaction."""
        self._failures.setdefault(where, (set(), error))[0].add(txn_id)
        if self._timer is None:
            self._set_timer()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._tell)

    def _tell(self) -> None:
        failures, self._failures = self._failures, {}
        if not failures:
            self._timer, self._seconds = None, LINE_SECONDS_MIN
            log.info("the ends of transactions reach all topics and subscriptions again")
            return
        for where, (transactions, error) in list(failures.items())[:LINES_AT_ONCE]:
            log.warning("%s: %d transactions could not end there yet, tried again: %s", where, len(transactions), error)
        if len(failures) > LINES_AT_ONCE:
            log.warning("the same holds for %d other topics and subscriptions", len(failures) - LINES_AT_ONCE)
        self._seconds = min(2 * self._seconds, LINE_SECONDS_MAX)
        self._set_timer()
