"""Key_Shared with the official client: a key's messages stay with one consumer, in order."""

import random
import threading
import time
from collections import defaultdict
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server
from compat_tests.python.support import RECEIVE_TIMEOUT_MS, assert_silent, receive, receive_bodies

KEY_SHARED = pulsar.ConsumerType.KeyShared
STICKY = pulsar.KeySharedMode.Sticky
KEYS = [f"key-{number}" for number in range(20)]


def send_keyed(producer: Any, count: int, first: int = 0, *, ordering: bool = False) -> None:
    """Sends `count` messages with the bodies `KEY NUMBER`, over all keys in turn."""
    for number in range(first, first + count):
        key = KEYS[number % len(KEYS)]
        keyed = {"partition_key": "not this", "ordering_key": key} if ordering else {"partition_key": key}
        producer.send_async(f"{key} {number}".encode(), lambda result, message_id: None, **keyed)
    producer.flush()


def take_all(consumers: list[Any], total: int) -> list[list[tuple[str, int]]]:
    """Receives and acknowledges until `total` messages have come. Returns, for each consumer, (key, number) in the
    order in which it received them."""
    got: list[list[tuple[str, int]]] = [[] for _ in consumers]
    lock, left = threading.Lock(), [total]

    def take(index: int) -> None:
        while left[0] > 0:
            try:
                message = consumers[index].receive(200)
            except pulsar.Timeout:
                continue
            key, number = message.data().decode().split()
            with lock:
                got[index].append((key, int(number)))
                left[0] -= 1
            consumers[index].acknowledge(message)

    threads = [threading.Thread(target=take, args=(index,), daemon=True) for index in range(len(consumers))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(RECEIVE_TIMEOUT_MS / 1000)
    assert left[0] == 0, f"{left[0]} of {total} did not come"
    return got


def assert_each_key_in_order_at_one(got: list[list[tuple[str, int]]], total: int) -> None:
    owners: dict[str, set[int]] = defaultdict(set)
    for index, messages in enumerate(got):
        numbers: dict[str, list[int]] = defaultdict(list)
        for key, number in messages:
            owners[key].add(index)
            numbers[key].append(number)
        for key, of_key in numbers.items():
            assert of_key == sorted(set(of_key)), key
    assert all(len(indexes) == 1 for indexes in owners.values()), owners
    assert sorted(number for messages in got for _, number in messages) == list(range(total))
    assert sum(1 for messages in got if messages) > 1, "one consumer got everything"


@pytest.fixture(scope="module", params=["true", "false"], ids=["ring", "split"])
def hashing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Returns a server for each of the two ways of dividing keys among consumers."""
    settings = {"subscriptionKeySharedUseConsistentHashing": request.param}
    with Server(tmp_path_factory.mktemp("key_shared"), settings=settings) as server:
        yield server
        server.assert_no_errors()


@pytest.mark.parametrize("sends", ["plain", "ordering", "key_batches"])
def test_each_key_goes_to_one_consumer_in_order(
    hashing: Server, topic: str, make_client: ClientFactory, sends: str
) -> None:
    client = make_client(hashing.broker_url)
    consumers = [client.subscribe(topic, "s", KEY_SHARED, consumer_name=f"c{number}") for number in range(3)]
    options: dict[str, Any] = {"batching_enabled": sends == "key_batches"}
    if sends == "key_batches":
        options["batching_type"] = pulsar.BatchingType.KeyBased
    send_keyed(client.create_producer(topic, **options), 600, ordering=sends == "ordering")
    assert_each_key_in_order_at_one(take_all(consumers, 600), 600)


def test_what_a_leaving_consumer_held_comes_to_another_in_order(
    hashing: Server, topic: str, make_client: ClientFactory
) -> None:
    client = make_client(hashing.broker_url)
    first = client.subscribe(topic, "s", KEY_SHARED, consumer_name="first")
    second = client.subscribe(topic, "s", KEY_SHARED, consumer_name="second")
    producer = client.create_producer(topic)
    send_keyed(producer, 200)
    first.receive(RECEIVE_TIMEOUT_MS)
    first.close()
    send_keyed(producer, 200, first=200)
    (got,) = take_all([second], 400)
    for key in KEYS:
        assert [number for other, number in got if other == key] == [
            number for number in range(400) if KEYS[number % len(KEYS)] == key
        ]


def test_a_newcomer_gets_its_keys_once_they_are_drained(
    hashing: Server, topic: str, make_client: ClientFactory
) -> None:
    client = make_client(hashing.broker_url)
    producer = client.create_producer(topic)
    first = client.subscribe(topic, "s", KEY_SHARED, consumer_name="first")
    send_keyed(producer, 100)
    held = receive(first, 100)
    second = client.subscribe(topic, "s", KEY_SHARED, consumer_name="second")
    send_keyed(producer, 100, first=100)
    assert_silent(second)
    for message in held:
        first.acknowledge(message)
    got = take_all([first, second], 100)
    assert got[0]
    assert got[1]
    for messages in got:
        for key in KEYS:
            of_key = [number for other, number in messages if other == key]
            assert of_key in ([], [number for number in range(100, 200) if KEYS[number % len(KEYS)] == key])


def test_sticky_ranges_are_obeyed_and_must_not_collide(client: pulsar.Client, topic: str) -> None:
    def subscribe(*ranges: tuple[int, int]) -> Any:
        policy = pulsar.ConsumerKeySharedPolicy(STICKY, False, list(ranges))
        return client.subscribe(topic, "s", KEY_SHARED, key_shared_policy=policy)

    low, high = subscribe((0, 30_000)), subscribe((30_001, 65_535))
    send_keyed(client.create_producer(topic), 200)
    assert_each_key_in_order_at_one(take_all([low, high], 200), 200)
    with pytest.raises(pulsar.ConsumerAssignError):
        subscribe((5, 6))
    high.close()
    again = subscribe((30_001, 65_535))
    assert_silent(again)


def test_a_different_policy_is_refused_while_somebody_is_there(client: pulsar.Client, topic: str) -> None:
    client.subscribe(topic, "s", KEY_SHARED)
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, True)
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "s", KEY_SHARED, key_shared_policy=policy)


def test_without_order_a_newcomer_does_not_wait(client: pulsar.Client, topic: str) -> None:
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.AutoSplit, True)
    producer = client.create_producer(topic)
    first = client.subscribe(topic, "s", KEY_SHARED, key_shared_policy=policy, consumer_name="first")
    send_keyed(producer, 100)
    receive(first, 100)
    second = client.subscribe(topic, "s", KEY_SHARED, key_shared_policy=policy, consumer_name="second")
    send_keyed(producer, 100, first=100)
    assert second.receive(RECEIVE_TIMEOUT_MS).data()


def test_messages_without_keys_are_spread_and_come_once(client: pulsar.Client, topic: str) -> None:
    consumers = [client.subscribe(topic, "s", KEY_SHARED, consumer_name=f"c{number}") for number in range(2)]
    producer = client.create_producer(topic)
    for number in range(100):
        producer.send_async(f"x {number}".encode(), lambda result, message_id: None)
    producer.flush()
    got = take_all(consumers, 100)
    assert sorted(number for messages in got for _, number in messages) == list(range(100))
    assert all(got)


def test_a_slow_consumer_does_not_hold_up_the_others(
    make_server: ServerFactory, topic: str, make_client: ClientFactory
) -> None:
    server = make_server(settings={"subscriptionKeySharedUseConsistentHashing": "false"})
    server.start()
    client = make_client(server.broker_url)
    slow = client.subscribe(topic, "s", KEY_SHARED, receiver_queue_size=1, consumer_name="slow")
    fast = client.subscribe(topic, "s", KEY_SHARED, consumer_name="fast")
    send_keyed(client.create_producer(topic), 400)
    quick = receive_bodies(fast, 1)
    while len(quick) < 100:
        quick += receive_bodies(fast, 1)
    got = take_all([slow, fast], 300)
    numbers = [int(body.split()[1]) for body in quick] + [number for messages in got for _, number in messages]
    assert sorted(numbers) == list(range(400))


def test_keys_stay_in_order_while_consumers_come_and_go(
    hashing: Server, topic: str, make_client: ClientFactory
) -> None:
    """What was not acknowledged is delivered again, but nothing new of a key is delivered before the key's older
    messages."""
    total, chance = 2_000, random.Random(7)
    client = make_client(hashing.broker_url)
    consumers: list[Any] = []

    def join() -> None:
        size = chance.choice([1, 5, 100])
        consumers.append(client.subscribe(topic, "s", KEY_SHARED, receiver_queue_size=size))

    join()
    send_keyed(client.create_producer(topic, block_if_queue_full=True), total)
    last: dict[str, int] = {}
    done: set[int] = set()
    deadline = time.monotonic() + 180
    while len(done) < total:
        assert time.monotonic() < deadline, f"{total - len(done)} of {total} did not come"
        for consumer in consumers:
            for _ in range(chance.randrange(40)):
                try:
                    message = consumer.receive(5)
                except pulsar.Timeout:
                    break
                key, text = message.data().decode().split()
                number = int(text)
                expected = last.get(key, KEYS.index(key) - len(KEYS)) + len(KEYS)
                assert number <= expected, f"{key}: {number} came before {expected}"
                last[key] = max(number, last.get(key, number))
                done.add(number)
                consumer.acknowledge(message)
        if len(consumers) > 1 and chance.random() < 0.4:
            consumers.pop(chance.randrange(len(consumers))).close()
        elif len(consumers) < 5:
            join()
