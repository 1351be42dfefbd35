"""Non-persistent topics with the official client."""

import uuid

import pulsar
import pytest

from compat_tests.python.support import assert_silent, bodies, receive, receive_bodies, send_all

TYPES = pulsar.ConsumerType


@pytest.fixture
def topic() -> str:
    return f"non-persistent://public/default/np-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("consumer_type", [TYPES.Exclusive, TYPES.Shared, TYPES.Failover, TYPES.KeyShared], ids=str)
def test_messages_reach_who_is_subscribed(
    client: pulsar.Client, topic: str, consumer_type: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", consumer_type)
    producer = client.create_producer(topic)
    send_all(producer, bodies(50))
    assert receive_bodies(consumer, 50) == bodies(50)


def test_batches_and_several_subscriptions(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, name) for name in ("a", "b")]
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=10)
    send_all(producer, bodies(100))
    for consumer in consumers:
        assert receive_bodies(consumer, 100) == bodies(100)


def test_shared_consumers_divide_the_messages(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", TYPES.Shared) for _ in range(2)]
    send_all(client.create_producer(topic), bodies(40))
    halves = [receive_bodies(consumer, 20) for consumer in consumers]
    assert sorted(halves[0] + halves[1]) == sorted(bodies(40))


def test_what_came_before_and_what_was_not_taken_is_gone(client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    send_all(producer, bodies(5, "early"))
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    send_all(producer, bodies(3))
    messages = receive(consumer, 3)
    assert [message.data() for message in messages] == bodies(3)
    consumer.close()
    send_all(producer, bodies(3, "missed"))
    again = client.subscribe(topic, "s")
    send_all(producer, bodies(2, "later"))
    assert receive_bodies(again, 2) == bodies(2, "later")
    assert_silent(again)


def test_a_slow_consumer_loses_messages_and_holds_nobody_up(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=10)
    send_all(client.create_producer(topic), bodies(200))
    assert receive_bodies(consumer, 10) == bodies(10)
    assert_silent(consumer)
