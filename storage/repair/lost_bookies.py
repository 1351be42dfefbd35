"""When to audit because bookies are lost. No I/O, no clock: times are seconds of any steady clock, handed in.

A bookie is lost when it was registered and is not any more. Its ledgers are audited at once when no recovery delay is
set or more than one bookie is lost, else after the delay, unless it comes back. Source: Auditor.submitAuditTask and
submitLostBookieRecoveryDelayChangedEvent of BookKeeper 4.17 (facts 7).
"""

from collections.abc import Collection, Iterable


class LostBookies:
    """`due` is when to audit next, None when nothing asks for it; `lost` are the bookies that ask."""

    __slots__ = ("_delay", "_known", "due", "lost")

    def __init__(self, known: Iterable[str], delay: float) -> None:
        """`known`: all bookies that should be there; `delay`: lostBookieRecoveryDelay, seconds."""
        self._known = set(known)
        self._delay = delay
        self.lost: set[str] = set()
        self.due: float | None = None

    def look(self, registered: Collection[str], now: float) -> None:
        """These bookies are registered now, writable or read-only."""
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
        """Somebody wrote the recovery delay. Writing the value that it has asks for an audit at once."""
        if delay in (0, self._delay):
            self.due = now
        elif self.due is not None:
            self.due = now + delay
        self._delay = delay

    def ask(self, now: float) -> None:
        """The periodic check. A lost bookie's delay goes on: this check would cut it short."""
        if self.due is None:
            self.due = now

    def audited(self) -> None:
        """The audit that was due has begun; it looks at all bookies."""
        self.lost.clear()
        self.due = None
