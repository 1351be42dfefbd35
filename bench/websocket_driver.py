"""The raw driver of WebSockets: frames made beforehand, so that a rate is the server's and not the client's.

Runs as a process of its own (`python -m bench.websocket_driver MODE …`) and prints one JSON object. `publish` and
`consume` use one socket; `idle` and `busy` open many, say "ready" and go on until their standard input ends.
"""

import argparse
import json
import resource
import selectors
import socket
import sys
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict

from bench.driver import STALL_SECONDS, Outcome, Stopwatch
from bench.frames import DriverError

READ_BYTES = 1 << 20
SEND_BYTES_MAX = 256 << 10
SEND_MESSAGES_MAX = 100
TEXT, PING, PONG, CLOSE = 1, 9, 10, 8
KEY_OF_NO_MASK = bytes(4)
"""A client has to mask its frames (RFC 6455, section 5.3); zeros leave the text as it is."""
NONCE = "dGhlIHNhbXBsZSBub25jZQ=="
DESCRIPTORS = 4096
BUSY_TICK_SECONDS = 0.01


def masked(text: bytes, opcode: int = TEXT) -> bytes:
    """One frame as a client sends it."""
    size = len(text)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + KEY_OF_NO_MASK + text


def producer_frame(size: int) -> bytes:
    """A message of `size` bytes, as a producer sends it."""
    return masked(b'{"payload":"%b"}' % b64encode(bytes(index % 251 for index in range(size))))


class WebSocket:
    """One open socket to a path of the web port."""

    def __init__(self, port: int, path: str) -> None:
        """Raises DriverError with the server's answer when it refuses the upgrade."""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=STALL_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request = (
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {NONCE}\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        self.socket.sendall(request.encode())
        self._rest = b""
        while b"\r\n\r\n" not in self._rest:
            data = self.socket.recv(READ_BYTES)
            if not data:
                raise DriverError(f"the server closed the connection: {self._rest!r}")
            self._rest += data
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101"):
            raise DriverError(f"no WebSocket at {path}: {head!r}")

    def read(self) -> Iterator[bytes]:
        """The texts that one read of the socket completes. Raises DriverError when the server closes the socket."""
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise DriverError("the server closed the connection")
        return self._texts(data)

    def _texts(self, data: bytes) -> Iterator[bytes]:
        data = self._rest + data if self._rest else data
        place, end = 0, len(data)
        while end - place >= 2:
            size, body = data[place + 1], place + 2
            if size == 126:
                size, body = int.from_bytes(data[body : body + 2], "big"), body + 2
            elif size == 127:
                size, body = int.from_bytes(data[body : body + 8], "big"), body + 8
            if body + size > end or body > end:
                break
            opcode = data[place] & 15
            text = data[body : body + size]
            place = body + size
            if opcode == TEXT:
                yield text
            elif opcode == PING:
                self.socket.sendall(masked(text, PONG))
            elif opcode == CLOSE:
                raise DriverError(f"the server closed the socket: {text!r}")
        self._rest = data[place:]


def checked_receipts(texts: Iterator[bytes]) -> int:
    """How many messages were stored. Raises DriverError for one that was not."""
    count = 0
    for text in texts:
        if not text.startswith(b'{"result":"ok"'):
            raise DriverError(f"not stored: {text!r}")
        count += 1
    return count


def publish(port: int, path: str, size: int, messages: int, window: int, server_pid: int) -> Outcome:
    """Sends messages as fast as `window` unanswered ones allow, until the last answer."""
    frame = producer_frame(size)
    many = frame * SEND_MESSAGES_MAX
    opened = WebSocket(port, path)
    opened.socket.setblocking(False)
    sent = stored = 0
    unsent = memoryview(b"")
    watch = Stopwatch(server_pid)
    with selectors.DefaultSelector() as selector:
        selector.register(opened.socket, selectors.EVENT_READ)
        while stored < messages:
            if not unsent:
                count = min(SEND_MESSAGES_MAX, messages - sent, window - (sent - stored))
                unsent = memoryview(many)[: count * len(frame)]
                sent += count
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent else 0)
            selector.modify(opened.socket, wanted)
            events = selector.select(STALL_SECONDS)
            if not events:
                raise DriverError(f"nothing happened for {STALL_SECONDS} s")
            if events[0][1] & selectors.EVENT_WRITE:
                unsent = unsent[opened.socket.send(unsent[:SEND_BYTES_MAX]) :]
            if events[0][1] & selectors.EVENT_READ:
                stored += checked_receipts(opened.read())
    return watch.outcome(messages)


MESSAGE_START = b'{"messageId":"'


def consume(port: int, path: str, size: int, messages: int, server_pid: int) -> Outcome:
    """Receives messages and acknowledges each."""
    payload = json.loads(producer_frame(size)[8:])["payload"].encode()
    watch = Stopwatch(server_pid)
    opened = WebSocket(port, path)
    count = 0
    texts: Iterator[bytes] = opened._texts(b"")
    while count < messages:
        acks = []
        for text in texts:
            if not text.startswith(MESSAGE_START) or payload not in text:
                raise DriverError(f"not the message that was published: {text[:200]!r}")
            end = text.index(b'"', len(MESSAGE_START))
            acks.append(masked(text[: end + 1] + b"}"))
        count += len(acks)
        opened.socket.sendall(b"".join(acks))
        if count < messages:
            texts = opened.read()
    return watch.outcome(messages)


def open_sockets(port: int, paths: list[str]) -> list[WebSocket]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, DESCRIPTORS)), hard))
    return [WebSocket(port, path) for path in paths]


def stay_idle(port: int, paths: list[str]) -> int:
    """Keeps the sockets open until standard input ends."""
    opened = open_sockets(port, paths)
    print("ready", flush=True)
    sys.stdin.read()
    for each in opened:
        each.socket.close()
    return 0


def stay_busy(port: int, paths: list[str], size: int, per_second: int) -> int:
    """Publishes `per_second` messages a second, each from the next of the sockets, until standard input ends; returns
    how many were stored. A message that its socket still waits for is not overtaken: that turn is left out."""
    frame = producer_frame(size)
    opened = open_sockets(port, paths)
    waiting: set[int] = set()
    turns = deque(range(len(opened)))
    stored = 0
    with selectors.DefaultSelector() as selector:
        for index, each in enumerate(opened):
            selector.register(each.socket, selectors.EVENT_READ, index)
        selector.register(sys.stdin, selectors.EVENT_READ, None)
        print("ready", flush=True)
        began, sent = time.monotonic(), 0
        while True:
            for key, _ in selector.select(BUSY_TICK_SECONDS):
                if key.data is None:
                    return stored
                count = checked_receipts(opened[key.data].read())
                if count:
                    stored += count
                    waiting.discard(key.data)
            while sent < (time.monotonic() - began) * per_second:
                sent += 1
                turns.rotate(-1)
                if turns[0] not in waiting:
                    waiting.add(turns[0])
                    opened[turns[0]].socket.sendall(frame)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.websocket_driver", description=__doc__)
    parser.add_argument("mode", choices=["publish", "consume", "idle", "busy"])
    parser.add_argument("--port", type=int, required=True, help="the web port on 127.0.0.1")
    parser.add_argument("--path", action="append", required=True, help="below /ws/v2/; once for each kind of socket")
    parser.add_argument("--server-pid", type=int, default=0, help="whose CPU time is counted")
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--sockets", type=int, default=1, help="how many sockets (idle, busy)")
    parser.add_argument("--size", type=int, default=1024, help="bytes of a message")
    parser.add_argument("--window", type=int, default=1000, help="messages without an answer")
    parser.add_argument("--rate", type=int, default=1000, help="messages a second (busy)")
    arguments = parser.parse_args()
    port, size = arguments.port, arguments.size
    paths = [f"/ws/v2/{arguments.path[index % len(arguments.path)]}" for index in range(arguments.sockets)]
    try:
        if arguments.mode == "idle":
            return stay_idle(port, paths)
        if arguments.mode == "busy":
            print(stay_busy(port, paths, size, arguments.rate))
            return 0
        if arguments.mode == "publish":
            outcome = publish(port, paths[0], size, arguments.messages, arguments.window, arguments.server_pid)
        else:
            outcome = consume(port, paths[0], size, arguments.messages, arguments.server_pid)
    except (DriverError, OSError) as error:
        print(f"driver: {type(error).__name__} {error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(outcome)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
