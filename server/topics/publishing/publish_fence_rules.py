"""Whether a topic takes messages while its storage fails. Rules only.

    OPEN ──an append fails──▶ DRAINING ──nothing unanswered──▶ TRYING ──▶ OPEN
                                                               │   ▲
                                                               ▼   │ the hold is over
                                                              HOLDING

A failed append closes all producers. Their clients come back by themselves and send what was not answered again, so a
failure after which a new ledger can be opened is only a hiccup to them (facts 4.2). When none can be opened, or the
next append fails too, the storage is down, for instance because the disk is full: then producers are refused with an
error that their clients pass on to the application, for a time that grows, until opening a ledger works again.
"""

from enum import Enum

HOLD_FIRST_SECONDS = 0.5
HOLD_MAX_SECONDS = 8.0


class FenceState(Enum):
    OPEN = "open"
    DRAINING = "draining"
    TRYING = "trying"
    """Somebody must find out whether the storage works, and say `tried`."""
    HOLDING = "holding"


class PublishFence:
    """The topic's shell does what the states ask for, and reports."""

    __slots__ = ("_failures", "_tries", "reason", "state")

    def __init__(self) -> None:
        self.state = FenceState.OPEN
        self.reason = ""
        """What the last failure said."""
        self._failures = 0
        """Appends that failed since one was confirmed, one for each time that all producers were closed."""
        self._tries = 0

    @property
    def is_storage_down(self) -> bool:
        """True: applications should hear of it. False: the next try may well work."""
        return self.state is not FenceState.OPEN and (self._failures > 1 or self._tries > 0)

    @property
    def hold_seconds(self) -> float:
        """How long to stay in HOLDING."""
        doublings = min(max(self._failures - 2, 0) + max(self._tries - 1, 0), 16)
        return min(HOLD_FIRST_SECONDS * (1 << doublings), HOLD_MAX_SECONDS)

    def succeeded(self) -> None:
        """An append was confirmed. One that was on its way when another failed proves nothing."""
        if self.state is FenceState.OPEN:
            self._failures = 0

    def failed(self, reason: str) -> bool:
        """An append failed. True when the producers must be closed: for the first of those that were on their way."""
        self.reason = reason
        if self.state is not FenceState.OPEN:
            return False
        self.state = FenceState.DRAINING
        self._failures += 1
        return True

    def drained(self) -> None:
        """No append is unanswered any more."""
        if self.state is FenceState.DRAINING:
            self.state = FenceState.HOLDING if self._failures > 1 else FenceState.TRYING

    def held(self) -> None:
        """The hold is over."""
        if self.state is FenceState.HOLDING:
            self.state = FenceState.TRYING

    def tried(self, failure: str | None) -> None:
        """A ledger could be opened, or could not for that reason."""
        if self.state is not FenceState.TRYING:
            return
        if failure is None:
            self.state = FenceState.OPEN
            self._tries = 0
        else:
            self.state = FenceState.HOLDING
            self.reason = failure
            self._tries += 1
