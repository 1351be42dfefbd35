"""Lets the journal's thread have the interpreter soon while some clients read from the entry logs and others publish.

The journal's thread needs the interpreter three times for each batch: when it wakes up, after the write and after the
sync. Each time it waits until the event loop sleeps, or for the switch interval (`sys.setswitchinterval`) while the
event loop is busy. An event loop that hands stored entries on is busy all the time, so publishers would wait three
intervals longer. A shorter interval all the time would cost more than it brings: with it, publishing to a thousand
topics took 12 % more CPU time, and reading took more as well when nobody published.
"""

import asyncio
import sys

PROMPT_SWITCH_SECONDS = 0.000_2
"""The switch interval while entries are read and added."""

READING_SECONDS = 0.1
"""How long after a read the clients count as reading. They read in portions of a megabyte, each of which is handed on
within a fifth of this time."""


_HALF_MICROSECOND = 0.5e-6
"""Python cuts an interval down to whole microseconds. Half of one more keeps an interval that is set again and again
from becoming shorter each time."""


class PromptThreads:
    """Sets the switch interval of this process. All calls come from the event loop's thread."""

    def __init__(self) -> None:
        self._usual_seconds = 0.0
        self._read_s = 0.0
        self._batches = 0
        self._timer: asyncio.TimerHandle | None = None

    def reading(self, batches: int) -> None:
        """Called for each read of an entry log with the number of batches that the journals have written so far. Has no
        effect when the number has not grown since the last read, nor when the interval is short already, for example
        because of another bookie of this process."""
        if batches == self._batches:
            return
        self._batches = batches
        loop = asyncio.get_running_loop()
        self._read_s = loop.time()
        if self._timer is not None:
            return
        seconds = sys.getswitchinterval()
        if seconds > PROMPT_SWITCH_SECONDS + _HALF_MICROSECOND:
            self._usual_seconds = seconds
            sys.setswitchinterval(PROMPT_SWITCH_SECONDS + _HALF_MICROSECOND)
            self._timer = loop.call_later(READING_SECONDS, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        ends_in = self._read_s + READING_SECONDS - loop.time()
        if ends_in > 0:
            self._timer = loop.call_later(ends_in, self._look, loop)
        else:
            self.close()

    def close(self) -> None:
        """Sets the usual interval again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            sys.setswitchinterval(self._usual_seconds + _HALF_MICROSECOND)
