"""The client protocol written by hand: enough protobuf to send any frame, valid or not, and to look at the answers.

It shares no code with the server on purpose, because a field number that is wrong on both sides would not be noticed.
Numbers are those of Pulsar's `PulsarApi.proto`. Fields are pairs (number, int | bytes | str | list of pairs); a parsed
message is a dict that maps each field number to the list of its values.
"""

import socket
import struct
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import google_crc32c

CONNECT, CONNECTED, SUBSCRIBE, PRODUCER, SEND, SEND_RECEIPT, SEND_ERROR, MESSAGE, ACK, FLOW = (
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
)
UNSUBSCRIBE, SUCCESS, ERROR, CLOSE_PRODUCER, CLOSE_CONSUMER, PRODUCER_SUCCESS, PING, PONG = (
    12,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
)
LOOKUP, LOOKUP_RESPONSE, SEEK, GET_LAST_MESSAGE_ID, ACK_RESPONSE = 23, 24, 28, 29, 38
REDIRECT, FAILED = 0, 2
"""Kinds of a LOOKUP_RESPONSE: one that names a broker to ask instead of the owner, and one that holds an error."""
LOOKUPS_MAX = 20

MAX_MESSAGE_BYTES = 5 * 1024 * 1024
FRAME_PADDING_BYTES = 10 * 1024
CHECKSUM_MAGIC = b"\x0e\x01"
PROTOCOL_VERSION = 20
TIMEOUT_SECONDS = 60.0

Field = tuple[int, "int | bytes | str | list[Field]"]
Message = dict[int, list[int | bytes]]


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode(fields: Iterable[Field]) -> bytes:
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
            continue
        data = value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else encode(value)
        out += varint(number << 3 | 2) + varint(len(data)) + data
    return bytes(out)


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns the value at an offset, and the offset behind it. Raises IndexError when the bytes are cut short."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def decode(data: bytes) -> Message:
    """Parses a message. Raises ValueError for a wire type that Pulsar's commands do not use."""
    message: Message = {}
    at = 0
    value: int | bytes
    while at < len(data):
        key, at = decode_varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = decode_varint(data, at)
        elif kind == 2:
            length, at = decode_varint(data, at)
            value = data[at : at + length]
            at += length
        elif kind == 1:
            value = data[at : at + 8]
            at += 8
        else:
            raise ValueError(f"wire type {kind} at {at}")
        message.setdefault(key >> 3, []).append(value)
    return message


def number(message: Message, field: int, default: int = 0) -> int:
    values = message.get(field)
    if not values:
        return default
    value = values[-1]
    assert isinstance(value, int)
    return value


def blob(message: Message, field: int, default: bytes = b"") -> bytes:
    values = message.get(field)
    if not values:
        return default
    value = values[-1]
    assert isinstance(value, bytes)
    return value


def text(message: Message, field: int) -> str:
    return blob(message, field).decode()


def command(kind: int, fields: list[Field]) -> bytes:
    """Returns a BaseCommand, in which the number of the type is also the number of the field."""
    return encode([(1, kind), (kind, fields)])


def frame(kind: int, fields: list[Field], payload: bytes = b"") -> bytes:
    body = command(kind, fields)
    return struct.pack(">II", 4 + len(body) + len(payload), len(body)) + body + payload


def payload(metadata: list[Field], body: bytes, checksum: int | None = None) -> bytes:
    """Returns what follows the command in SEND. `checksum` replaces the right one."""
    encoded = encode(metadata)
    covered = struct.pack(">I", len(encoded)) + encoded + body
    crc = crc32c(covered) if checksum is None else checksum
    return CHECKSUM_MAGIC + struct.pack(">I", crc) + covered


def crc32c(data: bytes) -> int:
    value: int = google_crc32c.value(data)
    return value


def message_metadata(producer_name: str, sequence_id: int, extra: Iterable[Field] = ()) -> list[Field]:
    return [(1, producer_name), (2, sequence_id), (3, int(time.time() * 1000)), *extra]


def send_frame(producer_id: int, sequence_id: int, body: bytes, producer_name: str = "wire") -> bytes:
    """Returns a SEND of one unbatched message."""
    data = payload(message_metadata(producer_name, sequence_id), body)
    return frame(SEND, [(1, producer_id), (2, sequence_id), (3, 1)], data)


class ClosedError(Exception):
    """The server closed the connection."""


class WireClient:
    """One blocking connection, used as a context manager. `connect()` also shakes hands, unless it is told not to."""

    def __init__(self, port: int, *, handshake: bool = True) -> None:
        self.port = port
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
        self._buffer = bytearray()
        self.answers_pings = True
        if handshake:
            self._shake_hands()

    def _shake_hands(self) -> None:
        self.send(CONNECT, [(1, "wire"), (4, PROTOCOL_VERSION)])
        self.expect(CONNECTED)

    def send(self, kind: int, fields: list[Field], data: bytes = b"") -> None:
        self.socket.sendall(frame(kind, fields, data))

    def send_raw(self, data: bytes) -> None:
        """Sends bytes as they are. Errors because the server has closed are ignored, since `expect_closed` shows
        them."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self, timeout_seconds: float = TIMEOUT_SECONDS) -> tuple[int, Message, bytes]:
        """Returns the next frame: (command, its fields, payload). A PING is answered on the way. Raises ClosedError,
        TimeoutError."""
        deadline = time.monotonic() + timeout_seconds
        while True:
            total, size = struct.unpack(">II", self._read(8, deadline))
            rest = self._read(total - 4, deadline)
            base = decode(rest[:size])
            kind = number(base, 1)
            if kind == PING:
                if self.answers_pings:
                    self.send(PONG, [])
                continue
            return kind, decode(blob(base, kind)), rest[size:]

    def expect(self, kind: int, timeout_seconds: float = TIMEOUT_SECONDS) -> Message:
        """Returns the next frame, which must be of this kind."""
        got, message, _ = self.receive(timeout_seconds)
        assert got == kind, f"expected command {kind}, got {got}: {message}"
        return message

    def expect_closed(self, timeout_seconds: float = TIMEOUT_SECONDS) -> list[int]:
        """Waits for the end of the connection and returns the commands that came before it. Raises TimeoutError."""
        deadline = time.monotonic() + timeout_seconds
        kinds: list[int] = []
        try:
            while True:
                kinds.append(self.receive(deadline - time.monotonic())[0])
        except ClosedError:
            return kinds

    def _read(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise TimeoutError(f"no frame in time; {len(self._buffer)} bytes of one")
            self.socket.settimeout(remaining)
            try:
                chunk = self.socket.recv(1 << 16)
            except ConnectionResetError:
                raise ClosedError from None
            if not chunk:
                raise ClosedError
            self._buffer += chunk
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    def go_to_owner(self, topic: str, request_id: int = 1) -> None:
        """Looks the topic up. When another broker owns it, this becomes a connection to that broker."""
        authoritative = 0
        for _ in range(LOOKUPS_MAX):
            self.send(LOOKUP, [(1, topic), (2, request_id), (3, authoritative)])
            answer = self.expect(LOOKUP_RESPONSE)
            port, kind = int(text(answer, 1).rpartition(":")[2] or self.port), number(answer, 3)
            if port != self.port:
                self.socket.close()
                self.port = port
                self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS)
                self._shake_hands()
            if kind != REDIRECT:
                return
            authoritative = number(answer, 5)
        raise AssertionError(f"{LOOKUPS_MAX} lookups led nowhere")

    def open_producer(self, topic: str, producer_id: int = 1, request_id: int = 1) -> str:
        """Creates a producer and returns its name."""
        self.go_to_owner(topic, request_id + 1000)
        self.send(PRODUCER, [(1, topic), (2, producer_id), (3, request_id)])
        return text(self.expect(PRODUCER_SUCCESS), 2)

    def subscribe(self, topic: str, subscription: str, consumer_id: int = 1, request_id: int = 1) -> None:
        """Makes an exclusive durable subscription from the earliest message on."""
        self.go_to_owner(topic, request_id + 1000)
        fields: list[Field] = [(1, topic), (2, subscription), (3, 0), (4, consumer_id), (5, request_id), (13, 1)]
        self.send(SUBSCRIBE, fields)
        self.expect(SUCCESS)

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def owner_port(port: int, topic: str) -> int:
    """Returns the port of the broker that owns the topic, as the broker at `port` and those that it names say."""
    with WireClient(port) as client:
        client.go_to_owner(topic)
        return client.port
