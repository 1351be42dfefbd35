"""Seeking a subscription with the official client, by id, by time and to both ends; earlier acknowledgements are
forgotten."""

import time

import pulsar
import pytest

from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin
from compat_tests.python.support import assert_silent, bodies, receive, receive_bodies, send_all

EARLIEST = pulsar.InitialPosition.Earliest
TYPES = pytest.mark.parametrize(
    "kind",
    [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover],
    ids=lambda kind: kind.name,
)


@TYPES
def test_to_the_beginning_and_to_the_end(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType) -> None:
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    send_all(producer, bodies(10))
    assert receive_bodies(consumer, 10) == bodies(10)
    consumer.seek(pulsar.MessageId.earliest)
    assert receive_bodies(consumer, 10) == bodies(10)
    consumer.seek(pulsar.MessageId.earliest)
    consumer.seek(pulsar.MessageId.latest)
    send_all(producer, bodies(2, "late"))
    assert receive_bodies(consumer, 2) == bodies(2, "late")
    assert_silent(consumer)


@pytest.mark.parametrize("inclusive", [False, True], ids=["exclusive", "inclusive"])
def test_to_a_message(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=inclusive)
    ids = send_all(client.create_producer(topic), bodies(10))
    assert receive_bodies(consumer, 10) == bodies(10)
    consumer.seek(ids[4])
    expected = bodies(10)[4 if inclusive else 5 :]
    assert receive_bodies(consumer, len(expected)) == expected


def test_into_a_batch(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", start_message_id_inclusive=True, batch_index_ack_enabled=True)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=5)
    send_all(producer, bodies(15))
    messages = receive(consumer, 15)
    consumer.acknowledge_cumulative(messages[-1])
    consumer.seek(messages[7].message_id())
    assert receive_bodies(consumer, 8) == bodies(15)[7:]


@pytest.mark.parametrize("excluded", [False, True], ids=["inclusive", "exclusive"])
@pytest.mark.parametrize("index", [0, 2, 4])
def test_reset_over_rest_into_a_batch(
    client: pulsar.Client, server: Server, topic: str, index: int, excluded: bool
) -> None:
    consumer = client.subscribe(topic, "s", batch_index_ack_enabled=True)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=5)
    send_all(producer, bodies(10))
    messages = receive(consumer, 10)
    target = messages[index].message_id()
    body = {"ledgerId": target.ledger_id(), "entryId": target.entry_id(), "batchIndex": index, "excluded": excluded}
    Admin(server).post(f"{topic.replace('://', '/')}/subscription/s/resetcursor", body)
    expected = bodies(10)[index + excluded :]
    assert receive_bodies(consumer, len(expected)) == expected
    assert_silent(consumer)


def test_to_a_time(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    send_all(producer, bodies(10, "old"))
    receive_bodies(consumer, 10)
    between_ms = int(time.time() * 1000) + 2
    wait_until(lambda: time.time() * 1000 > between_ms + 2, "the clock moves on")
    send_all(producer, bodies(10, "new"))
    receive_bodies(consumer, 10)
    consumer.seek(between_ms)
    assert receive_bodies(consumer, 10) == bodies(10, "new")
    consumer.seek(1000)
    assert receive_bodies(consumer, 20) == bodies(10, "old") + bodies(10, "new")
    consumer.seek(int(time.time() * 1000) + 60_000)
    producer.send(b"after")
    assert receive_bodies(consumer, 1) == [b"after"]


def test_a_seek_is_kept_by_the_subscription(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    ids = send_all(client.create_producer(topic), bodies(10))
    receive_bodies(consumer, 10)
    consumer.seek(ids[5])
    consumer.close()
    again = client.subscribe(topic, "s")
    assert receive_bodies(again, 5) == bodies(10)[5:], "the broker keeps the message itself; only the client skips it"


def test_a_seek_clears_the_holes_of_a_shared_subscription(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    send_all(client.create_producer(topic), bodies(10))
    for index, message in enumerate(receive(consumer, 10)):
        if index % 2:
            consumer.acknowledge(message)
    consumer.seek(pulsar.MessageId.earliest)
    assert sorted(receive_bodies(consumer, 10)) == sorted(bodies(10))
