"""Decides when the auditor looks for ledgers of lost bookies. No I/O and no clock: times are seconds of any steady
clock.

A bookie is lost when it was registered and is not registered any more. The audit is due at once when no recovery delay
is set or when more than one bookie is lost. Otherwise the audit is due after the delay, unless the bookie comes back
before. Source: Auditor.submitAuditTask and submitLostBookieRecoveryDelayChangedEvent of BookKeeper 4.17.
"""

from collections.abc import Collection, Iterable


class LostBookies:
    """Keeps the lost bookies (`lost`), and the time of the next audit (`due`; None when no audit is needed)."""

    __slots__ = ("_delay", "_known", "due", "lost")

    def __init__(self, known: Iterable[str], delay: float) -> None:
        """`known` holds the bookies that should be registered; `delay` is lostBookieRecoveryDelay in seconds."""
        self._known = set(known)
        self._delay = delay
        self.lost: set[str] = set()
        self.due: float | None = None

    def look(self, registered: Collection[str], now: float) -> None:
        """Notes which bookies are registered now, writable or read-only."""
        back = self.lost.intersection(registered)
        self.lost -= back
        if back and not self.lost:
            self.due = None
        self._known.update(registered)
        gone = self._known.difference(registered)
        self._known -= gone
        self.lost |= gone
        if not self.lost:
            return
        if self._delay == 0 or len(self.lost) > 1:
            self.due = now
        elif self.due is None:
            self.due = now + self._delay

    def delay_written(self, delay: float, now: float) -> None:
        """Notes that an operator wrote the recovery delay into its record. Writing the same value again, as the verb
        `triggeraudit` does, asks for an audit at once."""
        if delay in (0, self._delay):
            self.due = now
        elif self.due is not None:
            self.due = now + delay
        self._delay = delay

    def ask(self, now: float) -> None:
        """Asks for the periodic audit now. While the delay of a lost bookie is running, the audit waits for the end of
        the delay; otherwise it would mark that bookie's ledgers too early."""
        if self.due is None:
            self.due = now

    def audited(self) -> None:
        """Forgets the lost bookies and the due time, because an audit has begun, which looks at all bookies."""
        self.lost.clear()
        self.due = None
