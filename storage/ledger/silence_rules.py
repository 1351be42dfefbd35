"""Decides when a bookie that answers nothing counts as dead. No I/O, no clock.

A frozen process, or a switch that drops packets, leaves a connection open on which nothing ever comes. The deadline of
an add would notice that, but must be long, because an add of a healthy bookie waits for its disk. So the client asks
something that needs no disk, the *probe*, on another connection. A bookie that answers the probe is slow, and the
client waits for it; a bookie that does not answer it either is dead. The client judges sooner when the bookie's
registration has gone, because then ZooKeeper has not heard from the bookie either.

Times are counted in ticks of the caller's timer and not taken from a clock: a client that was itself frozen, or whose
machine slept, sees one late tick and not a long silence.

Apache's client has nothing of the kind: it waits for addEntryTimeoutSec, or for the kernel if tcpUserTimeoutMillis is
set, which cuts off slow bookies too.
"""

from enum import Enum

PROBE_TICKS = 2
"""After this many ticks without a byte the bookie is probed."""
GONE_TICKS = 5
"""A bookie whose registration is gone is dead after this many silent ticks, counted from the first silent tick."""
DEAD_TICKS = 12
"""A registered bookie is dead after this many silent ticks, counted from the first silent tick."""


class Step(Enum):
    """The caller's next step after a tick."""

    NONE = "none"
    PROBE = "probe"
    """Ask something that every living bookie answers at once, unless such a question is under way."""
    CUT = "cut"
    """The bookie is dead: fail the requests that wait for it, and all further requests until it answers a probe."""


class SilenceRules:
    """The judgement about one bookie. `dead` says whether requests to the bookie should fail at once."""

    __slots__ = ("_silent_ticks", "dead")

    def __init__(self) -> None:
        self.dead = False
        self._silent_ticks = 0

    def heard(self) -> None:
        """Called when the bookie has sent anything on a connection that counts, or has answered a probe."""
        self.dead = False
        self._silent_ticks = 0

    def tick(self, *, waiting: bool, registered: bool) -> Step:
        """Counts a tick in which nothing was heard. `waiting` says whether a request is unanswered that should have an
        answer soon. Once the bookie is dead every tick asks for a probe."""
        if self.dead:
            return Step.PROBE
        if not waiting:
            self._silent_ticks = 0
            return Step.NONE
        self._silent_ticks += 1
        if self._silent_ticks >= (DEAD_TICKS if registered else GONE_TICKS):
            self.dead = True
            return Step.CUT
        return Step.PROBE if self._silent_ticks >= PROBE_TICKS else Step.NONE
