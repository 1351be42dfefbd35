"""Many producers and consumers on one connection, HTTP service addresses, and servers that restart while clients use
them."""

import threading
from concurrent.futures import Future

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.support import bodies, read_bodies, receive_bodies, send_all, settle

EARLIEST = pulsar.InitialPosition.Earliest
TOPICS = 8
MESSAGES = 200
RECONNECT_TIMEOUT_SECONDS = 60.0


def test_many_producers_and_consumers_on_one_connection(client: pulsar.Client, topic: str) -> None:
    topics = [f"{topic}-{index}" for index in range(TOPICS)]
    consumers = [client.subscribe(name, "s") for name in topics]
    producers = [client.create_producer(name, batching_enabled=bool(index % 2)) for index, name in enumerate(topics)]
    threads = [threading.Thread(target=send_all, args=(each, bodies(MESSAGES, each.topic()))) for each in producers]
    for thread in threads:
        thread.start()
    for name, consumer in zip(topics, consumers, strict=True):
        assert receive_bodies(consumer, MESSAGES) == bodies(MESSAGES, name)
    for thread in threads:
        thread.join()


def test_closing_one_of_them_leaves_the_others_alone(client: pulsar.Client, topic: str) -> None:
    staying, leaving = client.create_producer(topic), client.create_producer(topic)
    consumer, other = client.subscribe(topic, "s"), client.subscribe(topic, "other")
    staying.send(b"one")
    leaving.close()
    other.close()
    staying.send(b"two")
    assert receive_bodies(consumer, 2) == [b"one", b"two"]
    with pytest.raises(pulsar.AlreadyClosed):
        leaving.send(b"never")


def test_a_client_with_an_http_address_finds_the_broker(server: Server, topic: str, make_client: ClientFactory) -> None:
    client = make_client(server.web_url)
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"over http lookup")
    assert receive_bodies(consumer, 1) == [b"over http lookup"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_clients_go_on_after_a_restart_by_themselves(
    own_server: Server, topic: str, make_client: ClientFactory, how: str
) -> None:
    client = make_client(own_server.broker_url)
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    send_all(producer, bodies(50))
    assert receive_bodies(consumer, 50) == bodies(50)
    assert read_bodies(reader, 50) == bodies(50)
    getattr(own_server, how)()
    wait_until(lambda: not producer.is_connected(), "the client notices", RECONNECT_TIMEOUT_SECONDS)
    receipts = [settle_later(producer, body) for body in bodies(10, "while away")]
    own_server.start()
    for receipt in receipts:
        receipt.result(RECONNECT_TIMEOUT_SECONDS)
    send_all(producer, bodies(50, "after"))
    expected = bodies(10, "while away") + bodies(50, "after")
    assert read_bodies(reader, 60) == expected
    wait_until(consumer.is_connected, "the consumer is back", RECONNECT_TIMEOUT_SECONDS)
    seen: list[bytes] = []
    while seen[-1:] != expected[-1:]:
        seen += receive_bodies(consumer, 1)
    new = [body for body in seen if body not in set(bodies(50))]
    assert new == expected, "acks of the last moment may be lost, messages not"


def settle_later(producer: pulsar.Producer, body: bytes) -> Future[pulsar.MessageId]:
    receipt: Future[pulsar.MessageId] = Future()
    producer.send_async(body, settle(receipt))
    return receipt
