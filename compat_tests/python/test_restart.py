"""What a subscription remembers over a clean stop and over SIGKILL: its position, holes, and batches acknowledged in
part."""

import time
from collections.abc import Callable

import pulsar
import pytest

from compat_tests import wire
from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server
from compat_tests.python.support import assert_silent, bodies, position, receive, receive_bodies, send_all

SHARED = pulsar.ConsumerType.Shared
ACKS_PERSISTED_WITHIN_SECONDS = 3.0
"""The server promises to store acknowledgements within a second of the last change. The rest is for a busy machine,
which may stall."""

Restart = Callable[[Server], None]


def cleanly(server: Server) -> None:
    server.restart()


def after_sigkill(server: Server) -> None:
    """Lets the promised time for acknowledgements pass, since the promise is what is tested, and then kills the
    server."""
    time.sleep(ACKS_PERSISTED_WITHIN_SECONDS)
    server.kill()
    server.start()


@pytest.fixture(params=[cleanly, after_sigkill], ids=lambda how: how.__name__)
def restart(request: pytest.FixtureRequest, is_peer: bool) -> Restart:
    if is_peer and request.param is after_sigkill:
        pytest.skip("the peer flushes acks every 60 s (NOTES.md)")
    chosen: Restart = request.param
    return chosen


def test_positions_and_holes_stay(own_server: Server, restart: Restart, topic: str, make_client: ClientFactory) -> None:
    client = make_client(own_server.broker_url)
    cumulative = client.subscribe(topic, "cumulative")
    holes = client.subscribe(topic, "holes", SHARED)
    client.subscribe(topic, "untouched").close()
    done = client.subscribe(topic, "done")
    send_all(client.create_producer(topic), bodies(100))
    cumulative.acknowledge_cumulative(receive(cumulative, 100)[41])
    for index, message in enumerate(receive(holes, 100)):
        if index % 7:
            holes.acknowledge(message)
    receive_bodies(done, 100)
    client.close()

    restart(own_server)
    client = make_client(own_server.broker_url)
    assert receive_bodies(client.subscribe(topic, "cumulative"), 58) == bodies(100)[42:]
    again = client.subscribe(topic, "holes", SHARED)
    assert receive_bodies(again, 15) == bodies(100)[::7]
    assert_silent(again)
    assert receive_bodies(client.subscribe(topic, "untouched"), 100) == bodies(100)
    assert_silent(client.subscribe(topic, "done"))


def test_half_acknowledged_batches_stay(
    own_server: Server, restart: Restart, topic: str, make_client: ClientFactory, is_peer: bool
) -> None:
    if is_peer:
        pytest.skip("the peer stores them but does not read them back (NOTES.md)")
    options = {"batch_index_ack_enabled": True}
    client = make_client(own_server.broker_url)
    individual = client.subscribe(topic, "individual", SHARED, **options)
    cumulative = client.subscribe(topic, "cumulative", **options)
    send_all(client.create_producer(topic, batching_enabled=True, batching_max_messages=10), bodies(30))
    for index, message in enumerate(receive(individual, 30)):
        if index % 2:
            individual.acknowledge(message)
    cumulative.acknowledge_cumulative(receive(cumulative, 30)[14])
    client.close()

    restart(own_server)
    client = make_client(own_server.broker_url)
    again = client.subscribe(topic, "individual", SHARED, **options)
    assert receive_bodies(again, 15) == bodies(30)[::2]
    assert_silent(again)
    assert receive_bodies(client.subscribe(topic, "cumulative", **options), 15) == bodies(30)[15:]


def test_messages_and_their_ids_stay(
    own_server: Server, restart: Restart, topic: str, make_client: ClientFactory
) -> None:
    client = make_client(own_server.broker_url)
    client.subscribe(topic, "keeps").close()
    ids = send_all(client.create_producer(topic), bodies(200))
    client.close()
    for _ in range(2):
        restart(own_server)
        client = make_client(own_server.broker_url)
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        messages = [reader.read_next(60_000) for _ in range(200)]
        assert [message.data() for message in messages] == bodies(200)
        assert [position(message.message_id()) for message in messages] == [position(each) for each in ids]
        client.close()


def test_a_topic_is_written_on_after_each_restart(
    own_server: Server, restart: Restart, topic: str, make_client: ClientFactory
) -> None:
    expected: list[bytes] = []
    client = make_client(own_server.broker_url)
    client.subscribe(topic, "s").close()
    for generation in range(3):
        client = make_client(own_server.broker_url)
        send_all(client.create_producer(topic), bodies(20, str(generation)))
        expected += bodies(20, str(generation))
        client.close()
        restart(own_server)
    client = make_client(own_server.broker_url)
    assert receive_bodies(client.subscribe(topic, "s"), 60) == expected


def test_an_unsubscribed_name_stays_gone(
    own_server: Server, restart: Restart, topic: str, make_client: ClientFactory
) -> None:
    client = make_client(own_server.broker_url)
    client.subscribe(topic, "keeps").close()
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), bodies(5))
    receive_bodies(consumer, 5)
    consumer.unsubscribe()
    client.close()
    restart(own_server)
    client = make_client(own_server.broker_url)
    again = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert receive_bodies(again, 5) == bodies(5)


def test_an_answered_ack_survives_a_kill_at_once(own_server: Server, topic: str, is_peer: bool) -> None:
    if is_peer:
        pytest.skip("the peer answers before the ack is durable (NOTES.md)")
    with wire.WireClient(own_server.broker_port) as client:
        client.subscribe(topic, "s")
        client.open_producer(topic)
        client.send(wire.FLOW, [(1, 1), (2, 10)])
        for sequence in range(10):
            client.socket.sendall(wire.send_frame(1, sequence, f"{sequence}".encode()))
        ids = [message_id for message_id, _ in receive_messages(client, 10)]
        fields: list[wire.Field] = [(1, 1), (2, 0), *((3, encoded) for encoded in ids[::2]), (8, 77)]
        client.send(wire.ACK, fields)
        answer = client.expect(wire.ACK_RESPONSE)
        assert wire.number(answer, 6) == 77
        assert 4 not in answer, "an error"
        own_server.kill()
    own_server.start()
    with wire.WireClient(own_server.broker_port) as client:
        client.subscribe(topic, "s")
        client.send(wire.FLOW, [(1, 1), (2, 10)])
        assert [message_id for message_id, _ in receive_messages(client, 5)] == ids[1::2]


def receive_messages(client: wire.WireClient, count: int) -> list[tuple[bytes, bytes]]:
    """Returns (encoded message id, payload) of the next messages; other frames in between are skipped."""
    got: list[tuple[bytes, bytes]] = []
    while len(got) < count:
        kind, message, payload = client.receive()
        if kind == wire.MESSAGE:
            got.append((wire.blob(message, 2), payload))
    return got


def test_a_server_that_was_killed_while_it_started_starts_again(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, is_peer: bool
) -> None:
    if is_peer:
        pytest.skip("the peer may not start again after that (NOTES.md)")
    server = make_server()
    server.start()
    client = make_client(server.broker_url)
    client.subscribe(topic, "s").close()
    send_all(client.create_producer(topic), bodies(100))
    client.close()
    server.kill()
    for delay_ms in (5, 50, 100, 150, 200, 250, 300, 400):
        server.spawn()
        time.sleep(delay_ms / 1000)
        server.kill()
    server.start()
    client = make_client(server.broker_url)
    assert receive_bodies(client.subscribe(topic, "s"), 100) == bodies(100)
