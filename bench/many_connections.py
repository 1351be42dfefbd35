"""The raw driver of many connections: one consumer on each, on a topic of its own, which comes back when the server was
gone.

It runs as a process of its own (`python -m bench.many_connections …`) with one thread. Whenever all consumers are
subscribed it prints a line, a JSON object with an `Attached`. Then it waits until connections are lost, and connects
them again with the back-off of the official clients: 100 ms at first, and twice as long after each failure. It ends
with its standard input.
"""

import argparse
import errno
import heapq
import json
import selectors
import socket
import sys
import time
from dataclasses import asdict, dataclass

from bench.driver import take_descriptors
from bench.frames import CONSUMER_ID, DriverError, Scanner
from compat_tests import wire

BACK_OFF_SECONDS = 0.1
OPENING_MAX = 500
"""How many connections are being opened at once at first. After a loss all of them come at once."""
READ_BYTES = 1 << 16
PERMITS = 1000
SHARED, LATEST = 1, 0
REQUEST_ID = 1
NO_FRAME = b""
"""The type that no frame has."""

CONNECT_FRAME = wire.frame(wire.CONNECT, [(1, "wire"), (4, wire.PROTOCOL_VERSION)])
FLOW_FRAME = wire.frame(wire.FLOW, [(1, CONSUMER_ID), (2, PERMITS)])
PONG_FRAME = wire.frame(wire.PONG, [])


@dataclass(frozen=True, slots=True)
class Attached:
    """All consumers are subscribed. `at` is the monotonic time; the counts are those since the line before."""

    at: float
    refused: int
    """How many lookups and subscriptions the server answered with an error."""
    lost: int
    """How many connections ended before their consumer was subscribed. Those that no server listened for do not
    count."""


class Guest(Scanner):
    """One connection with its consumer: it connects, looks the topic up, subscribes and gives permits."""

    def __init__(self, crowd: "Crowd", topic: str) -> None:
        super().__init__(self._answered)
        self._crowd = crowd
        self._topic = topic
        self._socket: socket.socket | None = None
        self._is_connected = False
        self.is_subscribed = False
        self._failures = 0

    def __lt__(self, other: "Guest") -> bool:
        return id(self) < id(other)

    def open(self) -> None:
        self._rest = b""
        self._is_connected = False
        self._socket = sock = socket.socket()
        sock.setblocking(False)
        if sock.connect_ex(("127.0.0.1", self._crowd.port)) not in (0, errno.EINPROGRESS):
            self.lost()
            return
        self._crowd.selector.register(sock, selectors.EVENT_WRITE, self)

    def ready(self) -> None:
        assert self._socket is not None
        if not self._is_connected:
            if self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.lost()
                return
            self._is_connected = True
            self._crowd.selector.modify(self._socket, selectors.EVENT_READ, self)
            self._send(CONNECT_FRAME)
            return
        try:
            read = self._socket.recv(READ_BYTES)
        except ConnectionError:
            read = b""
        if read:
            self._scan(read, NO_FRAME, lambda data, at, following: None)
        else:
            self.lost()

    def lost(self) -> None:
        """Closes the connection, if there is one, and opens it again after the back-off."""
        assert self._socket is not None
        if self._socket in self._crowd.selector.get_map():
            self._crowd.selector.unregister(self._socket)
        self._socket.close()
        self._crowd.lost += self._is_connected and not self.is_subscribed
        self._crowd.subscribed -= self.is_subscribed
        self.is_subscribed = False
        self._crowd.open_later(self, BACK_OFF_SECONDS * 2**self._failures)
        self._failures += 1

    def _answered(self, kind: int, message: wire.Message) -> None:
        if kind == wire.CONNECTED:
            self._send(wire.frame(wire.LOOKUP, [(1, self._topic), (2, REQUEST_ID), (3, 0)]))
        elif kind == wire.LOOKUP_RESPONSE and wire.number(message, 3) != wire.FAILED:
            fields: list[wire.Field] = [(1, self._topic), (2, "bench"), (3, SHARED), (4, CONSUMER_ID)]
            self._send(wire.frame(wire.SUBSCRIBE, [*fields, (5, REQUEST_ID), (13, LATEST)]))
        elif kind in (wire.LOOKUP_RESPONSE, wire.ERROR):
            self._crowd.refused += 1
            self.lost()
        elif kind == wire.SUCCESS:
            self._send(FLOW_FRAME)
            self.is_subscribed = True
            self._failures = 0
            self._crowd.subscribed += 1
        elif kind == wire.PING:
            self._send(PONG_FRAME)
        elif kind == wire.CLOSE_CONSUMER:
            self.lost()
        else:
            raise DriverError(f"unexpected command {kind}: {message}")

    def _send(self, data: bytes) -> None:
        """Sends a small frame, for which a socket always has room unless its peer has gone."""
        assert self._socket is not None
        try:
            self._socket.send(data)
        except ConnectionError:
            return  # The next read says so.


class Crowd:
    """All connections of the driver."""

    def __init__(self, port: int, topics: list[str]) -> None:
        self.port = port
        self.selector = selectors.DefaultSelector()
        self.subscribed = 0
        self.refused = 0
        self.lost = 0
        self._guests = [Guest(self, topic) for topic in topics]
        self._to_open = list(self._guests)
        self._later: list[tuple[float, Guest]] = []

    def open_later(self, guest: Guest, seconds: float) -> None:
        heapq.heappush(self._later, (time.monotonic() + seconds, guest))

    def run(self) -> None:
        """Reports each time at which all consumers are subscribed, until the standard input ends."""
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        opened, was_whole = 0, False
        while True:
            while self._to_open and opened - self.subscribed < OPENING_MAX:
                opened += 1
                self._to_open.pop().open()
            while self._later and self._later[0][0] <= time.monotonic():
                heapq.heappop(self._later)[1].open()
            timeout = max(0.0, self._later[0][0] - time.monotonic()) if self._later else None
            for key, _ in self.selector.select(timeout):
                if key.data is None:
                    return
                key.data.ready()
            is_whole = self.subscribed == len(self._guests)
            if is_whole and not was_whole:
                print(json.dumps(asdict(Attached(time.monotonic(), self.refused, self.lost))), flush=True)
                self.refused = self.lost = 0
            was_whole = is_whole


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.many_connections", description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="the broker's port on 127.0.0.1")
    parser.add_argument("--topic", required=True, help="the beginning of the topics' names")
    parser.add_argument("--connections", type=int, default=10_000)
    arguments = parser.parse_args()
    take_descriptors()
    topics = [f"{arguments.topic}-{number}" for number in range(arguments.connections)]
    try:
        Crowd(arguments.port, topics).run()
    except (DriverError, OSError) as error:
        print(f"driver: {type(error).__name__} {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
