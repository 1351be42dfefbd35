"""Decides whether a topic takes messages while its storage fails.

    OPEN ──an append fails──▶ DRAINING ──nothing unanswered──▶ TRYING ──▶ OPEN
                                                               │   ▲
                                                               ▼   │ the hold is over
                                                              HOLDING

After a failed append the topic closes all producers. Their clients reconnect by themselves and send again all messages
that were not answered, so applications notice no error if a new ledger can be opened at once. If no ledger can be
opened, or the next append fails too, the storage counts as down, for instance because the disk is full. While the
storage is down, producers are refused with an error that their clients pass on to the application. Between two tries to
open a ledger the topic stays in HOLDING, for a time that doubles up to HOLD_MAX_SECONDS."""

from enum import Enum
from typing import Final

from pulsar_proto.backoff import backoff

HOLD_FIRST_SECONDS = 0.5
HOLD_MAX_SECONDS = 8.0


class FenceState(Enum):
    OPEN = "open"
    DRAINING = "draining"
    TRYING = "trying"
    """The caller tries to open a ledger and reports the outcome with `tried`."""
    HOLDING = "holding"


OPEN: Final = FenceState.OPEN
DRAINING: Final = FenceState.DRAINING
"""The states that each message asks for, by names of their own: Python looks up a member of an Enum ten times slower
than a name of the module."""


class PublishFence:
    """Knows whether one topic takes messages, which it does only while the fence is OPEN. TopicProducers does the work
    that a state requires, and reports the outcomes with the methods of this class."""

    __slots__ = ("_failures", "_tries", "reason", "state")

    def __init__(self) -> None:
        self.state = OPEN
        self.reason = ""
        """The text of the last failure."""
        self._failures = 0
        """How often the fence has closed since the last confirmed append. Appends that fail while the fence is closed
        do not count."""
        self._tries = 0
        """How many consecutive tries to open a ledger have failed."""

    @property
    def is_storage_down(self) -> bool:
        """Whether applications should learn of the failure. False while the next try is likely to succeed."""
        return self.state is not OPEN and (self._failures > 1 or self._tries > 0)

    @property
    def hold_seconds(self) -> float:
        """How long the topic stays in HOLDING, in seconds."""
        doublings = max(self._failures - 2, 0) + max(self._tries - 1, 0)
        return backoff(doublings + 1, HOLD_FIRST_SECONDS, HOLD_MAX_SECONDS)

    def succeeded(self) -> None:
        """Called when an append was confirmed. Changes nothing while the fence is closed: the confirmed append began
        before another append failed, so the confirmation does not prove that the storage works again."""
        if self.state is OPEN:
            self._failures = 0

    def failed(self, reason: str) -> bool:
        """Called when an append failed. Returns True if this failure closes the fence; the caller then closes all
        producers. Returns False for further failures while the fence is closed."""
        self.reason = reason
        if self.state is not OPEN:
            return False
        self.state = DRAINING
        self._failures += 1
        return True

    def drained(self) -> None:
        """Called when all appends have been answered: ends the state DRAINING."""
        if self.state is DRAINING:
            self.state = FenceState.HOLDING if self._failures > 1 else FenceState.TRYING

    def held(self) -> None:
        """Called when the topic has been in HOLDING for `hold_seconds`: the next state is TRYING."""
        if self.state is FenceState.HOLDING:
            self.state = FenceState.TRYING

    def tried(self, failure: str | None) -> None:
        """Called after a try to open a ledger: the next state is OPEN after a success, HOLDING after a failure.
        `failure` is the reason why the try failed, or None when the try succeeded."""
        if self.state is not FenceState.TRYING:
            return
        if failure is None:
            self.state = OPEN
            self._tries = 0
        else:
            self.state = FenceState.HOLDING
            self.reason = failure
            self._tries += 1
