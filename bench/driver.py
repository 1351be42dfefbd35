"""The raw driver: speaks the wire protocol itself and costs next to no CPU, so that a rate is the server's and not the
client's.

It runs as a process of its own (`python -m bench.driver MODE …`) with one connection and one thread, and prints one
JSON object. Receipts must come in the order of the sends, and messages unchanged and in order; anything else is an
error.
"""

import argparse
import contextlib
import ctypes
import json
import resource
import select
import socket
import sys
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

from bench.frames import CONSUMER_ID, PRODUCER_ID, Block, DriverError, MessageScanner, ReceiptScanner, build_block
from bench.process_stats import cpu_seconds
from compat_tests import wire

READ_BYTES = 1 << 20
SEND_BYTES_MAX = 256 << 10
STALL_SECONDS = 30.0
PERMITS = 2000
ACK_EVERY = 1000
PR_SET_TIMERSLACK = 29
LATE_SECONDS = 5.0


@dataclass(slots=True)
class Outcome:
    """How many messages took how many seconds, and what they cost the server. Latencies count from the moment at which
    a send was due."""

    messages: int
    seconds: float
    server_cpu_seconds: float
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    p999_ms: float = 0.0
    max_ms: float = 0.0


class Stopwatch:
    """A wall clock and the server's CPU clock that start together."""

    def __init__(self, server_pid: int) -> None:
        self._pid = server_pid
        self._cpu = cpu_seconds(server_pid)
        self._began = time.perf_counter()

    def outcome(self, messages: int) -> Outcome:
        seconds = time.perf_counter() - self._began
        return Outcome(messages, seconds, cpu_seconds(self._pid) - self._cpu)


class Connection:
    """A connection that has shaken hands; from then on its socket does not block."""

    def __init__(self, port: int) -> None:
        self.client = wire.WireClient(port)
        self.socket = self.client.socket
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)

    def go(self) -> None:
        """Begins the load, at the broker that owns the topic."""
        self.socket = self.client.socket
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def read(self) -> bytes:
        """Returns the bytes that have arrived, which may be none. Raises DriverError at the end of the connection."""
        try:
            size = self.socket.recv_into(self._buffer)
        except BlockingIOError:
            return b""
        if size == 0:
            raise DriverError("the server closed the connection")
        return bytes(self._view[:size])

    def answer(self, kind: int, message: wire.Message, send: Callable[[bytes], None] | None = None) -> None:
        """Handles a frame that is neither a receipt nor a message: a PING is answered, anything else is an error.
        `send` sends the answer; without it the answer is sent at once."""
        if kind == wire.PING:
            (send or self.send)(wire.frame(wire.PONG, []))
        elif kind not in (wire.PONG, wire.ACK_RESPONSE, 31):
            raise DriverError(f"unexpected command {kind}: {message}")

    def send(self, data: bytes) -> None:
        """Sends a small frame, and waits until the socket takes it."""
        send_all(self.socket, data)


class OnSocket(Protocol):
    """What has a socket that does not block. The socket of a `Connection` changes until the load begins."""

    socket: socket.socket


class BlockSender:
    """Sends the frames of a block again and again, in parts as large as the socket takes. A part may end within a
    frame, so other frames have to wait until that frame is whole."""

    def __init__(self, connection: OnSocket, data: bytes, offsets: Sequence[int]) -> None:
        """Frame k of the block is `data[offsets[k]:offsets[k + 1]]`."""
        self._connection = connection
        self._data, self._offsets = memoryview(data), offsets
        self._at = 0
        """How many bytes of the block are sent."""
        self._between: list[bytes] = []
        """Frames that are sent when the present frame is whole."""
        self.sent = 0
        """How many frames of the block are sent, over all repetitions."""

    def put_between(self, frame: bytes) -> None:
        """Sends a small frame of another kind, at once or behind the frame that is half sent."""
        self._between.append(frame)
        self._send_between()

    def send(self, upto: int) -> bool:
        """Sends a part, so that `upto` frames at most have been sent. Returns whether the socket took anything."""
        offsets, per_block = self._offsets, len(self._offsets) - 1
        index = self.sent % per_block
        last = min(per_block, index + (1 if self._between else upto - self.sent))
        end = min(offsets[last], self._at + SEND_BYTES_MAX)
        try:
            taken = self._connection.socket.send(self._data[self._at : end])
        except BlockingIOError:
            return False
        self._at += taken
        self.sent += bisect_right(offsets, self._at) - 1 - index
        if self._between:
            self._send_between()
        if self._at == offsets[-1]:
            self._at = 0
        return taken > 0

    def _send_between(self) -> None:
        if self._at in (0, self._offsets[-1]) or self._at == self._offsets[self.sent % (len(self._offsets) - 1)]:
            send_all(self._connection.socket, b"".join(self._between))
            self._between.clear()


def send_all(sock: socket.socket, data: bytes) -> None:
    """Sends a small frame, and waits until the socket takes it."""
    view = memoryview(data)
    while view:
        try:
            view = view[sock.send(view) :]
        except BlockingIOError:
            wait(sock, write=True)


def take_descriptors() -> None:
    """Lets this process have as many connections as the system allows it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def wait(sock: socket.socket, *, write: bool, timeout: float = STALL_SECONDS) -> None:
    """Waits until the socket can be read, or written if `write` is set. Raises DriverError after `timeout` seconds."""
    readable, writable, _ = select.select([sock], [sock] if write else [], [], timeout)
    if not readable and not writable and timeout >= STALL_SECONDS:
        raise DriverError(f"nothing happened for {STALL_SECONDS} s")


def publish(connection: Connection, block: Block, frames: int, window: int, server_pid: int) -> Outcome:
    """Sends frames as fast as `window` unanswered ones allow, and ends with the last receipt."""
    sender = BlockSender(connection, block.data, block.offsets)
    scanner = ReceiptScanner(block, partial(connection.answer, send=sender.put_between))
    watch = Stopwatch(server_pid)
    while scanner.count < frames:
        upto = min(frames, scanner.count + window)
        if sender.sent < upto:
            sender.send(upto)
        scanner.feed(connection.read())
        if scanner.count < frames:
            wait(connection.socket, write=sender.sent < min(frames, scanner.count + window))
    return watch.outcome(frames * block.per_frame)


def publish_at_rate(connection: Connection, block: Block, per_second: int, count: int, server_pid: int) -> Outcome:
    """Sends at a fixed rate: each send has its due time, whatever the server does, and its latency counts from
    there."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1)
    scanner = ReceiptScanner(block, connection.answer)
    frames = [block.data[block.offsets[k] : block.offsets[k + 1]] for k in range(block.frames)]
    latencies: list[float] = []
    sent = 0
    watch = Stopwatch(server_pid)
    began = time.perf_counter()
    while scanner.count < count:
        now = time.perf_counter()
        due = began + sent / per_second
        if sent < count and now >= due:
            connection.send(frames[sent % len(frames)])
            sent += 1
            continue
        wait(connection.socket, write=False, timeout=due - now if sent < count else LATE_SECONDS)
        before = scanner.count
        scanner.feed(connection.read())
        now = time.perf_counter()
        latencies += [(now - began - index / per_second) * 1000 for index in range(before, scanner.count)]
        if sent == count and now > due + STALL_SECONDS:
            raise DriverError(f"{count - scanner.count} receipts missing")
    outcome = watch.outcome(count)
    return with_latencies(outcome, latencies)


def with_latencies(outcome: Outcome, latencies_ms: list[float]) -> Outcome:
    """Returns the outcome with the quantiles of these latencies."""
    ordered = sorted(latencies_ms)
    outcome.p50_ms, outcome.p99_ms, outcome.p999_ms = (quantile(ordered, each) for each in (0.5, 0.99, 0.999))
    outcome.max_ms = ordered[-1]
    return outcome


def quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def consume(connection: Connection, block: Block, entries: int, server_pid: int) -> Outcome:
    """Receives the entries. Permits are renewed when half of them are used, and now and then a cumulative
    acknowledgement goes out."""
    scanner = MessageScanner(block, connection.answer)
    permits = PERMITS
    unacknowledged = 0
    watch = Stopwatch(server_pid)
    connection.send(flow(PERMITS))
    while scanner.count < entries:
        wait(connection.socket, write=False)
        got = scanner.feed(connection.read())
        permits -= got * block.per_frame
        unacknowledged += got * block.per_frame
        if permits <= PERMITS // 2:
            connection.send(flow(PERMITS - permits))
            permits = PERMITS
        if unacknowledged >= ACK_EVERY:
            connection.send(cumulative_ack(scanner.last))
            unacknowledged = 0
    outcome = watch.outcome(entries * block.per_frame)
    connection.send(cumulative_ack(scanner.last))
    return outcome


def flow(permits: int) -> bytes:
    return wire.frame(wire.FLOW, [(1, CONSUMER_ID), (2, permits)])


def cumulative_ack(place: tuple[int, int]) -> bytes:
    return wire.frame(wire.ACK, [(1, CONSUMER_ID), (2, 1), (3, [(1, place[0]), (2, place[1])])])


def run(arguments: argparse.Namespace) -> Outcome:
    block = build_block(arguments.size, arguments.batch)
    connection = Connection(arguments.port)
    client = connection.client
    frames = arguments.messages // arguments.batch
    if arguments.mode == "consume":
        client.subscribe(arguments.topic, arguments.subscription, CONSUMER_ID)
        connection.go()
        return consume(connection, block, frames, arguments.server_pid)
    client.open_producer(arguments.topic, PRODUCER_ID)
    connection.go()
    if arguments.mode == "latency":
        return publish_at_rate(connection, block, arguments.rate, frames, arguments.server_pid)
    return publish(connection, block, frames, arguments.window, arguments.server_pid)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.driver", description=__doc__)
    parser.add_argument("mode", choices=["publish", "latency", "consume"])
    parser.add_argument("--port", type=int, required=True, help="the broker's port on 127.0.0.1")
    parser.add_argument("--server-pid", type=int, required=True, help="whose CPU time is counted")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--subscription", default="bench")
    parser.add_argument("--messages", type=int, required=True)
    parser.add_argument("--size", type=int, default=1024, help="bytes of a message")
    parser.add_argument("--batch", type=int, default=1, help="messages of a batch; 1 = unbatched")
    parser.add_argument("--window", type=int, default=2000, help="frames without a receipt")
    parser.add_argument("--rate", type=int, default=1000, help="messages a second (latency)")
    try:
        outcome = run(parser.parse_args())
    except (DriverError, wire.ClosedError, OSError) as error:
        print(f"driver: {type(error).__name__} {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(outcome)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
