"""Partitioned topics with the official client: created by hand and automatically, grown, deleted, and over a kill."""

import re
import uuid
from typing import Any

import pulsar
import pytest

from compat_tests.conftest import ClientFactory
from compat_tests.harness import Server, wait_until
from compat_tests.python.rest import Admin, Refused
from compat_tests.python.support import assert_silent, bodies, receive_bodies, send_all

ROUND_ROBIN = pulsar.PartitionsRoutingMode.RoundRobinDistribution


@pytest.fixture
def admin(server: Server) -> Admin:
    return Admin(server)


@pytest.fixture
def namespace(admin: Admin) -> str:
    """Returns an empty namespace of the test's own."""
    name = f"public/n{uuid.uuid4().hex[:8]}"
    admin.put(f"namespaces/{name}")
    return name


def rest_path(topic: str) -> str:
    return topic.replace("://", "/")


def partitions(admin: Admin, topic: str) -> int:
    return int(admin.get(f"{rest_path(topic)}/partitions")["partitions"])


def test_messages_go_over_all_partitions_and_come_back(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{rest_path(topic)}/partitions", 3)
    assert client.get_topic_partitions(topic) == [f"{topic}-partition-{index}" for index in range(3)]
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic, message_routing_mode=ROUND_ROBIN, batching_enabled=False)
    ids = send_all(producer, bodies(30))
    assert {message_id.partition() for message_id in ids} == {0, 1, 2}
    assert sorted(receive_bodies(consumer, 30)) == sorted(bodies(30))

    def stats() -> Any:
        return admin.get(f"{rest_path(topic)}/partitioned-stats")

    wait_until(lambda: stats()["subscriptions"]["s"]["msgBacklog"] == 0, "all acknowledged")
    assert stats()["msgInCounter"] == 30
    assert stats()["metadata"]["partitions"] == 3
    assert {each["msgInCounter"] for each in stats()["partitions"].values()} == {10}


def test_a_key_stays_on_its_partition(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{rest_path(topic)}/partitions", 4)
    producer = client.create_producer(topic)
    placed: dict[str, set[int]] = {}
    for number in range(40):
        key = f"key-{number % 8}"
        placed.setdefault(key, set()).add(producer.send(b"x", partition_key=key).partition())
    assert all(len(where) == 1 for where in placed.values())
    assert len(set.union(*placed.values())) > 1


def test_a_grown_topic_gives_its_subscriptions_what_comes_to_new_partitions(
    client: pulsar.Client, admin: Admin, topic: str, server: Server, make_client: ClientFactory
) -> None:
    admin.put(f"{rest_path(topic)}/partitions", 1)
    client.subscribe(topic, "s").close()
    admin.post(f"{rest_path(topic)}/partitions", 3)
    assert partitions(admin, topic) == 3
    later = make_client(server.broker_url)
    producer = later.create_producer(topic, message_routing_mode=ROUND_ROBIN, batching_enabled=False)
    assert {each.partition() for each in send_all(producer, bodies(9))} == {0, 1, 2}
    assert sorted(receive_bodies(later.subscribe(topic, "s"), 9)) == sorted(bodies(9)), "none missed"
    with pytest.raises(Refused, match="can't be less than the current partitions 3"):
        admin.post(f"{rest_path(topic)}/partitions", 2)


def test_a_namespace_may_make_missing_topics_partitioned(client: pulsar.Client, admin: Admin, namespace: str) -> None:
    override = {"allowAutoTopicCreation": True, "topicType": "partitioned", "defaultNumPartitions": 2}
    admin.post(f"namespaces/{namespace}/autoTopicCreation", override)
    topic = f"persistent://{namespace}/made"
    client.create_producer(topic)
    assert partitions(admin, topic) == 2
    client.create_producer(f"{topic}-s-DLQ")
    assert partitions(admin, f"{topic}-s-DLQ") == 0, "the client's own topics are plain"
    assert admin.get(f"persistent/{namespace}/partitioned") == [topic]
    admin.post(f"{rest_path(topic)}/maxProducers", 5)
    assert f"persistent://{namespace}/__change_events" in admin.get(f"persistent/{namespace}?includeSystemTopic=true")


def test_topics_that_may_not_be_made_are_missing(client: pulsar.Client, admin: Admin, namespace: str) -> None:
    admin.post(f"namespaces/{namespace}/autoTopicCreation", {"allowAutoTopicCreation": False})
    topic = f"persistent://{namespace}/t"
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer(topic)
    with pytest.raises(pulsar.TopicNotFound):
        client.subscribe(topic, "s")
    admin.put(rest_path(topic))
    client.create_producer(topic).send(b"x")
    admin.put(f"persistent/{namespace}/p/partitions", 2)
    client.create_producer(f"persistent://{namespace}/p").send(b"x")


def test_a_namespace_has_no_more_topics_than_its_limit(client: pulsar.Client, admin: Admin, namespace: str) -> None:
    admin.post(f"namespaces/{namespace}/maxTopicsPerNamespace", 2)
    for name in ("a", "b"):
        client.create_producer(f"persistent://{namespace}/{name}")
    with pytest.raises(pulsar.NotAllowedError):
        client.create_producer(f"persistent://{namespace}/c")
    client.create_producer(f"persistent://{namespace}/a")


def test_only_existing_partitions_take_messages(client: pulsar.Client, admin: Admin, topic: str) -> None:
    admin.put(f"{rest_path(topic)}/partitions", 2)
    client.create_producer(f"{topic}-partition-1").send(b"x")
    with pytest.raises(pulsar.NotAllowedError):
        client.create_producer(f"{topic}-partition-2")


def test_deleting_takes_all_partitions_but_not_from_under_clients(
    client: pulsar.Client, admin: Admin, topic: str
) -> None:
    admin.put(f"{rest_path(topic)}/partitions", 2)
    producer = client.create_producer(topic)
    producer.send(b"x")
    with pytest.raises(Refused, match="connected producers/consumers"):
        admin.delete(f"{rest_path(topic)}/partitions")
    assert partitions(admin, topic) == 2
    producer.close()
    admin.delete(f"{rest_path(topic)}/partitions")
    with pytest.raises(Refused) as refused:
        admin.get(f"{rest_path(topic)}/partitions")
    assert refused.value.status == 404
    assert not [name for name in admin.get("persistent/public/default") if name.startswith(topic)]


def test_a_pattern_takes_topics_and_partitions(client: pulsar.Client, admin: Admin, namespace: str) -> None:
    """This client looks for new topics only once a minute, whatever its configuration says; watchers are tested on the
    wire."""
    admin.put(f"persistent/{namespace}/order-2/partitions", 2)
    names = ("order-1", "order-2", "invoice")
    for name in names:
        client.create_producer(f"persistent://{namespace}/{name}").send(name.encode())
    pattern = re.compile(f"persistent://{namespace}/order.*")
    consumer = client.subscribe(pattern, "s", initial_position=pulsar.InitialPosition.Earliest)
    assert sorted(receive_bodies(consumer, 2)) == [b"order-1", b"order-2"]
    assert_silent(consumer)


def test_counts_and_policies_survive_a_kill(own_server: Server, topic: str, make_client: ClientFactory) -> None:
    admin = Admin(own_server)
    admin.put(f"{rest_path(topic)}/partitions", 2)
    admin.post(f"{rest_path(topic)}/partitions", 4)
    admin.put("namespaces/public/limits")
    admin.post("namespaces/public/limits/maxProducersPerTopic", 1)
    admin.post(f"{rest_path(topic)}/maxConsumers", 1)
    admin.post(f"{rest_path(topic)}/messageTTL?messageTTL=77")
    admin.delete(f"{rest_path(topic)}/messageTTL")
    own_server.kill()
    own_server.start()

    assert partitions(admin, topic) == 4
    assert admin.get("namespaces/public/limits/maxProducersPerTopic") == 1
    assert admin.get(f"{rest_path(topic)}/maxConsumers") == 1
    assert admin.get(f"{rest_path(topic)}/messageTTL") == ""
    client = make_client(own_server.broker_url)
    client.create_producer("persistent://public/limits/t")
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer("persistent://public/limits/t")
    client.subscribe(topic, "a")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "b")
