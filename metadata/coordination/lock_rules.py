"""Decides, without I/O, what a process does about the record of a lock or of a leader.

A lock is an ephemeral record. The process whose session owns the record holds the lock. The record's value names this
process, so that a restarted process recognizes the lock of its former session and takes the lock over without waiting
for the end of that session.

Sources: LockManagerImpl, ResourceLockImpl.doRevalidate, LeaderElectionImpl.handleExistingLeaderValue.
"""

from collections.abc import Callable
from enum import Enum

from magnetar.metadata.store import EventType, Record, SessionEvent

SameValue = Callable[[bytes, bytes], bool]
"""Returns whether two values name the same holder. Java compares parsed records, which need not be equal byte by
byte."""

RETRY_FIRST_SECONDS = 0.1
RETRY_SECONDS_MAX = 60.0
"""The shortest and the longest pause before a lock is checked again, after the store failed (ResourceLockImpl,
Backoff)."""


class LockState(Enum):
    """The states of a lock; `MOVES` is the table of transitions."""

    ACQUIRING = "acquiring"
    HELD = "held"
    LOST = "lost"
    """Another session holds the lock, or it could not be acquired."""
    RELEASING = "releasing"
    """The holder gave the lock up, and the record may still be there."""
    RELEASED = "released"


MOVES = {
    LockState.ACQUIRING: (LockState.HELD, LockState.LOST, LockState.RELEASING),
    LockState.HELD: (LockState.LOST, LockState.RELEASING),
    LockState.RELEASING: (LockState.RELEASED,),
    LockState.LOST: (),
    LockState.RELEASED: (),
}


class Step(Enum):
    """The ways to deal with the record that was found."""

    CREATE = "create"
    """There is no record."""
    KEEP = "keep"
    """The record belongs to the present session and has the right value."""
    REPLACE = "replace"
    """The record belongs to an earlier session of this process, or has an old value. The record is deleted with the
    version that was read, and created again, so that it belongs to the present session."""
    YIELD = "yield"
    """The record belongs to somebody else."""


def next_step(found: Record | None, wanted: bytes, session_id: int, is_same: SameValue) -> Step:
    """Returns the step that a process with this session takes when it wants the record to be its own, with the value
    `wanted`."""
    if found is None:
        return Step.CREATE
    stat = found.stat
    if not stat.ephemeral:
        return Step.YIELD
    is_own = stat.owner == session_id
    if is_own:
        return Step.KEEP if found.value == wanted else Step.REPLACE
    return Step.REPLACE if is_same(found.value, wanted) else Step.YIELD


def may_delete(found: Record | None, session_id: int) -> bool:
    """Returns whether the record of a released lock still exists and belongs to this session."""
    return found is not None and found.stat.ephemeral and found.stat.owner == session_id


def casts_doubt(event: EventType) -> bool:
    """Returns whether an event of the record may mean that another process holds the lock or has written the record.

    Events of this process's own writes count, too: they cannot be distinguished reliably from events of other
    processes, and a check costs one read.
    """
    return event is not EventType.CHILDREN_CHANGED


def must_check(event: SessionEvent, *, has_failed: bool) -> bool:
    """Returns whether a held lock is checked after this event. `has_failed` says that its last check failed.

    A new session owns none of the old session's records, although they may still be there. When the session is still
    the same, only a lock whose last check failed has to be checked.
    """
    return event is SessionEvent.NEW_SESSION or (event is SessionEvent.CONNECTED and has_failed)
