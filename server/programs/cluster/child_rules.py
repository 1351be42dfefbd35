"""The life of a supervised child process: a state machine that decides when the child is started again, without I/O.

A child that dies is always started again. After a steady time the first death is followed by a start without a pause,
so that clients wait as briefly as possible; a child that keeps dying is started more and more rarely.
"""

from enum import Enum

from pulsar_proto.backoff import backoff

STEADY_SECONDS = 10.0
"""After a child was ready for this long, its earlier deaths no longer count."""
PAUSE_FIRST_SECONDS = 0.25
PAUSE_SECONDS_MAX = 30.0
"""The pause after the second death in a row, and the longest pause. The pause doubles with every further death."""
START_SECONDS_MAX = 90.0
"""A child that is not ready after this time is considered to hang; it is killed and started again."""


LOOK_SECONDS = 1.0
"""How often the supervisor looks whether a child is silent."""
OWN_GAP_SECONDS = 5.0
"""When two looks are further apart, the supervisor itself stood still: it was stopped with its terminal, or the machine
slept or was overloaded. In this case no child is blamed for its silence."""
HUNG_SECONDS = 60.0
"""A child that has given signs of life before, but no sign for this long, hangs; it is killed and started again. The
time is far longer than any pause of a healthy child, and than the freezes that a test or an operator makes on
purpose."""


class SignsOfLife:
    """Judges whether a child hangs. The silence is added up from look to look, and begins anew after a gap of more than
    OWN_GAP_SECONDS between two looks, so that a pause of the supervisor is not taken for a silence of the child. A
    child that has never given a sign is not judged."""

    def __init__(self) -> None:
        self.silent_seconds = 0.0
        self._has_beaten = False
        self._looked_at: float | None = None

    def beat(self) -> None:
        """Notes a sign of life."""
        self._has_beaten = True
        self.silent_seconds = 0.0

    def hangs(self, now: float) -> bool:
        """Called at each look. Returns whether the child has been silent for HUNG_SECONDS."""
        elapsed = 0.0 if self._looked_at is None else now - self._looked_at
        self._looked_at = now
        self.silent_seconds = 0.0 if elapsed > OWN_GAP_SECONDS else self.silent_seconds + elapsed
        return self._has_beaten and self.silent_seconds >= HUNG_SECONDS


class ChildState(Enum):
    """The states of a child; `_MOVES` is the table of transitions."""

    WAITING = "waiting"
    """The child does not run, and is started when the pause is over."""
    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"
    """The child has ended by itself, and its remains are being removed."""
    STOPPING = "stopping"
    STOPPED = "stopped"


class IllegalChildEventError(Exception):
    """A bug in Magnetar: the event is not allowed in the present state of the child."""


_MOVES = {
    (ChildState.WAITING, "start"): ChildState.STARTING,
    (ChildState.WAITING, "stop"): ChildState.STOPPED,
    (ChildState.STARTING, "ready"): ChildState.READY,
    (ChildState.STARTING, "end"): ChildState.DEAD,
    (ChildState.STARTING, "stop"): ChildState.STOPPING,
    (ChildState.READY, "end"): ChildState.DEAD,
    (ChildState.READY, "stop"): ChildState.STOPPING,
    (ChildState.DEAD, "clear"): ChildState.WAITING,
    (ChildState.DEAD, "stop"): ChildState.STOPPED,
    (ChildState.STOPPING, "end"): ChildState.STOPPED,
    (ChildState.STOPPING, "stop"): ChildState.STOPPING,
    (ChildState.STOPPED, "stop"): ChildState.STOPPED,
}


class ChildLife:
    """The life of one child. Times are seconds of any steady clock."""

    def __init__(self) -> None:
        self.state = ChildState.WAITING
        self.starts = 0
        self.pause_seconds = 0.0
        """How long to wait before the next start, while the child is WAITING."""
        self._failures = 0
        self._ready_at = 0.0

    def start(self) -> None:
        """Notes that the process was started."""
        self._move("start")
        self.starts += 1

    def ready(self, now: float) -> None:
        """Notes that the child has reported that it is ready."""
        self._move("ready")
        self._ready_at = now

    def end(self, now: float) -> None:
        """Notes that the process is gone, because it died or because it was asked to stop."""
        was_steady = self.state is ChildState.READY and now - self._ready_at >= STEADY_SECONDS
        self._move("end")
        self._failures = 1 if was_steady else self._failures + 1

    def clear(self) -> None:
        """Notes that the remains of the dead child are removed, and sets the pause before the next start."""
        self._move("clear")
        self.pause_seconds = pause_seconds(self._failures)

    def stop(self) -> None:
        """Notes that the child shall not be started again. A second call has no effect."""
        self._move("stop")

    def _move(self, event: str) -> None:
        target = _MOVES.get((self.state, event))
        if target is None:
            raise IllegalChildEventError(f"{event} while {self.state.value}")
        self.state = target


def pause_seconds(failures: int) -> float:
    """Returns the pause before the start after `failures` deaths in a row (from 1 on)."""
    if failures <= 1:
        return 0.0
    return backoff(failures - 1, PAUSE_FIRST_SECONDS, PAUSE_SECONDS_MAX)
