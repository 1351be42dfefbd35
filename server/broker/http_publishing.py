"""The state that the publishing calls of the web port share: a budget of memory, a lock for long bodies, and the next
partition."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from pulsar_proto.errors import TooManyRequests


class HttpPublishing:
    """Each broker has one."""

    def __init__(self, max_bytes: int) -> None:
        """`max_bytes` of 0 or less means "no limit"."""
        self._max_bytes = max_bytes
        self._next_index = 0
        self.bytes_in_progress = 0
        self.thread = asyncio.Lock()
        """Held by the one call at a time that reads or encodes a long body on a thread: each further thread would take
        as much of the interpreter from the event loop as the first one."""

    @contextmanager
    def taking(self, size_bytes: int) -> Iterator[None]:
        """Holds a part of the budget while messages are published. Raises TooManyRequests when it is spent."""
        if self._max_bytes > 0 and self.bytes_in_progress + size_bytes > self._max_bytes:
            raise TooManyRequests("Too many bytes of messages that came over HTTP wait to be stored: try again later")
        self.bytes_in_progress += size_bytes
        try:
            yield
        finally:
            self.bytes_in_progress -= size_bytes

    def first_partition(self, messages: int, partitions: int) -> int:
        """Returns the partition for the first of so many messages. The next call goes on after the last one's
        partition."""
        first = self._next_index % partitions
        self._next_index += messages
        return first
