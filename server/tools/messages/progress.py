"""A line on stderr that says how far a command has come, while a person looks at it."""

import sys
import time

from magnetar.server.tools.messages.quantity_rules import whole
from pulsar_proto.counted import counted

SECONDS = 0.5


class Progress:
    """Rewrites its line twice a second. Nothing is printed when stderr is no terminal, or when the person said so."""

    def __init__(self, one: str, done: str = "", *, quiet: bool = False) -> None:
        """`one` names the counted thing, and `done` says what became of it."""
        self._one = one
        self._done = f" {done}" if done else ""
        self._is_shown = sys.stderr.isatty() and not quiet
        self._began_s = time.monotonic()
        self._next_s = self._began_s + SECONDS
        self._was_shown = False

    def update(self, number: int) -> None:
        if self._is_shown and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + SECONDS
            self._write(number, "")

    def end(self, number: int) -> None:
        """Writes the last line, with the rate of all."""
        if self._is_shown:
            self._write(number, "\n")

    def _write(self, number: int, end: str) -> None:
        seconds = max(time.monotonic() - self._began_s, 0.001)
        print(
            f"\r\x1b[K{counted(number, self._one, form=',')}{self._done}, {whole(round(number / seconds))}/s",
            end=end,
            file=sys.stderr,
            flush=True,
        )
