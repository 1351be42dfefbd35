"""The log of a cluster on one machine: all lines that the children write to their outputs, each with the child's name.

The lines go through `server/process/log_lines.py` like the supervisor's own log lines, because a library of a child may
write anything.
"""

import asyncio
import contextlib
import sys
from collections.abc import Callable

from magnetar.server.process.log_lines import JSON, one_line, with_process
from magnetar.server.process.supervision import BEAT

CHUNK_BYTES = 1 << 16
LINE_BYTES_MAX = 1 << 16
"""The longest line in bytes. A longer line is written in pieces."""
NAME_WIDTH = 9
FAULT_MARK = "magnetar: "
"""The beginning of the sentence that a child prints when it cannot start or continue."""


class ChildLog:
    """Writes the lines of one child, and remembers the child's last lines."""

    def __init__(self, name: str, log_format: str) -> None:
        """`log_format` is the format in which the child logs, and in which its lines are written."""
        self._name = name
        self._is_json = log_format == JSON
        self._last = ""
        self._fault = ""

    @property
    def last_words(self) -> str:
        """The sentence in which the child gave the reason for its end, or else the last line that it wrote."""
        return self._fault or self._last

    def forget(self) -> None:
        """Forgets the lines of the child's former process."""
        self._last = self._fault = ""

    async def pump(self, stream: asyncio.StreamReader, on_beat: Callable[[], None] | None = None) -> None:
        """Writes the lines of the stream until the stream ends. Lines that are signs of life are not written but
        reported to `on_beat`, if it is given."""
        rest = b""
        while chunk := await stream.read(CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            if on_beat is not None and BEAT in lines:
                lines = [line for line in lines if line != BEAT]
                on_beat()
            if len(rest) > LINE_BYTES_MAX:
                lines.append(rest)
                rest = b""
            self.write(lines)
        if rest:
            self.write([rest])

    def write(self, lines: list[bytes]) -> None:
        """Writes lines, which have no line ends, to the standard error."""
        if not lines:
            return
        texts = [line.decode("utf-8", "replace") for line in lines]
        for text in texts:
            if text.startswith(FAULT_MARK):
                self._fault = one_line(text.removeprefix(FAULT_MARK))
            elif text.strip():
                self._last = one_line(text)
        with contextlib.suppress(OSError, ValueError):  # Nobody reads the log any more. The cluster continues.
            sys.stderr.write("".join(f"{self._named(text)}\n" for text in texts))
            sys.stderr.flush()

    def _named(self, text: str) -> str:
        return with_process(text, self._name) if self._is_json else f"{self._name:<{NAME_WIDTH}} | {one_line(text)}"
