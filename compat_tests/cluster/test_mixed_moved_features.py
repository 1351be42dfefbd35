"""Topics with schemas, policies, deduplication, delayed messages, properties, and compacted ones move between a broker
of Apache's and one of ours, by unload and by SIGKILL, both ways."""

import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String

from compat_tests.cluster import admin
from compat_tests.cluster.cluster import Cluster
from compat_tests.cluster.moved_features import (
    MOVES,
    RECEIVE_MS,
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
from compat_tests.cluster.seats import BrokerSeat
from compat_tests.harness import wait_until
from compat_tests.python.support import settle

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
HOUR_MS = 3_600_000
TICK_MS = 1_000
"""How much too early Apache's broker may send a delayed message (`isDelayedDeliveryDeliverAtTimeStrict` is off)."""
PUBLISHERS_MAX = 1


class User(Record):  # type: ignore[misc]
    name = String(required_default=True)
    age = Integer(required_default=True)


class UserOfACity(Record):  # type: ignore[misc]
    name = String(required_default=True)
    age = Integer(required_default=True)
    city = String(required_default=True)


class OtherUser(Record):  # type: ignore[misc]
    name = Integer(required=True)


UserOfACity.__name__ = OtherUser.__name__ = User.__name__


def schema_evolves(scene: Scene, kind: Any) -> Iterator[None]:
    """The second broker reads the version that the first one stored, adds one, and refuses what fits neither."""
    scene.first.subscribe(scene.topic, "s", schema=kind(User), initial_position=EARLIEST).close()
    producer = scene.first.create_producer(scene.topic, schema=kind(User))
    producer.send(User(name="ada", age=36))
    producer.close()
    stored = admin.call(scene.source, f"/admin/v2/schemas/{scene.topic}/schema")
    yield
    assert admin.call(scene.target, f"/admin/v2/schemas/{scene.topic}/schema") == stored
    producer = scene.second.create_producer(scene.topic, schema=kind(User))
    producer.send(User(name="bob", age=40))
    later = scene.second.create_producer(scene.topic, schema=kind(UserOfACity))
    later.send(UserOfACity(name="eve", age=44, city="paris"))
    with pytest.raises(pulsar.IncompatibleSchema):
        scene.second.create_producer(scene.topic, schema=kind(OtherUser))
    consumer = scene.second.subscribe(scene.topic, "s", schema=kind(User))
    assert [(each.value().name, each.value().age) for each in receive(consumer, 3)] == [
        ("ada", 36),
        ("bob", 40),
        ("eve", 44),
    ]
    answer = admin.call(scene.target, f"/admin/v2/schemas/{scene.topic}/schemas")
    assert [each["version"] for each in answer["getSchemaResponses"]] == [0, 1]


def avro_schema(scene: Scene) -> Iterator[None]:
    yield from schema_evolves(scene, AvroSchema)


def json_schema(scene: Scene) -> Iterator[None]:
    yield from schema_evolves(scene, JsonSchema)


def topic_policies(scene: Scene) -> Iterator[None]:
    publish(scene.first, scene.topic, numbers(0, 1))
    retention = {"retentionTimeInMinutes": 77, "retentionSizeInMB": 88}
    scene.call(scene.source, "maxProducers", "POST", PUBLISHERS_MAX)
    scene.call(scene.source, "retention", "POST", retention)
    wait_until(lambda: scene.call(scene.source, "retention") == retention, "the policy is readable", 30)
    yield
    wait_until(lambda: scene.call(scene.target, "retention") == retention, "the policy is readable", 30)
    assert scene.call(scene.target, "maxProducers") == PUBLISHERS_MAX
    producer = scene.second.create_producer(scene.topic)
    with pytest.raises(pulsar.ProducerBusy):
        scene.second.create_producer(scene.topic)
    producer.close()


def properties(scene: Scene) -> Iterator[None]:
    """Of the topic, and of a subscription of it."""
    scene.call(scene.source, "", "PUT", {"colour": "blue"})
    scene.first.subscribe(scene.topic, "s").close()
    scene.call(scene.source, "subscription/s/properties", "PUT", {"shape": "round"})
    yield
    assert scene.call(scene.target, "properties")["colour"] == "blue"
    assert scene.call(scene.target, "subscription/s/properties") == {"shape": "round"}
    publish(scene.second, scene.topic, numbers(0, 1))
    assert scene.call(scene.target, "properties")["colour"] == "blue"


def deduplication(scene: Scene) -> Iterator[None]:
    scene.first.subscribe(scene.topic, "s", initial_position=EARLIEST).close()
    scene.call(scene.source, "deduplicationEnabled", "POST", True)
    wait_until(lambda: scene.call(scene.source, "stats")["deduplicationStatus"] == "Enabled", "it is on", 30)
    producer = scene.first.create_producer(scene.topic, producer_name="p", batching_enabled=False)
    send_numbered(producer, 0, 20)
    producer.close()
    yield
    wait_until(lambda: scene.call(scene.target, "stats")["deduplicationStatus"] == "Enabled", "it is on", 30)
    producer = scene.second.create_producer(scene.topic, producer_name="p", batching_enabled=False)
    assert producer.last_sequence_id() == 19
    send_numbered(producer, 10, 30)
    consumer = scene.second.subscribe(scene.topic, "s")
    assert [each.data() for each in receive(consumer, 30)] == numbers(0, 30)
    silent(consumer)


def send_numbered(producer: pulsar.Producer, first: int, last: int) -> None:
    """Sends the messages first .. last - 1, each with its number as sequence id."""
    futures = []
    for number in range(first, last):
        future: Future[object] = Future()
        futures.append(future)
        producer.send_async(b"%d" % number, settle(future), sequence_id=number)
    producer.flush()
    for each in futures:
        each.result(60)


def delayed_messages(scene: Scene) -> Iterator[None]:
    """Some are due in an hour, some after seconds; the second broker holds back the former and sends the latter."""
    scene.first.subscribe(scene.topic, "s", SHARED).close()
    producer = scene.first.create_producer(scene.topic, batching_enabled=False)
    now_ms = time.time_ns() // 1_000_000
    due_ms = now_ms + 5_000
    for number in range(10):
        producer.send(b"%d" % number, deliver_at=now_ms + HOUR_MS if number % 2 else due_ms)
    producer.close()
    yield
    consumer = scene.second.subscribe(scene.topic, "s", SHARED)
    got = [int(each.data()) for each in receive(consumer, 5)]
    assert time.time_ns() // 1_000_000 >= due_ms - TICK_MS
    assert sorted(got) == [0, 2, 4, 6, 8]
    silent(consumer)
    assert scene.call(scene.target, "stats")["subscriptions"]["s"]["msgDelayed"] == 5


def compaction(scene: Scene) -> Iterator[None]:
    """The second broker reads the first one's compacted ledger, and compacts further. Batches are compacted too; the
    messages that Apache's broker took out of them come as empty ones without a key (`NOTES.md`)."""
    scene.first.subscribe(scene.topic, "s", initial_position=EARLIEST).close()
    publish(scene.first, scene.topic, numbers(0, 12), key=key_of)
    publish_batch(scene.first, scene.topic, numbers(12, 20), key=key_of)
    compact(scene, scene.source)
    publish(scene.first, scene.topic, numbers(20, 21), key=key_of)
    expected = [(f"k{number % 5}", b"%d" % number) for number in range(15, 21)]
    assert compacted(scene.first, scene.topic) == expected
    yield
    assert compacted(scene.second, scene.topic) == expected
    publish(scene.second, scene.topic, numbers(21, 23), key=key_of)
    compact(scene, scene.target)
    expected = [(f"k{number % 5}", b"%d" % number) for number in range(18, 23)]
    assert compacted(scene.second, scene.topic) == expected


def key_of(body: bytes) -> str:
    return f"k{int(body) % 5}"


def compact(scene: Scene, broker: BrokerSeat) -> None:
    scene.call(broker, "compaction", "PUT")
    wait_until(lambda: scene.call(broker, "compaction")["status"] != "RUNNING", "the compaction ends", 60)
    assert scene.call(broker, "compaction")["status"] == "SUCCESS"


def compacted(client: pulsar.Client, topic: str) -> list[tuple[str, bytes]]:
    """Returns the keys and bodies of the messages in the compacted topic that have a key."""
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    found = []
    while reader.has_message_available():
        message = reader.read_next(RECEIVE_MS)
        if message.partition_key():
            found.append((message.partition_key(), message.data()))
    reader.close()
    return found


FEATURES: list[Feature] = [
    avro_schema,
    json_schema,
    topic_policies,
    properties,
    deduplication,
    delayed_messages,
    compaction,
]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with mixed_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module", params=MOVES, ids=str)
def moved(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Moved]:
    with moved_by(cluster, request.param, FEATURES) as made:
        yield made


@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature.__name__)
def test_a_topic_moves_with_its_features(moved: Moved, feature: Feature) -> None:
    moved.check(feature)
