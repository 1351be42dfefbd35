"""Decides when Python looks at all objects for garbage. Such a full collection holds everything up: 0.3 µs for each
object, and a loaded topic has 150 of them, so that ten thousand topics take most of a second.

Python itself collects fully whenever the old objects have grown by a quarter. That happens in the middle of a load, for
example while a thousand topics are made, and hardly finds anything: nearly all objects of a server are freed when the
last reference to them goes, and `left_objects` sees to topics and subscriptions, whose parts refer to each other.

Therefore the memory of the process has to have grown, and nobody may be using the server: no message and no request of
a client has come for STILL_SECONDS. A server that is never still collects only when its memory has doubled and then
still did not shrink for PATIENCE_SECONDS: by then something must leak, and a pause is better than the end of the
memory. This module does no I/O.
"""

STILL_GROWTH, STILL_GROWTH_BYTES = 1 / 4, 16 << 20
"""A server that nobody uses collects when its memory has grown by this share, and by so many bytes."""

BUSY_GROWTH, BUSY_GROWTH_BYTES = 1, 256 << 20
"""The same for a server that is in use, which waits in addition."""

STILL_SECONDS = 10.0
"""A server that nobody has used for so long is still. Pauses between the messages of slow clients are shorter."""

PATIENCE_SECONDS = 3600.0
"""How long a server that is never still puts off a collection that its memory asks for."""

QUIET_CPU_SHARE = 0.05
"""A server that needs more of a core than this is at work, even if no client has asked for it."""


class FullCollections:
    """Compares the memory of a process with its memory after the last full collection."""

    __slots__ = ("_busy_since_s", "_doubled_since_s", "_least_bytes", "_uses")

    def __init__(self, now_s: float, memory_bytes: int) -> None:
        """`now_s` is a time of the clock that `is_due` goes by."""
        self._least_bytes = memory_bytes
        """The least memory that was seen since the last full collection."""
        self._busy_since_s = now_s
        """When the server was last seen in use."""
        self._doubled_since_s: float | None = None
        """Since when the memory is large enough for a collection of a busy server."""
        self._uses = 0

    def is_due(self, now_s: float, memory_bytes: int, uses: int, cpu_share: float) -> bool:
        """Returns whether it is time for a full collection; the caller says `done` after it. `uses` is a number that
        grows when clients use the server, and `cpu_share` is how much of a core the process has needed lately."""
        self._least_bytes = min(self._least_bytes, memory_bytes)
        if uses != self._uses or cpu_share > QUIET_CPU_SHARE:
            self._uses, self._busy_since_s = uses, now_s
        if not self._has_grown(memory_bytes, BUSY_GROWTH, BUSY_GROWTH_BYTES):
            self._doubled_since_s = None
        elif self._doubled_since_s is None:
            self._doubled_since_s = now_s
        if now_s - self._busy_since_s >= STILL_SECONDS:
            return self._has_grown(memory_bytes, STILL_GROWTH, STILL_GROWTH_BYTES)
        return self._doubled_since_s is not None and now_s - self._doubled_since_s >= PATIENCE_SECONDS

    def done(self, memory_bytes: int) -> None:
        self._least_bytes, self._doubled_since_s = memory_bytes, None

    def _has_grown(self, memory_bytes: int, share: float, bytes_least: int) -> bool:
        return memory_bytes - self._least_bytes > max(share * self._least_bytes, bytes_least)
