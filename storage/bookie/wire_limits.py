"""What one peer of the bookie's port, and all of them together, may have under way. Reached, the socket is not read."""

from collections import deque
from dataclasses import dataclass
from enum import IntFlag
from typing import Protocol

from magnetar.storage.bookie.wire_session import FenceRead, ReadRun
from pulsar_proto.pb import bookkeeper_pb2 as pb
from pulsar_proto.wire import bookie_wire as v2
from pulsar_proto.wire.packets import PACKET_BYTES_MAX

INFLIGHT_BYTES_MAX = 16 << 20
"""Bytes of one connection's adds that the bookie has not decided about."""
QUEUE_MAX = 10_000
"""Reads and calls of one connection that wait for their turn (one socket read may add what it holds)."""
READS_AT_ONCE = 8
CALLS_AT_ONCE = 16
"""Of one connection: plain and batch reads under way, and fences and v3's rarer calls (parked long polls apart)."""
LONG_POLLS_MAX = 1_000
"""Of one connection; beyond it they wait in the queue of calls."""
READ_CHUNK_BYTES = 1 << 20
"""How much of a run of reads is asked for at once."""
BATCH_READ_BYTES_MAX = 5 << 20
"""maxBatchReadSize of BookKeeper 4.17."""
OUTPUT_HIGH_WATER_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class WireLimits:
    packet_bytes_max: int = PACKET_BYTES_MAX
    """nettyMaxFrameSizeBytes: longest request, its length word included."""
    inflight_bytes_max: int = 48 << 20
    """Bytes of adds of all connections that the bookie has not decided about; below its own queue's bound, so that a
    client is slowed down rather than refused."""
    connections_max: int = 4_096
    """A further one is closed at once."""


class Paused(IntFlag):
    """Why a connection is not read."""

    NO = 0
    ADDS = 1
    BUDGET = 2
    QUEUE = 4
    OUTPUT = 8
    CLOSED = 16


class Pausable(Protocol):
    def resume(self, why: Paused) -> None: ...


class Budget:
    """The bytes of adds under way, over all connections of a port."""

    __slots__ = ("limit", "used", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.waiting: set[Pausable] = set()

    def free(self, size: int) -> None:
        self.used -= size
        if self.waiting and self.used <= self.limit // 2:
            waiting, self.waiting = self.waiting, set()
            for connection in waiting:
                connection.resume(Paused.BUDGET)


class Lane:
    """Requests that are served a few at a time, in order of their coming."""

    __slots__ = ("limit", "running", "waiting")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting: deque[ReadRun | FenceRead | v2.BatchReadRequest | pb.Request] = deque()
