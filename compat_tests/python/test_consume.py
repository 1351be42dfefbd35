"""Consuming with the official client: subscription types, starting positions, queues, listeners, unsubscribing."""

import threading

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.support import (
    assert_silent,
    bodies,
    receive,
    receive_bodies,
    receive_without_queue,
    send_all,
)

EARLIEST = pulsar.InitialPosition.Earliest
EXCLUSIVE, SHARED, FAILOVER = pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover
TYPES = pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER], ids=lambda kind: kind.name)


@TYPES
@pytest.mark.parametrize("queue", [0, 1, 1000])
def test_one_consumer_gets_everything_in_order(
    client: pulsar.Client, topic: str, kind: pulsar.ConsumerType, queue: int
) -> None:
    send_all(client.create_producer(topic), bodies(50))
    take = receive_bodies if queue else receive_without_queue
    consumer = client.subscribe(topic, "s", kind, receiver_queue_size=queue, initial_position=EARLIEST)
    assert take(consumer, 25) == bodies(50)[:25]
    send_all(client.create_producer(topic), bodies(25, "late"))
    assert take(consumer, 50) == bodies(50)[25:] + bodies(25, "late")


def test_a_queue_of_zero_takes_one_message_for_each_receive(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s", SHARED, receiver_queue_size=0)
    second = client.subscribe(topic, "s", SHARED, receiver_queue_size=0)
    send_all(client.create_producer(topic), bodies(4))
    got = receive_without_queue(first, 3) + receive_without_queue(second, 1)
    assert got == bodies(4), "a message waited at a consumer that did not ask for it"


def test_exclusive_refuses_a_second_consumer_until_the_first_is_gone(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s")
    first.close()
    client.subscribe(topic, "s").close()


def test_a_type_that_differs_from_the_connected_one_is_refused(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s", SHARED)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", FAILOVER)


def test_a_vanished_connection_frees_its_exclusive_subscription(
    server: Server, client: pulsar.Client, topic: str, make_client: ClientFactory
) -> None:
    other = make_client(server.broker_url)
    other.subscribe(topic, "s")
    other.shutdown()
    client.subscribe(topic, "s").close()


def test_shared_consumers_split_the_messages(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", SHARED, receiver_queue_size=10) for _ in range(3)]
    send_all(client.create_producer(topic), bodies(60))
    got: list[list[bytes]] = [[] for _ in consumers]

    def drain() -> bool:
        for mine, consumer in zip(got, consumers, strict=True):
            try:
                message = consumer.receive(20)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            mine.append(message.data())
        return sum(map(len, got)) >= 60

    wait_until(drain, "60 messages at three consumers")
    assert sorted(got[0] + got[1] + got[2]) == sorted(bodies(60))
    assert min(map(len, got)) >= 10, "a consumer with permits was passed over"


def test_messages_of_a_shared_consumer_that_left_go_to_the_others(client: pulsar.Client, topic: str) -> None:
    leaving = client.subscribe(topic, "s", SHARED)
    send_all(client.create_producer(topic), bodies(10))
    receive(leaving, 4)
    staying = client.subscribe(topic, "s", SHARED)
    leaving.close()
    assert sorted(receive_bodies(staying, 10)) == sorted(bodies(10))


def test_failover_has_one_active_consumer_and_the_next_takes_over(client: pulsar.Client, topic: str) -> None:
    consumers = {
        name: client.subscribe(topic, "s", FAILOVER, consumer_name=name, receiver_queue_size=100) for name in ("a", "b")
    }
    producer = client.create_producer(topic)
    send_all(producer, bodies(10))
    active, first = first_message(consumers)
    waiting = consumers["b" if active == "a" else "a"]
    assert [first, *receive_bodies(consumers[active], 3)] == bodies(10)[:4]
    assert_silent(waiting)
    consumers[active].close()
    send_all(producer, bodies(2, "late"))
    assert receive_bodies(waiting, 8) == bodies(10)[4:] + bodies(2, "late")


def first_message(consumers: dict[str, pulsar.Consumer]) -> tuple[str, bytes]:
    """Returns the name of the consumer that gets the first message, and the message, which is acknowledged."""
    found: list[tuple[str, bytes]] = []

    def look() -> bool:
        for name, consumer in consumers.items():
            try:
                message = consumer.receive(50)
            except pulsar.Timeout:
                continue
            consumer.acknowledge(message)
            found.append((name, message.data()))
            return True
        return False

    wait_until(look, "a message at one of the failover consumers")
    return found[0]


def test_each_subscription_gets_every_message(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, f"s{index}", kind) for index, kind in enumerate((EXCLUSIVE, SHARED, FAILOVER))]
    send_all(client.create_producer(topic), bodies(20))
    for consumer in consumers:
        assert receive_bodies(consumer, 20) == bodies(20)


def test_a_new_subscription_starts_at_the_end_or_at_the_beginning(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "keeps").close()
    producer = client.create_producer(topic)
    send_all(producer, bodies(5, "old"))
    latest = client.subscribe(topic, "latest")
    earliest = client.subscribe(topic, "earliest", initial_position=EARLIEST)
    send_all(producer, bodies(5, "new"))
    assert receive_bodies(latest, 5) == bodies(5, "new")
    assert receive_bodies(earliest, 10) == bodies(5, "old") + bodies(5, "new")


def test_a_listener_is_called_in_order(client: pulsar.Client, topic: str) -> None:
    got: list[bytes] = []
    done = threading.Event()

    def listener(consumer: pulsar.Consumer, message: pulsar.Message) -> None:
        got.append(message.data())
        consumer.acknowledge(message)
        if len(got) == 100:
            done.set()

    client.subscribe(topic, "s", message_listener=listener)
    send_all(client.create_producer(topic, batching_enabled=True), bodies(100))
    assert done.wait(60)
    assert got == bodies(100)


def test_batch_receive_returns_groups(client: pulsar.Client, topic: str) -> None:
    policy = pulsar.ConsumerBatchReceivePolicy(10, -1, 200)
    consumer = client.subscribe(topic, "s", batch_receive_policy=policy)
    send_all(client.create_producer(topic), bodies(25))
    got: list[bytes] = []

    def take() -> bool:
        """A group counts as empty when nothing came within its 200 ms."""
        group = consumer.batch_receive()
        assert len(group) <= 10
        got.extend(message.data() for message in group)
        return len(got) >= 25

    wait_until(take, "25 messages in groups")
    assert got == bodies(25)


def test_unsubscribing_forgets_the_position(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "keeps").close()
    consumer = client.subscribe(topic, "s")
    send_all(client.create_producer(topic), bodies(5))
    receive_bodies(consumer, 5)
    consumer.unsubscribe()
    again = client.subscribe(topic, "s", initial_position=EARLIEST)
    assert receive_bodies(again, 5) == bodies(5)


def test_unsubscribing_with_other_consumers_connected_is_refused(client: pulsar.Client, topic: str) -> None:
    first = client.subscribe(topic, "s", SHARED)
    client.subscribe(topic, "s", SHARED)
    with pytest.raises(pulsar.PulsarException):
        first.unsubscribe()


def test_last_message_id_is_that_of_the_last_send(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    empty = consumer.get_last_message_id()
    assert (empty.ledger_id(), empty.entry_id()) == (-1, -1)
    ids = send_all(client.create_producer(topic), bodies(3))
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id()) == (ids[-1].ledger_id(), ids[-1].entry_id())
    ids = send_all(client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000), bodies(7))
    last = consumer.get_last_message_id()
    assert (last.ledger_id(), last.entry_id(), last.batch_index()) == (ids[-1].ledger_id(), ids[-1].entry_id(), 6)


def test_a_paused_listener_resumes_where_it_was(client: pulsar.Client, topic: str) -> None:
    got: list[bytes] = []
    consumer = client.subscribe(topic, "s", message_listener=lambda _, message: got.append(message.data()))
    producer = client.create_producer(topic)
    send_all(producer, bodies(3))
    wait_until(lambda: len(got) == 3, "three messages at the listener")
    consumer.pause_message_listener()
    send_all(producer, bodies(3, "paused"))
    consumer.resume_message_listener()
    wait_until(lambda: len(got) == 6, "six messages at the listener")
    assert got == bodies(3) + bodies(3, "paused")


def test_a_small_queue_is_refilled_without_loss(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s", SHARED, receiver_queue_size=3)
    send_all(client.create_producer(topic, batching_enabled=True, batching_max_messages=50), bodies(500))
    assert receive_bodies(consumer, 500) == bodies(500)
    assert_silent(consumer)
