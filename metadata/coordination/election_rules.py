"""Decides, without I/O, what a process may believe about the leader after each event (LeaderElectionImpl).

The leader's record is a lock that every candidate wants; a candidate that finds the lock taken follows the holder.
`lock_rules.next_step` decides what a candidate does about the record.
"""

from dataclasses import dataclass
from enum import Enum

from magnetar.metadata.store import EventType, SessionEvent

RETRY_SECONDS = 5.0
"""The pause between an election that broke off because the store failed and the next one (LeaderElectionImpl)."""


class ElectionState(Enum):
    """Java's LeaderElectionState. UNDECIDED stands for NoLeader there: nobody was elected, or this process does not
    know who was."""

    UNDECIDED = "undecided"
    LEADING = "leading"
    FOLLOWING = "following"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The belief of a process about the election. `leader` is the value of the leader's record."""

    state: ElectionState = ElectionState.UNDECIDED
    leader: bytes | None = None


def after_session_event(known: Outcome, event: SessionEvent) -> Outcome:
    """Returns the belief after the event. EXPIRED means that the server has ended the session and with it this
    process's leadership. While only the link is lost, the leader stays leader, because nobody else can be elected
    before the session ends."""
    if event in (SessionEvent.EXPIRED, SessionEvent.NEW_SESSION) and known.state is ElectionState.LEADING:
        return Outcome()
    return known


def must_elect(event: SessionEvent) -> bool:
    """Returns whether a new election is due because the record may have changed without an event."""
    return event in (SessionEvent.CONNECTED, SessionEvent.NEW_SESSION)


def record_must_elect(event: EventType) -> bool:
    """Returns whether an event of the leader's record calls for an election. A changed value does, too, because an
    election reads the value."""
    return event is not EventType.CHILDREN_CHANGED
