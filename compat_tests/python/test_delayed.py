"""Delayed delivery with the official client, also over SIGKILL."""

import contextlib
import datetime
import time
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server
from compat_tests.python.support import assert_silent, receive_bodies

KINDS = pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=lambda kind: kind.name
)
EARLIEST = pulsar.InitialPosition.Earliest


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def send_delayed(producer: Any, body: bytes, seconds: float) -> None:
    producer.send(body, deliver_after=datetime.timedelta(seconds=seconds))


@KINDS
def test_messages_come_in_the_order_of_their_times(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    began = now_ms()
    for body, delay_ms in ((b"third", 900), (b"first", 0), (b"second", 500)):
        producer.send(body, deliver_at=began + delay_ms)
    for body, delay_ms in ((b"first", 0), (b"second", 500), (b"third", 900)):
        message = consumer.receive(5_000)
        assert message.data() == body
        assert now_ms() >= began + delay_ms, "too early"
        consumer.acknowledge(message)
    assert_silent(consumer)


@KINDS
def test_each_subscription_and_who_comes_back_gets_them(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumers = [client.subscribe(topic, name, kind) for name in ("one", "two")]
    producer = client.create_producer(topic)
    for number in range(20):
        send_delayed(producer, b"%d" % number, 0.8)
    consumers[0].close()
    consumers[0] = client.subscribe(topic, "one", kind)
    assert_silent(consumers[0])
    for consumer in consumers:
        assert sorted(receive_bodies(consumer, 20)) == sorted(b"%d" % number for number in range(20))
        assert_silent(consumer)


def test_an_exclusive_consumer_does_not_wait(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    send_delayed(client.create_producer(topic), b"at once", 60)
    assert receive_bodies(consumer, 1) == [b"at once"]


@KINDS
def test_delays_outlive_a_kill(
    own_server: Server, topic: str, make_client: ClientFactory, kind: pulsar.ConsumerType
) -> None:
    client = make_client(own_server.broker_url)
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    began = now_ms()
    due_ms = began + 3_000
    producer.send(b"far", deliver_at=began + 3_600_000)
    for number in range(10):
        producer.send(b"%d" % number, deliver_at=due_ms)
    producer.send(b"now")
    assert receive_bodies(consumer, 1) == [b"now"]
    own_server.kill()
    with contextlib.suppress(pulsar.NotConnected):
        client.close()
    own_server.start()
    client = make_client(own_server.broker_url)
    consumer = client.subscribe(topic, "s", kind)
    got: set[bytes] = set()
    while len(got) < 10:
        message = consumer.receive(10_000)
        if message.data() != b"now":  # its ack may not have been stored before the kill
            assert now_ms() >= due_ms
            got.add(message.data())
        consumer.acknowledge(message)
    assert got == {b"%d" % number for number in range(10)}
    assert_silent(consumer)
