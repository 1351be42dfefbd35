"""Standard output as commands write messages to it: whole groups at a time, and a reader that goes away is noticed."""

import os
import select
import sys

from magnetar.server.tools.messages.tool_errors import ToolError


class ClosedOutputError(Exception):
    """Nobody reads the output any more."""


class OutputStream:
    """Writes to a file descriptor. What `write` was given is with the kernel when it returns."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.is_terminal = os.isatty(descriptor)
        self._poll = select.poll()
        self._poll.register(descriptor, 0)

    def write(self, data: bytes) -> None:
        """Raises ClosedOutputError when the reader is gone, and OSError for anything else, such as a full disk."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except BrokenPipeError:
            raise ClosedOutputError from None

    def check(self) -> None:
        """Raises ClosedOutputError when the reader of a pipe is gone."""
        # Linux tells it by POLLERR, macOS by POLLHUP.
        if any(event & (select.POLLERR | select.POLLHUP) for _, event in self._poll.poll(0)):
            raise ClosedOutputError


def standard_output() -> OutputStream:
    """Returns the process's standard output. What Python has buffered for it is written first. Raises ToolError when
    the process was started without it."""
    if sys.stdout is None:
        raise ToolError("standard output is closed")
    sys.stdout.flush()
    return OutputStream(sys.stdout.fileno())
