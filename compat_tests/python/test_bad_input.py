"""Bad input on the broker port gets the answer that the protocol names, or a closed connection; all other clients go
on."""

import socket
import struct
from collections.abc import Iterator

import pulsar
import pytest

from compat_tests import wire
from compat_tests.harness import Server, wait_until
from compat_tests.python.support import receive_bodies
from compat_tests.wire import Field, WireClient

CHECKSUM_ERROR, METADATA_ERROR, TOPIC_NOT_FOUND, INVALID_TOPIC_NAME = 9, 1, 11, 17
LARGEST_FRAME = wire.MAX_MESSAGE_BYTES + wire.FRAME_PADDING_BYTES
HTTP = b"GET /admin/v2/clusters HTTP/1.1\r\nHost: localhost\r\n\r\n"
TLS_HELLO = bytes.fromhex("160301020001000 1fc0303".replace(" ", "")) + b"\x5a" * 480


@pytest.fixture(autouse=True)
def _bystander(client: pulsar.Client, topic: str) -> Iterator[None]:
    """Keeps another client's producer and consumer connected, which must not notice anything."""
    name = f"{topic}-bystander"
    consumer, producer = client.subscribe(name, "s"), client.create_producer(name)
    producer.send(b"before")
    yield
    assert producer.is_connected()
    producer.send(b"after")
    assert receive_bodies(consumer, 2) == [b"before", b"after"]


@pytest.fixture
def peer(server: Server) -> Iterator[WireClient]:
    with WireClient(server.broker_port) as connected:
        yield connected


CLOSING = {
    "a frame one byte too long": struct.pack(">II", LARGEST_FRAME + 1, 8) + bytes(8),
    "a frame of two gigabytes": struct.pack(">II", 0x7FFFFFFF, 8) + bytes(8),
    "a negative frame length": struct.pack(">II", 0xFFFFFFFF, 8) + bytes(8),
    "a command longer than its frame": struct.pack(">II", 12, 4000) + bytes(8),
    "a negative command length": struct.pack(">II", 12, 0xFFFFFFF0) + bytes(8),
    "a command that is no protobuf": struct.pack(">II", 12, 8) + b"\xff" * 8,
    "a command without a type": struct.pack(">II", 4, 0),
    "HTTP": HTTP,
    "TLS": TLS_HELLO,
    "a second CONNECT": wire.frame(wire.CONNECT, [(1, "again"), (4, 20)]),
    "SEND of an unknown producer": wire.send_frame(77, 0, b"who?"),
    "PRODUCER without a topic": wire.frame(wire.PRODUCER, [(2, 1), (3, 1)]),
    "SUBSCRIBE without a subscription": wire.frame(wire.SUBSCRIBE, [(1, "t"), (3, 0), (4, 1), (5, 1)]),
    "SEND without a sequence id": wire.frame(wire.SEND, [(1, 1)], wire.payload(wire.message_metadata("p", 0), b"x")),
}


@pytest.mark.parametrize("what", CLOSING)
def test_the_connection_is_closed_after(server: Server, peer: WireClient, what: str, is_peer: bool) -> None:
    log_before = server.log_size()
    host, port = peer.socket.getsockname()
    peer.send_raw(CLOSING[what])
    assert peer.expect_closed() == []
    if not is_peer:
        wait_until(lambda: f"{host}:{port}" in server.log_text(log_before), "a log line that names the peer")


UNSHAKEN = {
    "PRODUCER": wire.frame(wire.PRODUCER, [(1, "t"), (2, 1), (3, 1)]),
    "SUBSCRIBE": wire.frame(wire.SUBSCRIBE, [(1, "t"), (2, "s"), (3, 0), (4, 1), (5, 1)]),
    "LOOKUP": wire.frame(wire.LOOKUP, [(1, "t"), (2, 1)]),
    "SEND": wire.send_frame(1, 0, b"x"),
    "HTTP": HTTP,
    "TLS": TLS_HELLO,
    "random bytes": bytes(range(255, 0, -1)),
}


@pytest.mark.parametrize("what", UNSHAKEN)
def test_the_connection_is_closed_when_it_does_not_begin_with_connect_but(server: Server, what: str) -> None:
    with WireClient(server.broker_port, handshake=False) as stranger:
        stranger.send_raw(UNSHAKEN[what])
        assert stranger.expect_closed() == []


def test_a_ping_is_answered_even_before_connect(server: Server) -> None:
    with WireClient(server.broker_port, handshake=False) as stranger:
        stranger.send(wire.PING, [])
        stranger.expect(wire.PONG)


def test_a_wrong_checksum_is_an_error_for_that_message_only(peer: WireClient, topic: str) -> None:
    peer.open_producer(topic)
    peer.subscribe(topic, "s")
    peer.send(wire.FLOW, [(1, 1), (2, 10)])
    damaged = wire.payload(wire.message_metadata("p", 0), b"damaged", checksum=12345)
    peer.send(wire.SEND, [(1, 1), (2, 0), (3, 1)], damaged)
    error = peer.expect(wire.SEND_ERROR)
    assert (wire.number(error, 1), wire.number(error, 2), wire.number(error, 3)) == (1, 0, CHECKSUM_ERROR)
    peer.socket.sendall(wire.send_frame(1, 1, b"sound"))
    kinds = {}
    for _ in range(2):
        kind, message, payload = peer.receive()
        kinds[kind] = (message, payload)
    assert wire.number(kinds[wire.SEND_RECEIPT][0], 2) == 1
    assert kinds[wire.MESSAGE][1].endswith(b"sound")


def test_a_message_without_a_checksum_is_taken(peer: WireClient, topic: str) -> None:
    peer.open_producer(topic)
    bare = wire.payload(wire.message_metadata("p", 0), b"bare")[6:]
    peer.send(wire.SEND, [(1, 1), (2, 0), (3, 1)], bare)
    peer.expect(wire.SEND_RECEIPT)


REFUSED: dict[str, tuple[int, list[Field], int]] = {
    "UNSUBSCRIBE of an unknown consumer": (wire.UNSUBSCRIBE, [(1, 9), (2, 5)], METADATA_ERROR),
    "SEEK of an unknown consumer": (wire.SEEK, [(1, 9), (2, 5), (4, 1)], METADATA_ERROR),
    "GET_LAST_MESSAGE_ID of an unknown consumer": (wire.GET_LAST_MESSAGE_ID, [(1, 9), (2, 5)], METADATA_ERROR),
    "PRODUCER on a name that is no topic": (
        wire.PRODUCER,
        [(1, "ftp://public/default/t"), (2, 1), (3, 5)],
        INVALID_TOPIC_NAME,
    ),
    "SUBSCRIBE to a name that is no topic": (
        wire.SUBSCRIBE,
        [(1, "persistent://only-a-tenant"), (2, "s"), (3, 0), (4, 1), (5, 5)],
        INVALID_TOPIC_NAME,
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_error_answers(peer: WireClient, what: str) -> None:
    kind, fields, code = REFUSED[what]
    peer.send(kind, fields)
    error = peer.expect(wire.ERROR)
    assert (wire.number(error, 1), wire.number(error, 2)) == (5, code), wire.text(error, 3)
    peer.send(wire.PING, [])
    peer.expect(wire.PONG)


@pytest.mark.parametrize(
    ("name", "code"),
    [("ftp://public/default/t", INVALID_TOPIC_NAME), ("persistent://public/nowhere/t", TOPIC_NOT_FOUND)],
)
def test_a_lookup_of_a_name_that_cannot_be_served_fails(peer: WireClient, name: str, code: int) -> None:
    peer.send(wire.LOOKUP, [(1, name), (2, 5)])
    answer = peer.expect(wire.LOOKUP_RESPONSE)
    failed = 2
    assert (wire.number(answer, 3), wire.number(answer, 4)) == (failed, 5)
    assert wire.number(answer, 6) == code


IGNORED = {
    "FLOW of an unknown consumer": wire.frame(wire.FLOW, [(1, 9), (2, 10)]),
    "ACK of an unknown consumer": wire.frame(wire.ACK, [(1, 9), (2, 0), (3, [(1, 1), (2, 1)])]),
    "REDELIVER of an unknown consumer": wire.frame(20, [(1, 9)]),
}


@pytest.mark.parametrize("what", IGNORED)
def test_silence_answers(peer: WireClient, what: str) -> None:
    peer.socket.sendall(IGNORED[what])
    peer.send(wire.PING, [])
    peer.expect(wire.PONG)


def test_a_command_from_the_future_is_ignored_or_ends_that_connection_only(peer: WireClient) -> None:
    """The protocol says that such a command is ignored. Apache's own broker takes the unknown type for a missing field
    and closes the connection."""
    body = wire.encode([(1, 999), (999, b"\x08\x01")])
    peer.socket.sendall(struct.pack(">II", 4 + len(body), len(body)) + body)
    peer.send_raw(wire.frame(wire.PING, []))
    try:
        peer.expect(wire.PONG)
    except wire.ClosedError:
        return


@pytest.mark.parametrize("kind", [wire.CLOSE_PRODUCER, wire.CLOSE_CONSUMER])
def test_closing_what_does_not_exist_succeeds(peer: WireClient, kind: int) -> None:
    peer.send(kind, [(1, 9), (2, 5)])
    assert wire.number(peer.expect(wire.SUCCESS), 1) == 5


def test_a_flow_of_zero_permits_closes_the_connection(peer: WireClient, topic: str) -> None:
    peer.subscribe(topic, "s")
    peer.send(wire.FLOW, [(1, 1), (2, 0)])
    peer.expect_closed()


def test_frames_that_come_byte_by_byte_are_understood(peer: WireClient, topic: str) -> None:
    peer.open_producer(topic)
    peer.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in wire.send_frame(1, 0, b"slowly"):
        peer.socket.sendall(bytes([byte]))
    peer.expect(wire.SEND_RECEIPT)


def test_a_connection_that_ends_inside_a_frame_leaves_nothing_behind(
    server: Server, peer: WireClient, topic: str
) -> None:
    peer.subscribe(topic, "s")
    peer.open_producer(topic)
    peer.socket.sendall(wire.send_frame(1, 0, b"x" * 1000)[:500])
    peer.close()
    with WireClient(server.broker_port) as successor:
        successor.subscribe(topic, "s")


def test_connections_that_come_and_go_are_forgotten(server: Server, peer: WireClient) -> None:
    for _ in range(20):
        strangers = [WireClient(server.broker_port, handshake=False) for _ in range(20)]
        for stranger in strangers:
            stranger.close()
    peer.send(wire.PING, [])
    peer.expect(wire.PONG)
