"""Strings that are not UTF-8, from a client in another language: other clients do not notice them, and neither does
anybody who looks at stats or reads the log."""

import re

import pulsar
import pytest

from compat_tests import wire
from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server
from compat_tests.python.rest import Admin
from compat_tests.python.support import receive, receive_bodies
from compat_tests.wire import ERROR, PRODUCER, SEND, SEND_RECEIPT, SUBSCRIBE, Field, WireClient

BAD = b"\xff\xfe"
METADATA_ERROR = 1
SHARED, FAILOVER = 1, 2
FAILOVER_TYPE, KEY_SHARED_TYPE = pulsar.ConsumerType.Failover, pulsar.ConsumerType.KeyShared

CHILD = re.compile(r"^[a-z]+(-\d+)? +\| ")
"""What precedes the lines of a child in the log of a cluster."""
RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR) \S+ ")


@pytest.fixture
def deduplicating(make_server: ServerFactory) -> Server:
    made = make_server(settings={"brokerDeduplicationEnabled": "true", "brokerDeduplicationEntriesInterval": "1"})
    made.start()
    return made


def refused(server: Server, kind: int, fields: list[Field]) -> None:
    """The command is answered with a metadata error, and the connection stays open."""
    with WireClient(server.broker_port) as peer:
        peer.send(kind, fields)
        assert wire.number(peer.expect(ERROR), 2) == METADATA_ERROR
        peer.send(wire.PING, [])
        peer.expect(wire.PONG)


def publish_with_key(server: Server, topic: str, key: bytes, body: bytes) -> None:
    with WireClient(server.broker_port) as peer:
        peer.open_producer(topic)
        metadata = wire.message_metadata("wire", 0, [(6, key)])
        peer.send(SEND, [(1, 1), (2, 0)], wire.payload(metadata, body))
        peer.expect(SEND_RECEIPT)


def test_nobody_notices_strings_that_are_not_utf8(
    deduplicating: Server, topic: str, make_client: ClientFactory, is_peer: bool
) -> None:
    if is_peer:
        pytest.skip("Apache's broker decodes leniently: it makes up names")
    server = deduplicating
    subscribe: list[Field] = [(1, topic), (2, "s"), (3, FAILOVER), (4, 1), (5, 1)]
    client = make_client(server.broker_url)
    by_key = client.subscribe(topic, "by-key", KEY_SHARED_TYPE)
    failover = client.subscribe(topic, "s", FAILOVER_TYPE)
    producer = client.create_producer(topic, producer_name="sound")

    publish_with_key(server, topic, BAD, b"key")
    refused(server, SUBSCRIBE, [*subscribe, (6, BAD)])
    refused(server, SUBSCRIBE, [*subscribe, (6, "wire"), (10, [(1, "k"), (2, BAD)])])
    refused(server, PRODUCER, [(1, topic), (2, 1), (3, 1), (4, BAD)])
    with WireClient(server.broker_port, handshake=False) as peer:
        peer.send(wire.CONNECT, [(1, BAD), (4, wire.PROTOCOL_VERSION)])
        assert peer.expect_closed() == [ERROR]

    producer.send(b"after", partition_key="k")
    for consumer in (by_key, failover):
        assert [message.data() for message in receive(consumer, 2)] == [b"key", b"after"]
    check_stats(server, topic)
    client.close()

    server.restart()
    again = make_client(server.broker_url)
    late = again.create_producer(topic, producer_name="late")
    late.send(b"restarted", partition_key="k")
    for consumer in (again.subscribe(topic, "by-key", KEY_SHARED_TYPE), again.subscribe(topic, "s", FAILOVER_TYPE)):
        assert receive_bodies(consumer, 3) == [b"key", b"after", b"restarted"]
    check_stats(server, topic)


def check_stats(server: Server, topic: str) -> None:
    admin, path = Admin(server), topic.replace("://", "/")
    stats = admin.get(f"{path}/stats")
    assert set(stats["subscriptions"]) == {"by-key", "s"}
    cursors = admin.get(f"{path}/internalStats")["cursors"]
    assert "pulsar.dedup" in cursors
    admin.get("broker-stats/topics")


def test_the_log_has_one_record_a_line_whatever_clients_say(server: Server, topic: str, is_peer: bool) -> None:
    if is_peer:
        pytest.skip("Apache's log is its own")
    before = server.log_size()
    forged = "\n2026-01-01 00:00:00,000 WARNING server.forged all is lost \x1b[2J\r"
    strange = f"{topic}{forged}"
    with WireClient(wire.owner_port(server.broker_port, strange)) as peer:
        peer.send(PRODUCER, [(1, strange), (2, 1), (3, 1), (4, f"p{forged}")])
        peer.expect(wire.PRODUCER_SUCCESS)
    with WireClient(wire.owner_port(server.broker_port, topic), handshake=False) as peer:
        peer.send(wire.CONNECT, [(1, f"version{forged}"), (4, wire.PROTOCOL_VERSION)])
        peer.expect(wire.CONNECTED)
        peer.send(SUBSCRIBE, [(1, topic), (2, f"s{forged}"), (3, SHARED), (4, 1), (5, 1), (6, f"c{forged}")])
        peer.expect(wire.SUCCESS)
        peer.send(wire.LOOKUP, [(1, f"bad://{forged}"), (2, 2)])
        peer.expect(wire.LOOKUP_RESPONSE)
        peer.send_raw(forged.encode() * 1_000)
        peer.expect_closed()
    text = server.log_text(before)
    assert text.count("server.forged") >= 4
    for whole in text.rstrip("\n").split("\n"):
        line = CHILD.sub("", whole)
        assert RECORD.match(line) or line.startswith("    "), line
        assert "\x1b" not in line
        assert "\r" not in line
        assert not line.startswith("2026-01-01 00:00:00,000")
