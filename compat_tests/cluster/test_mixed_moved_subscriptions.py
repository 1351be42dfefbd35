"""Subscriptions of all kinds move between a broker of Apache's and one of ours, by unload and by SIGKILL, both ways:
nothing that was acknowledged comes again, and everything else comes in order."""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import pulsar
import pytest

from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.moved_features import (
    MOVES,
    Feature,
    Moved,
    Scene,
    mixed_cluster,
    moved_by,
    numbers,
    publish,
    publish_batch,
    receive,
    silent,
)

KINDS = pulsar.ConsumerType
EARLIEST = pulsar.InitialPosition.Earliest
KEYS = 5


def subscribe(client: pulsar.Client, topic: str, kind: pulsar.ConsumerType, **options: Any) -> pulsar.Consumer:
    return client.subscribe(topic, "s", kind, initial_position=EARLIEST, batch_index_ack_enabled=True, **options)


def mark_delete_is(entry_id: int, cursor: dict[str, Any]) -> bool:
    return bool(cursor["markDeletePosition"].endswith(f":{entry_id}"))


def exclusive(scene: Scene) -> Iterator[None]:
    consumer = subscribe(scene.client, scene.topic, KINDS.Exclusive)
    publish(scene.first, scene.topic, numbers(0, 30))
    consumer.acknowledge_cumulative(receive(consumer, 10)[-1])
    scene.settled("s", partial(mark_delete_is, 9))
    consumer.close()
    yield
    consumer = subscribe(scene.client, scene.topic, KINDS.Exclusive)
    publish(scene.second, scene.topic, numbers(30, 40))
    assert [each.data() for each in receive(consumer, 30)] == numbers(10, 40)
    silent(consumer)


def failover(scene: Scene) -> Iterator[None]:
    """Both consumers stay attached and follow the topic."""
    consumers = [subscribe(scene.client, scene.topic, KINDS.Failover, consumer_name=name) for name in ("a", "b")]
    publish(scene.first, scene.topic, numbers(0, 10))
    assert received_by_the_active_one(consumers, 10) == numbers(0, 10)
    scene.settled("s", partial(mark_delete_is, 9))
    yield
    publish(scene.second, scene.topic, numbers(10, 30))
    assert received_by_the_active_one(consumers, 20) == numbers(10, 30)
    for each in consumers:
        silent(each)


def received_by_the_active_one(consumers: list[pulsar.Consumer], count: int) -> list[bytes]:
    """Receives messages from whichever consumer gets them, acknowledges them, and returns their bodies. Raises
    AssertionError when more than one gets some."""
    bodies: dict[int, list[bytes]] = {}
    while sum(map(len, bodies.values())) < count:
        for at, consumer in enumerate(consumers):
            with contextlib.suppress(pulsar.Timeout):
                message = consumer.receive(1_000)
                bodies.setdefault(at, []).append(message.data())
                consumer.acknowledge(message)
    (only,) = bodies.values()
    return only


def shared_with_holes(scene: Scene) -> Iterator[None]:
    consumer = subscribe(scene.client, scene.topic, KINDS.Shared)
    publish(scene.first, scene.topic, numbers(0, 40))
    for each in receive(consumer, 40):
        if int(each.data()) % 2:
            consumer.acknowledge(each)
    scene.settled("s", lambda cursor: cursor["totalNonContiguousDeletedMessagesRange"] == 20)
    consumer.close()
    yield
    consumer = subscribe(scene.client, scene.topic, KINDS.Shared)
    publish(scene.second, scene.topic, numbers(40, 50))
    expected = numbers(0, 40)[::2] + numbers(40, 50)
    assert sorted(int(each.data()) for each in receive(consumer, 30)) == [int(each) for each in expected]
    silent(consumer)


def key_shared(scene: Scene) -> Iterator[None]:
    """Both consumers stay attached and follow the topic. Each key is in order, at one of them."""
    consumers = [subscribe(scene.client, scene.topic, KINDS.KeyShared, consumer_name=name) for name in ("a", "b")]
    publish(scene.first, scene.topic, numbers(0, 20), key=key_of)
    streams(consumers, 20, 0)
    scene.settled("s", partial(mark_delete_is, 19))
    yield
    publish(scene.second, scene.topic, numbers(20, 60), key=key_of)
    streams(consumers, 40, 20)
    for each in consumers:
        silent(each)


def key_of(body: bytes) -> str:
    return f"k{int(body) % KEYS}"


def streams(consumers: list[pulsar.Consumer], count: int, first: int) -> None:
    """Receives and acknowledges `count` numbers from `first` on, each key in order and at one consumer."""
    got: dict[str, list[tuple[int, bytes]]] = {}
    waiting = count
    while waiting:
        for at, consumer in enumerate(consumers):
            with contextlib.suppress(pulsar.Timeout):
                message = consumer.receive(1_000)
                got.setdefault(message.partition_key(), []).append((at, message.data()))
                consumer.acknowledge(message)
                waiting -= 1
    for key, stream in got.items():
        expected = [body for body in numbers(first, first + count) if key_of(body) == key]
        assert [body for _, body in stream] == expected, key
        assert len({at for at, _ in stream}) == 1, key


def batch_indexes(scene: Scene) -> Iterator[None]:
    """An entry behind the batch is acknowledged at last, because Apache's broker stores the state of a batch only
    together with the acknowledgement of a whole entry. A consumer that closes has sent all of its acknowledgements."""
    consumer = subscribe(scene.client, scene.topic, KINDS.Shared)
    publish_batch(scene.first, scene.topic, numbers(0, 10))
    publish(scene.first, scene.topic, numbers(10, 12))
    for each in receive(consumer, 12):
        if int(each.data()) % 2 and int(each.data()) < 10:
            consumer.acknowledge(each)
    consumer.close()
    consumer = subscribe(scene.client, scene.topic, KINDS.Shared)
    (last,) = [each for each in receive(consumer, 7) if each.data() == b"11"]
    consumer.acknowledge(last)
    scene.settled("s", lambda cursor: cursor["totalNonContiguousDeletedMessagesRange"] == 1)
    consumer.close()
    yield
    consumer = subscribe(scene.client, scene.topic, KINDS.Shared)
    assert sorted(int(each.data()) for each in receive(consumer, 6)) == [0, 2, 4, 6, 8, 10]
    silent(consumer)


def cumulative_within_a_batch(scene: Scene) -> Iterator[None]:
    consumer = subscribe(scene.client, scene.topic, KINDS.Exclusive)
    publish(scene.first, scene.topic, numbers(0, 1))
    publish_batch(scene.first, scene.topic, numbers(1, 11))
    consumer.acknowledge_cumulative(receive(consumer, 6)[-1])
    scene.settled("s", partial(mark_delete_is, 0))
    consumer.close()
    yield
    consumer = subscribe(scene.client, scene.topic, KINDS.Exclusive)
    assert [each.data() for each in receive(consumer, 5)] == numbers(6, 11)
    silent(consumer)


FEATURES: list[Feature] = [exclusive, failover, shared_with_holes, key_shared, batch_indexes, cumulative_within_a_batch]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with mixed_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module", params=MOVES, ids=str)
def moved(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Moved]:
    with moved_by(cluster, request.param, FEATURES) as made:
        yield made


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.__name__)
def test_a_subscription_moves(moved: Moved, feature: Feature) -> None:
    moved.check(feature)
