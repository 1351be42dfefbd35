"""Delayed delivery with the official client, also over SIGKILL."""

import contextlib
import datetime
import time

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server
from compat_tests.python.support import SILENCE_MS, assert_silent, receive, receive_bodies

KINDS = pytest.mark.parametrize(
    "kind", [pulsar.ConsumerType.Shared, pulsar.ConsumerType.KeyShared], ids=lambda kind: kind.name
)
EARLIEST = pulsar.InitialPosition.Earliest


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@KINDS
def test_messages_come_in_the_order_of_their_times(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    began = now_ms()
    for body, delay_ms in ((b"third", 3_000), (b"first", 0), (b"second", 1_500)):
        producer.send_async(body, None, deliver_at=began + delay_ms)
    producer.flush()
    for body, delay_ms in ((b"first", 0), (b"second", 1_500), (b"third", 3_000)):
        message = consumer.receive(60_000)
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
    due_ms = now_ms() + 1_500
    for number in range(20):
        producer.send_async(b"%d" % number, None, deliver_at=due_ms)
    producer.flush()
    consumers[0].close()
    consumers[0] = client.subscribe(topic, "one", kind)
    for consumer in consumers:
        messages = receive(consumer, 1)
        assert now_ms() >= due_ms, "too early"
        messages += receive(consumer, 19)
        assert sorted(message.data() for message in messages) == sorted(b"%d" % number for number in range(20))
        for message in messages:
            consumer.acknowledge(message)
        assert_silent(consumer)


def test_an_exclusive_consumer_does_not_wait(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"at once", deliver_after=datetime.timedelta(seconds=600))
    assert receive_bodies(consumer, 1) == [b"at once"]


@KINDS
def test_delays_outlive_a_kill(
    own_server: Server, topic: str, make_client: ClientFactory, kind: pulsar.ConsumerType
) -> None:
    client = make_client(own_server.broker_url)
    consumer = client.subscribe(topic, "s", kind)
    producer = client.create_producer(topic)
    began = now_ms()
    due_ms = began + 4_000
    producer.send_async(b"far", None, deliver_at=began + 3_600_000)
    for number in range(10):
        producer.send_async(b"%d" % number, None, deliver_at=due_ms)
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
        message = consumer.receive(60_000)
        if message.data() != b"now":  # its acknowledgement may not have been stored before the kill
            assert now_ms() >= due_ms
            got.add(message.data())
        consumer.acknowledge(message)
    assert got == {b"%d" % number for number in range(10)}
    with contextlib.suppress(pulsar.Timeout):  # A start that took long enough makes it the last one.
        message = consumer.receive(SILENCE_MS)
        assert message.data() == b"now"
        consumer.acknowledge(message)
    assert_silent(consumer)
