"""A Python program moves messages from one topic to another, each once, by deduplication: the official client has no
transactions. `docs/TRANSACTIONS.md` tells users to do the same."""

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server
from compat_tests.python.support import bodies, receive_bodies, send_all

COUNT = 10


@pytest.fixture
def server(make_server: ServerFactory) -> Server:
    server = make_server(settings={"brokerDeduplicationEnabled": "true"})
    server.start()
    return server


def place_of(at: pulsar.MessageId) -> int:
    """Returns a number that grows with each message of a topic. It is never 0, which the client takes for no sequence
    id: the first message of a cluster's first ledger would be stored each time."""
    return 1 + int(at.ledger_id() << 34 | at.entry_id() << 10 | max(at.batch_index(), 0))


def move(client: pulsar.Client, topic: str, count: int, acknowledge: bool) -> None:
    """Moves messages from the topic to its copy, each with its place as sequence id."""
    consumer = client.subscribe(topic, "mover", initial_position=pulsar.InitialPosition.Earliest)
    producer = client.create_producer(f"{topic}-copy", producer_name="mover", batching_enabled=False)
    for _ in range(count):
        message = consumer.receive(20_000)
        producer.send(message.data(), sequence_id=place_of(message.message_id()))
        if acknowledge:
            consumer.acknowledge(message)


def test_the_places_of_messages_grow_from_the_first_ledgers_first_message_on() -> None:
    ids = [(0, 0, -1), (0, 0, 1), (0, 1, 1023), (0, 2, -1), (1, 0, 0)]
    places = [place_of(pulsar.MessageId(-1, ledger, entry, batch)) for ledger, entry, batch in ids]
    assert places == sorted(set(places))
    assert places[0] > 0


@pytest.mark.parametrize("batching", [True, False], ids=["batches", "single"])
def test_what_was_sent_but_not_acknowledged_before_the_end_is_not_sent_twice(
    server: Server, topic: str, make_client: ClientFactory, batching: bool
) -> None:
    client = make_client(server.broker_url)
    client.subscribe(f"{topic}-copy", "s").close()
    producer = client.create_producer(topic, batching_enabled=batching)
    send_all(producer, bodies(COUNT))
    for count in (3, 6):
        cut_off = make_client(server.broker_url)
        move(cut_off, topic, count, acknowledge=False)
        cut_off.close()
    move(client, topic, COUNT, acknowledge=True)
    client.create_producer(f"{topic}-copy").send(b"end")
    consumer = client.subscribe(f"{topic}-copy", "s")
    assert receive_bodies(consumer, COUNT + 1) == [*bodies(COUNT), b"end"]
