"""What is delivered again, and where it goes in the end: dead letters, limits of unacknowledged messages, holes that
the broker fills, and what a kill leaves of a large scattered state."""

import contextlib
import time
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin
from compat_tests.python.support import RECEIVE_TIMEOUT_MS, assert_silent, bodies, receive, receive_bodies, send_all

SHARED, KEY_SHARED = pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared
ACKS_PERSISTED_WITHIN_SECONDS = 4.0
"""The server promises to store acknowledgements within a second of the last change. The rest is for a busy machine,
which may stall."""
MANY_AT_ONCE = pytest.mark.parametrize("kind", [SHARED, KEY_SHARED], ids=lambda kind: kind.name)


def stats_of(server: Server, topic: str) -> dict[str, Any]:
    """Returns the stats of the subscription `s`."""
    stats: dict[str, Any] = Admin(server).get(f"{topic.replace('://', '/')}/stats")["subscriptions"]["s"]
    return stats


@MANY_AT_ONCE
def test_what_fails_too_often_goes_to_the_dead_letter_topic(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    policy = pulsar.ConsumerDeadLetterPolicy(2, initial_subscription_name="keeps")
    consumer = client.subscribe(topic, "s", kind, negative_ack_redelivery_delay_ms=100, dead_letter_policy=policy)
    send_all(client.create_producer(topic), bodies(5))
    counts: dict[bytes, list[int]] = {}
    for _ in range(7):
        message = consumer.receive(RECEIVE_TIMEOUT_MS)
        counts.setdefault(message.data(), []).append(message.redelivery_count())
        if message.data() == b"m-3":
            consumer.negative_acknowledge(message)
        else:
            consumer.acknowledge(message)
    assert counts[b"m-3"] == [0, 1, 2]
    assert all(counts[body] == [0] for body in bodies(5) if body != b"m-3")
    dead = client.subscribe(f"{topic}-s-DLQ", "keeps")
    assert receive_bodies(dead, 1) == [b"m-3"]
    assert_silent(consumer)


@MANY_AT_ONCE
def test_a_consumer_that_holds_too_much_gets_more_when_it_acknowledged_half(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, kind: pulsar.ConsumerType
) -> None:
    server = make_server(settings={"maxUnackedMessagesPerConsumer": "10"})
    server.start()
    client = make_client(server.broker_url)
    consumer = client.subscribe(topic, "s", kind)
    send_all(client.create_producer(topic), bodies(30))
    held = receive(consumer, 10)
    assert_silent(consumer)
    for message in held[:4]:
        consumer.acknowledge(message)
    assert_silent(consumer)
    consumer.acknowledge(held[4])
    assert len(receive(consumer, 5)) == 5
    assert_silent(consumer)


def test_a_subscription_that_holds_too_much_gets_more_below_half(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    server = make_server(settings={"maxUnackedMessagesPerSubscription": "10"})
    server.start()
    client = make_client(server.broker_url)
    consumers = [client.subscribe(topic, "s", SHARED, receiver_queue_size=5) for _ in range(2)]
    send_all(client.create_producer(topic), bodies(30))
    first, second = (receive(consumer, 5) for consumer in consumers)
    for consumer in consumers:
        assert_silent(consumer)
    assert stats_of(server, topic)["blockedSubscriptionOnUnackedMsgs"] is True
    for message in first:
        consumers[0].acknowledge(message)
    consumers[1].acknowledge(second[0])
    got = [message.data() for consumer in consumers for message in receive(consumer, 1)]
    assert len(set(got)) == 2


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, SHARED], ids=lambda kind: kind.name)
def test_the_broker_fills_holes_without_the_clients_help(
    make_server: ServerFactory, topic: str, make_client: ClientFactory, kind: pulsar.ConsumerType
) -> None:
    server = make_server(settings={"fillAckHolesIntervalSeconds": "3"})
    server.start()
    client = make_client(server.broker_url)
    consumer = client.subscribe(topic, "s", kind)
    send_all(client.create_producer(topic), bodies(10))
    for message in receive(consumer, 10):
        if message.data() not in (b"m-2", b"m-9"):
            consumer.acknowledge(message)
    assert receive_bodies(consumer, 1) == [b"m-2"]
    assert_silent(consumer)
    wait_until(lambda: stats_of(server, topic)["msgBacklog"] == 1, "the hole is closed; the last one is no hole")
    assert stats_of(server, topic)["ackHolesFilledTotal"] >= 1


def test_a_large_scattered_state_outlives_a_kill_soon_after_its_last_ack(
    own_server: Server, topic: str, make_client: ClientFactory
) -> None:
    """Every second one of 20,000 messages is acknowledged. Only acknowledgements that are a little older than the kill
    are promised to be stored."""
    count = 20_000
    client = make_client(own_server.broker_url)
    consumer = client.subscribe(topic, "s", SHARED, receiver_queue_size=5_000)
    producer = client.create_producer(topic, batching_enabled=False, block_if_queue_full=True)
    send_all(producer, bodies(count))
    for index in range(count):
        message = consumer.receive(RECEIVE_TIMEOUT_MS)
        if index % 2:
            consumer.acknowledge(message)
    wait_until(lambda: stats_of(own_server, topic)["msgBacklog"] == count // 2, "all acks came")
    time.sleep(ACKS_PERSISTED_WITHIN_SECONDS)
    own_server.kill()
    with contextlib.suppress(pulsar.NotConnected):
        client.close()
    own_server.start()
    client = make_client(own_server.broker_url)
    consumer = client.subscribe(topic, "s", SHARED, receiver_queue_size=5_000)
    again = [consumer.receive(RECEIVE_TIMEOUT_MS).data() for _ in range(count // 2)]
    assert sorted(again) == sorted(bodies(count)[::2])
    assert_silent(consumer)
