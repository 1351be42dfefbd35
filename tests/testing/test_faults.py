"""Faults of receipts, messages, acknowledgements, lookups and clients, and what their users observe."""

import threading

import pulsar
import pytest

from compat_tests.harness import wait_until
from magnetar.testing import Server
from tests.testing.fault_scenes import RECEIVE_MS, SHORT_TIMEOUT_MS, backlog, receive, stored

pytestmark = pytest.mark.process


# --- receipts ---------------------------------------------------------------------------------------------------------


def test_a_lost_receipt_is_a_timeout_for_the_user_although_the_message_is_stored(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic, send_timeout_millis=SHORT_TIMEOUT_MS)
    fault = server.faults.lose("receipt", topic)
    with pytest.raises(pulsar.Timeout):
        producer.send(b"one")
    assert server.faults.struck(fault) == 1
    client.create_producer(topic).send(b"last")
    assert stored(client, topic, b"last") == [b"one", b"last"]


def test_who_sends_again_after_a_lost_receipt_stores_the_message_twice(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    """The client itself sends again when the next receipt shows that one is missing."""
    producer = client.create_producer(topic)
    fault = server.faults.lose("receipt", topic)
    came = threading.Semaphore(0)
    for content in (b"one", b"two"):
        producer.send_async(content, lambda result, message_id: came.release())
    for _ in range(2):
        assert came.acquire(timeout=RECEIVE_MS / 1000)
    producer.send(b"last")
    assert server.faults.struck(fault) == 1
    found = stored(client, topic, b"last")
    assert (found[:2], found[-1]) == ([b"one", b"two"], b"last")
    assert found.count(b"one") == 2


def test_a_delayed_receipt_keeps_the_sender_waiting_and_its_order(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    server.faults.delay("receipt", topic, seconds=0.5)
    order: list[bytes] = []
    came = threading.Semaphore(0)

    def done(content: bytes) -> None:
        order.append(content)
        came.release()

    for content in (b"one", b"two"):
        producer.send_async(content, lambda result, message_id, content=content: done(content))
    for _ in range(2):
        assert came.acquire(timeout=RECEIVE_MS / 1000)
    assert order == [b"one", b"two"]
    assert stored(client, topic, b"two") == [b"one", b"two"]


def test_a_doubled_receipt_is_ignored(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    fault = server.faults.double("receipt", topic)
    for content in (b"one", b"two", b"last"):
        producer.send(content)
    assert server.faults.struck(fault) == 1
    assert stored(client, topic, b"last") == [b"one", b"two", b"last"]


# --- messages ---------------------------------------------------------------------------------------------------------


def test_a_lost_message_comes_when_the_consumer_connects_again(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "billing", pulsar.ConsumerType.Shared)
    fault = server.faults.lose("message", topic, after=1)
    producer = client.create_producer(topic)
    for content in (b"one", b"two", b"three"):
        producer.send(content)
    for expected in (b"one", b"three"):
        message = consumer.receive(RECEIVE_MS)
        assert message.data() == expected
        consumer.acknowledge(message)
    assert server.faults.struck(fault) == 1
    consumer.close()
    consumer = client.subscribe(topic, "billing", pulsar.ConsumerType.Shared)
    assert receive(consumer) == b"two"


def test_a_doubled_message_is_received_twice(server: Server, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "billing")
    server.faults.double("message", topic)
    producer = client.create_producer(topic)
    producer.send(b"one")
    producer.send(b"two")
    assert [receive(consumer) for _ in range(3)] == [b"one", b"one", b"two"]


def test_a_delayed_message_keeps_those_behind_it_waiting(server: Server, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "billing")
    fault = server.faults.delay("message", topic, seconds=0.5)
    producer = client.create_producer(topic)
    producer.send(b"one")
    producer.send(b"two")
    assert [receive(consumer) for _ in range(2)] == [b"one", b"two"]
    assert server.faults.struck(fault) == 1


def test_chance_strikes_the_same_messages_in_every_run_of_a_seed(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    for number in range(32):
        producer.send(b"%d" % number)
    runs = []
    for name, seed in (("first", 7), ("second", 7), ("third", 8)):
        server.faults.double("message", topic, times=32, chance=0.5, seed=seed)
        consumer = client.subscribe(topic, name, initial_position=pulsar.InitialPosition.Earliest)
        found = [receive(consumer)]
        while found[-1] != b"31":
            found.append(receive(consumer))
        consumer.close()
        server.faults.clear()
        runs.append(found)
    assert runs[0] == runs[1] != runs[2]
    assert 32 < len(runs[0]) < 64


# --- acknowledgements -------------------------------------------------------------------------------------------------


def test_after_a_lost_acknowledgement_the_message_comes_again(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "billing")
    client.create_producer(topic).send(b"one")
    fault = server.faults.lose("ack", topic)
    consumer.acknowledge(consumer.receive(RECEIVE_MS))
    consumer.close()  # sends the acknowledgements that the client has collected
    assert server.faults.struck(fault) == 1
    assert receive(client.subscribe(topic, "billing")) == b"one"


@pytest.mark.parametrize("effect", ["delay", "double"])
def test_a_late_or_doubled_acknowledgement_counts_once(
    server: Server, client: pulsar.Client, topic: str, effect: str
) -> None:
    consumer = client.subscribe(topic, "billing")
    producer = client.create_producer(topic)
    producer.send(b"one")
    producer.send(b"two")
    fault = server.faults.double("ack", topic) if effect == "double" else server.faults.delay("ack", topic, seconds=0.3)
    consumer.acknowledge(consumer.receive(RECEIVE_MS))
    wait_until(lambda: backlog(server, topic, "billing") == 1, "the acknowledgement counts")
    assert server.faults.struck(fault) == 1
    consumer.close()
    assert receive(client.subscribe(topic, "billing")) == b"two"


# --- lookups ----------------------------------------------------------------------------------------------------------


def test_lookups_that_are_not_ready_are_repeated_by_the_client(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    fault = server.faults.refuse_lookups(topic, times=3)
    client.create_producer(topic).send(b"one")
    assert server.faults.struck(fault) == 3


def test_too_many_lookups_are_an_error_for_the_user_who_may_try_again(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    server.faults.refuse_lookups(topic, error="TooManyRequests")
    with pytest.raises(pulsar.PulsarException, match="TooManyLookupRequestException"):
        client.create_producer(topic)
    client.create_producer(topic).send(b"one")


# --- what the server sends by itself ----------------------------------------------------------------------------------


def test_closed_producers_come_back_and_send_on(server: Server, client: pulsar.Client, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"one")
    before = server.log_size()
    server.faults.close_producers(topic)
    assert "disconnected" in server.log_text(before)
    producer.send(b"two")
    assert stored(client, topic, b"two") == [b"one", b"two"]


def test_closed_consumers_come_back_and_get_what_they_did_not_acknowledge(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    consumer = client.subscribe(topic, "billing")
    client.create_producer(topic).send(b"one")
    assert receive(consumer) == b"one"
    server.faults.close_consumers(topic, "billing")
    assert receive(consumer) == b"one"


@pytest.mark.parametrize("kind", [pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared])
def test_what_is_redelivered_comes_again(
    server: Server, client: pulsar.Client, topic: str, kind: pulsar.ConsumerType
) -> None:
    consumer = client.subscribe(topic, "billing", kind)
    client.create_producer(topic).send(b"one")
    assert receive(consumer) == b"one"
    server.faults.redeliver(topic, "billing")
    again = consumer.receive(RECEIVE_MS)
    assert again.data() == b"one"
    if kind is pulsar.ConsumerType.Shared:
        assert again.redelivery_count() == 1


def test_the_clients_of_an_unloaded_topic_go_on(server: Server, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "billing")
    producer = client.create_producer(topic)
    server.faults.unload(topic)
    producer.send(b"one")
    assert receive(consumer) == b"one"
