"""Decides when Python looks at all objects for garbage. Such a full collection holds everything up: 0.3 µs for each
object, and a loaded topic has 150 of them.

Python itself collects fully whenever the old objects have grown by a quarter. That happens in the middle of a load, for
example while a thousand topics are made, and hardly finds anything: nearly all objects of a server are freed when the
last reference to them goes. Garbage that only a full collection frees is left by topics that are unloaded,
subscriptions that are deleted, and sockets that are closed, if they have lived for a while.

So the memory of the process decides. A server that does next to nothing collects when its memory has grown by a
quarter; a busy server only when its memory has doubled. This module does no I/O.
"""

QUIET_GROWTH, QUIET_GROWTH_BYTES = 1 / 4, 16 << 20
"""A quiet server collects when its memory has grown by this share, and by so many bytes."""

BUSY_GROWTH, BUSY_GROWTH_BYTES = 1, 256 << 20
"""The same for a busy server."""

QUIET_CPU_SHARE = 0.05
"""A server that needs no more of a core than this is quiet."""


class FullCollections:
    """Compares the memory of a process with its memory after the last full collection."""

    __slots__ = ("_least_bytes",)

    def __init__(self, memory_bytes: int) -> None:
        self._least_bytes = memory_bytes
        """The least memory that was seen since the last full collection."""

    def is_due(self, memory_bytes: int, cpu_share: float) -> bool:
        """Returns whether it is time for a full collection; the caller says `done` after it. `cpu_share` is how much of
        a core the process has needed lately."""
        self._least_bytes = min(self._least_bytes, memory_bytes)
        is_quiet = cpu_share <= QUIET_CPU_SHARE
        growth, bytes_least = (QUIET_GROWTH, QUIET_GROWTH_BYTES) if is_quiet else (BUSY_GROWTH, BUSY_GROWTH_BYTES)
        return memory_bytes - self._least_bytes > max(growth * self._least_bytes, bytes_least)

    def done(self, memory_bytes: int) -> None:
        self._least_bytes = memory_bytes
