"""Acknowledging with the official client: which messages are delivered again, and which are not."""

import pulsar
import pytest

from compat_tests.python.support import (
    RECEIVE_TIMEOUT_MS,
    assert_silent,
    bodies,
    receive,
    receive_bodies,
    send_all,
)

EARLIEST = pulsar.InitialPosition.Earliest
EXCLUSIVE, SHARED, FAILOVER = pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover
TYPES = pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER], ids=lambda kind: kind.name)
ORDERED_TYPES = pytest.mark.parametrize("kind", [EXCLUSIVE, FAILOVER], ids=lambda kind: kind.name)
BATCHED = pytest.mark.parametrize("batched", [False, True], ids=["unbatched", "batched"])


@TYPES
@BATCHED
def test_individual_acks_leave_holes_that_come_again(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType, batched: bool
) -> None:
    options = {"batch_index_ack_enabled": True, "initial_position": EARLIEST}
    consumer = client.subscribe(topic, "s", kind, **options)
    send_all(client.create_producer(topic, batching_enabled=batched), bodies(30))
    for index, message in enumerate(receive(consumer, 30)):
        if index % 3:
            consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", kind, **options)
    assert receive_bodies(again, 10) == bodies(30)[::3]
    assert_silent(again)


@ORDERED_TYPES
@BATCHED
def test_a_cumulative_ack_covers_everything_before_it(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType, batched: bool
) -> None:
    options = {"batch_index_ack_enabled": True, "initial_position": EARLIEST}
    consumer = client.subscribe(topic, "s", kind, **options)
    send_all(client.create_producer(topic, batching_enabled=batched), bodies(30))
    consumer.acknowledge_cumulative(receive(consumer, 30)[16])
    consumer.close()
    again = client.subscribe(topic, "s", kind, **options)
    assert receive_bodies(again, 13) == bodies(30)[17:]
    assert_silent(again)


def test_a_cumulative_ack_by_a_message_id_alone(client: pulsar.Client, topic: str) -> None:
    ids = send_all(client.create_producer(topic), bodies(10))
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    receive(consumer, 10)
    consumer.acknowledge_cumulative(ids[6])
    consumer.close()
    assert receive_bodies(client.subscribe(topic, "s"), 3) == bodies(10)[7:]


@BATCHED
def test_a_negative_ack_brings_the_message_again_with_a_count(client: pulsar.Client, topic: str, batched: bool) -> None:
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    send_all(client.create_producer(topic, batching_enabled=batched), bodies(10))
    for message in receive(consumer, 10):
        consumer.negative_acknowledge(message)
    again = receive(consumer, 10)
    assert sorted(message.data() for message in again) == sorted(bodies(10))
    assert {message.redelivery_count() for message in again} == {1}
    for message in again:
        consumer.acknowledge(message)
    assert_silent(consumer)


def test_only_the_negatively_acknowledged_come_again(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    send_all(client.create_producer(topic), bodies(10))
    for index, message in enumerate(receive(consumer, 10)):
        if index in (2, 5):
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert sorted(receive_bodies(consumer, 2)) == [b"m-2", b"m-5"]
    assert_silent(consumer)


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED], ids=lambda kind: kind.name)
def test_redelivery_on_request_brings_everything_unacknowledged(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", kind)
    send_all(client.create_producer(topic), bodies(10))
    for index, message in enumerate(receive(consumer, 10)):
        if index < 3:
            consumer.acknowledge(message)
    consumer.redeliver_unacknowledged_messages()
    assert sorted(receive_bodies(consumer, 7)) == sorted(bodies(10)[3:])
    assert_silent(consumer)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED], ids=lambda kind: kind.name)
def test_an_ack_that_does_not_come_in_time_brings_the_message_again(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    shortest_that_the_client_allows = 10_000
    consumer = client.subscribe(topic, "s", kind, unacked_messages_timeout_ms=shortest_that_the_client_allows)
    send_all(client.create_producer(topic), bodies(4))
    consumer.acknowledge(receive(consumer, 4)[0])
    again = receive(consumer, 3, timeout_ms=3 * RECEIVE_TIMEOUT_MS)
    assert sorted(message.data() for message in again) == bodies(4)[1:]


def test_a_consumer_may_acknowledge_what_another_received(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s", SHARED)
    ids = send_all(client.create_producer(topic), bodies(6))
    receive(first, 6)
    second = client.subscribe(topic, "s", SHARED)
    for message_id in ids:
        second.acknowledge(message_id)
    second.close()
    first.close()
    assert_silent(client.subscribe(topic, "s", SHARED))


def test_acks_of_a_batch_by_several_consumers_add_up(client: pulsar.Client, topic: str) -> None:
    send_options = {"batching_enabled": True, "batching_max_messages": 8, "batching_max_publish_delay_ms": 5000}
    options = {"batch_index_ack_enabled": True, "initial_position": EARLIEST}
    send_all(client.create_producer(topic, **send_options), bodies(8))
    for kept in (6, 4, 2):
        consumer = client.subscribe(topic, "s", SHARED, **options)
        messages = receive(consumer, kept + 2)
        for message in messages[:2]:
            consumer.acknowledge(message)
        consumer.close()
    last = client.subscribe(topic, "s", SHARED, **options)
    assert receive_bodies(last, 2) == bodies(8)[6:]
    assert_silent(last)
