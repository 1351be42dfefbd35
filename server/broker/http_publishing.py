"""The state that the publishing calls of the web port share: a budget of memory, a lock for long bodies, and the next
partition."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from pulsar_proto.errors import TooManyRequests


class HttpPublishing:
    """The state of publishing over HTTP. Each broker has one such object."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` is the budget of memory; 0 or less means that there is no limit."""
        self._max_bytes = max_bytes
        self._next_index = 0
        self.bytes_in_progress = 0
        self.thread = asyncio.Lock()
        """A call holds this lock while it reads or encodes a long body on a thread, so that only one such thread runs
        at a time. Each further thread would take as much time of the interpreter from the event loop as the first
        thread."""

    def resize(self, max_bytes: int) -> None:
        """Changes the budget, in bytes, for messages that arrive from now on."""
        self._max_bytes = max_bytes

    @contextmanager
    def taking(self, size_bytes: int) -> Iterator[None]:
        """Holds a part of the budget while messages are published. Raises TooManyRequests when the budget is spent."""
        if self._max_bytes > 0 and self.bytes_in_progress + size_bytes > self._max_bytes:
            raise TooManyRequests("Too many bytes of messages that came over HTTP wait to be stored: try again later")
        self.bytes_in_progress += size_bytes
        try:
            yield
        finally:
            self.bytes_in_progress -= size_bytes

    def first_partition(self, messages: int, partitions: int) -> int:
        """Returns the partition for the first of `messages` messages, which go to consecutive partitions. The next call
        returns the partition after that of the last message."""
        first = self._next_index % partitions
        self._next_index += messages
        return first
