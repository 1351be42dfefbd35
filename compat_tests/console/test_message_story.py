"""One message's story over REST, at each step of what the official client does with it."""

import time
from typing import Any

import pulsar

from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin


def story(server: Server, topic: str, message_id: Any, batch_index: int | None = None) -> dict[str, Any]:
    path = f"{topic.replace('://', '/')}/messages/{message_id.ledger_id()}/{message_id.entry_id()}/story"
    found: dict[str, Any] = Admin(server).get(path if batch_index is None else f"{path}?batchIndex={batch_index}")
    return found


def state(server: Server, topic: str, message_id: Any, batch_index: int | None = None) -> dict[str, Any]:
    (told,) = story(server, topic, message_id, batch_index)["subscriptions"]
    return dict(told)


def wait_for(server: Server, topic: str, message_id: Any, expected: str) -> dict[str, Any]:
    wait_until(lambda: state(server, topic, message_id)["state"] == expected, f"the message is {expected}")
    return state(server, topic, message_id)


def test_a_message_is_followed_from_its_publication_to_its_acknowledgement(
    server: Server, client: pulsar.Client, topic: str
) -> None:
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    message_id = client.create_producer(topic).send(b"m")
    assert "no consumer" in wait_for(server, topic, message_id, "waiting")["sentence"]
    consumer = client.subscribe(
        topic, "s", pulsar.ConsumerType.Shared, consumer_name="c", negative_ack_redelivery_delay_ms=50
    )
    received = consumer.receive(60_000)
    told = wait_for(server, topic, message_id, "held")
    assert (told["consumer"], told["redeliveryCount"]) == ("c", 0)
    consumer.negative_acknowledge(received)
    again = consumer.receive(60_000)
    assert wait_for(server, topic, message_id, "held")["redeliveryCount"] == 1
    consumer.acknowledge(again)
    wait_for(server, topic, message_id, "acknowledged")


def test_an_exclusive_consumer_holds_what_was_sent_to_it(server: Server, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", receiver_queue_size=1)
    producer = client.create_producer(topic)
    first, *_, last = [producer.send(b"m") for _ in range(10)]
    received = consumer.receive(60_000)
    wait_for(server, topic, first, "held")
    assert wait_for(server, topic, last, "waiting")["entriesBefore"] > 0
    consumer.acknowledge(received)
    wait_for(server, topic, first, "acknowledged")


def test_a_delayed_message_tells_when_it_is_due(server: Server, client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared)
    due_ms = int(time.time() * 1_000) + 3_600_000
    message_id = client.create_producer(topic).send(b"later", deliver_at=due_ms)
    assert wait_for(server, topic, message_id, "delayed")["deliverAt"] == due_ms


def test_messages_of_a_batch_have_stories_of_their_own(server: Server, client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", pulsar.ConsumerType.Shared, batch_index_ack_enabled=True)
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_publish_delay_ms=1_000, batching_max_messages=2
    )
    for each in (b"a", b"b"):
        producer.send_async(each, lambda result, message_id: None)
    producer.flush()
    first, second = (consumer.receive(60_000) for _ in range(2))
    consumer.acknowledge(first)
    wait_until(
        lambda: state(server, topic, first.message_id(), 0)["state"] == "acknowledged", "the first is acknowledged"
    )
    assert state(server, topic, second.message_id(), 1)["state"] == "held"


def test_the_place_of_a_message_names_its_bookies(server: Server, client: pulsar.Client, topic: str) -> None:
    message_id = client.create_producer(topic).send(b"m")
    told = story(server, topic, message_id)
    assert (told["where"]["ledger"], told["where"]["entry"]) == (message_id.ledger_id(), message_id.entry_id())
    assert told["where"]["writeSet"] == told["where"]["ensemble"]
    assert len(told["where"]["writeSet"]) == 1
    assert told["subscriptions"] == []
