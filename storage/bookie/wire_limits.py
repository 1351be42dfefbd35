"""Limits of the work that one peer of the bookie's port, and all peers together, may have under way.

When a limit of bytes or of the queue is reached, the connection's socket is not read until at most half of the limit is
used. Requests beyond the limits of concurrent work wait in the queue.
"""

from collections import deque
from dataclasses import dataclass
from enum import IntFlag
from typing import Protocol

from magnetar.storage.bookie.wire_session import FenceRead, ReadRun
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire.packets import PACKET_BYTES_MAX

INFLIGHT_BYTES_MAX = 16 << 20
"""How many bytes of one connection's adds may be unanswered."""
QUEUE_MAX = 10_000
"""How many reads and calls of one connection may wait for their turn. The requests of a single socket read may exceed
this limit."""
READS_AT_ONCE = 8
"""How many plain and batch reads of one connection may be under way."""
CALLS_AT_ONCE = 16
"""How many fences and rarer calls of v3 may be under way on one connection; long polls that wait do not count."""
LONG_POLLS_MAX = 1_000
"""How many long polls of one connection may wait without counting as calls. Further long polls count as calls."""
READ_CHUNK_BYTES = 1 << 20
"""How many bytes the connection asks the bookie for at once when it serves a run of reads (`wire_session.ReadRun`)."""
BATCH_READ_BYTES_MAX = 5 << 20
"""The longest answer to a batch read (maxBatchReadSize of BookKeeper 4.17)."""
OUTPUT_HIGH_WATER_BYTES = 4 << 20
"""How many bytes of answers may wait for the peer to take them. Beyond this limit the bookie reads neither requests
from this peer nor entries for it."""


@dataclass(frozen=True, slots=True)
class WireLimits:
    """The limits of a bookie's port that the configuration sets."""

    packet_bytes_max: int = PACKET_BYTES_MAX
    """nettyMaxFrameSizeBytes: the longest request in bytes, with its length word. A longer request ends the
    connection."""
    inflight_bytes_max: int = 48 << 20
    """How many bytes of all connections' adds may be unanswered. This limit is below the bound of the bookie's own
    queue, so that clients are slowed down and not refused."""
    connections_max: int = 4_096
    """How many connections may be open. A further connection is closed at once."""


class Paused(IntFlag):
    """The reasons why a connection is not read."""

    NO = 0
    ADDS = 1
    BUDGET = 2
    QUEUE = 4
    OUTPUT = 8
    CLOSED = 16


class Pausable(Protocol):
    """`Budget` uses each connection through this interface."""

    def resume(self, why: Paused) -> None: ...


class Budget:
    """Counts the bytes of unanswered adds over all connections of a port. `waiting` holds the connections that are not
    read until this number has fallen."""

    __slots__ = ("limit", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting: set[Pausable] = set()

    def free(self, size: int) -> None:
        """Gives back the bytes of answered adds. When at most half of the limit is used, all waiting connections are
        read again."""
        self.used -= size
        if self.waiting and self.used <= self.limit // 2:
            waiting, self.waiting = self.waiting, set()
            for connection in waiting:
                connection.resume(Paused.BUDGET)


class Lane:
    """A queue of requests of one connection. At most `limit` of them are served at a time, in the order of their
    arrival."""

    __slots__ = ("limit", "running", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting: deque[ReadRun | FenceRead | v2.BatchReadRequest | pb.Request] = deque()
