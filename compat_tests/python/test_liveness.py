"""Peers that hang are noticed by keep-alive, replaced when another client wants their place, and never a burden on
others."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pulsar
import pytest

from compat_tests import wire
from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server
from compat_tests.python.support import bodies, receive_bodies, send_all
from compat_tests.wire import WireClient

KEEP_ALIVE_SECONDS = 2
LIVENESS_TIMEOUT_MS = 500
BODY_BYTES = 10_000
GROWTH_MB_MAX = 160
"""More than the tail cache (64 MB) and the bookie's buffers, and far less than what is sent to a consumer that does not
read."""


@pytest.fixture
def impatient(make_server: ServerFactory) -> Server:
    """Returns a server that notices hanging peers soon."""
    settings = {
        "keepAliveIntervalSeconds": str(KEEP_ALIVE_SECONDS),
        "connectionLivenessCheckTimeoutMillis": str(LIVENESS_TIMEOUT_MS),
    }
    server = make_server(settings=settings)
    server.start()
    return server


def test_a_peer_that_does_not_answer_pings_is_dropped_and_one_that_does_is_kept(impatient: Server) -> None:
    port = impatient.broker_port
    with WireClient(port) as deaf, WireClient(port) as lively, ThreadPoolExecutor() as pool:
        answer = pool.submit(lively.expect, wire.PONG)  # until the PONG comes, it also answers pings
        deaf.answers_pings = False
        began = time.monotonic()
        deaf.expect_closed()
        assert time.monotonic() - began > 0.5 * KEEP_ALIVE_SECONDS
        lively.send(wire.PING, [])
        answer.result()


def test_a_peer_that_never_begins_is_dropped(impatient: Server) -> None:
    with WireClient(impatient.broker_port, handshake=False) as silent:
        silent.answers_pings = False
        silent.expect_closed()


def test_a_hanging_consumer_and_producer_give_way(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    server = make_server(settings={"connectionLivenessCheckTimeoutMillis": str(LIVENESS_TIMEOUT_MS)})
    server.start()
    with WireClient(server.broker_port) as hanging:
        hanging.subscribe(topic, "s")
        hanging.send(wire.PRODUCER, [(1, topic), (2, 1), (3, 9), (4, "mine")])
        hanging.expect(wire.PRODUCER_SUCCESS)
        client = make_client(server.broker_url)
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic, producer_name="mine")
        producer.send(b"taken over")
        assert receive_bodies(consumer, 1) == [b"taken over"]


@pytest.fixture
def memory_bound(server: Server, is_peer: bool) -> Iterator[None]:
    """Checks that the server's memory grows by no more than its named bounds during a test."""
    before = psutil.Process(server.pid).memory_full_info().pss
    yield
    grown = (psutil.Process(server.pid).memory_full_info().pss - before) / 1e6
    assert is_peer or grown < GROWTH_MB_MAX, f"grew by {grown:.0f} MB"


@pytest.mark.usefixtures("memory_bound")
def test_a_consumer_that_does_not_read_holds_up_nobody(server: Server, client: pulsar.Client, topic: str) -> None:
    count = 30_000
    with WireClient(server.broker_port) as stuck:
        stuck.subscribe(topic, "stuck")
        stuck.send(wire.FLOW, [(1, 1), (2, 1_000_000)])
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(topic, block_if_queue_full=True)
        body = bytes(BODY_BYTES)
        for _ in range(count):
            producer.send_async(body, lambda *_: None)
            if producer.last_sequence_id() % 1000 == 0:
                producer.flush()
        producer.flush()
        for _ in range(count):
            consumer.acknowledge(consumer.receive(60_000))
    again = client.subscribe(topic, "stuck")
    assert again.receive(60_000).data() == body


def test_a_producer_that_does_not_read_its_receipts_gets_them_later(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    count = 60_000
    with WireClient(server.broker_port) as lazy:
        lazy.open_producer(topic)
        lazy.socket.settimeout(60)
        frames = b"".join(wire.send_frame(1, sequence, b"x" * 50) for sequence in range(count))
        sending = threading.Thread(target=lazy.socket.sendall, args=(frames,))
        sending.start()
        send_all(client.create_producer(topic), bodies(10))
        for sequence in range(count):
            assert wire.number(lazy.expect(wire.SEND_RECEIPT), 2) == sequence
        sending.join()
