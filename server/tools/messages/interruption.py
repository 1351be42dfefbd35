"""Ctrl-C and SIGTERM end a command tidily: it finishes what it has in hand. A second Ctrl-C ends it at once."""

import os
import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether the command was asked to end, and by which signal."""

    def __init__(self) -> None:
        self._signal = 0

    def install(self) -> "Interruption":
        """Begins to watch for the signals, for the rest of the process."""
        for number in SIGNALS:
            signal.signal(number, self._note)
        return self

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._signal:
            # The command hangs in something, such as a write to a pipe that nobody reads.
            os._exit(128 + number)
        self._signal = number

    def __bool__(self) -> bool:
        return self._signal != 0

    @property
    def exit_code(self) -> int:
        """Returns the exit code that shells give a process that a signal ended."""
        return 128 + self._signal if self._signal else 0
