"""Policies take effect on topics that are in use, at whichever level they are set."""

import pulsar
import pytest

from compat_tests.conftest import ClientFactory, ServerFactory
from compat_tests.harness import Server
from compat_tests.python.rest import Admin, Refused
from compat_tests.python.support import assert_silent, bodies, receive, receive_bodies, send_all

NAMESPACE = "public/policies"


@pytest.fixture
def admin(server: Server) -> Admin:
    made = Admin(server)
    if NAMESPACE not in made.get("namespaces/public"):
        made.put(f"namespaces/{NAMESPACE}")
    return made


@pytest.fixture
def own_topic(topic: str) -> str:
    return topic.replace("public/default", NAMESPACE)


def rest_path(topic: str) -> str:
    return topic.replace("://", "/")


def test_the_topic_outranks_its_namespace_and_both_hold_at_once(
    client: pulsar.Client, admin: Admin, own_topic: str
) -> None:
    path = rest_path(own_topic)
    client.create_producer(own_topic)
    try:
        admin.post(f"namespaces/{NAMESPACE}/maxProducersPerTopic", 1)
        with pytest.raises(pulsar.ProducerBusy):
            client.create_producer(own_topic)
        admin.post(f"{path}/maxProducers", 2)
        client.create_producer(own_topic)
        with pytest.raises(pulsar.ProducerBusy):
            client.create_producer(own_topic)
        admin.delete(f"{path}/maxProducers")
        with pytest.raises(pulsar.ProducerBusy):
            client.create_producer(own_topic)
    finally:
        admin.delete(f"namespaces/{NAMESPACE}/maxProducersPerTopic")
    client.create_producer(own_topic)
    client.create_producer(own_topic)


def test_a_blocked_consumer_goes_on_when_its_limit_is_raised(
    client: pulsar.Client, admin: Admin, own_topic: str
) -> None:
    path = rest_path(own_topic)
    consumer = client.subscribe(own_topic, "s", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=100)
    admin.post(f"{path}/maxUnackedMessagesOnConsumer", 5)
    send_all(client.create_producer(own_topic, batching_enabled=False), bodies(20))
    receive(consumer, 5)
    assert_silent(consumer)
    admin.post(f"{path}/maxUnackedMessagesOnConsumer", 1_000)
    assert len(receive(consumer, 15)) == 15


def test_a_blocked_subscription_goes_on_when_its_limit_is_raised(
    client: pulsar.Client, admin: Admin, own_topic: str
) -> None:
    path = rest_path(own_topic)
    admin.put(path)
    admin.post(f"{path}/maxUnackedMessagesOnSubscription", 5)
    consumer = client.subscribe(own_topic, "s", consumer_type=pulsar.ConsumerType.Shared, receiver_queue_size=100)
    send_all(client.create_producer(own_topic, batching_enabled=False), bodies(20))
    receive(consumer, 5)
    assert_silent(consumer)
    admin.delete(f"{path}/maxUnackedMessagesOnSubscription")
    assert len(receive(consumer, 15)) == 15


def test_kinds_of_subscriptions_may_be_forbidden(client: pulsar.Client, admin: Admin, own_topic: str) -> None:
    path = rest_path(own_topic)
    admin.put(path)
    admin.post(f"{path}/subscriptionTypesEnabled", ["Shared"])
    with pytest.raises(pulsar.NotAllowedError):
        client.subscribe(own_topic, "s")
    client.subscribe(own_topic, "s", consumer_type=pulsar.ConsumerType.Shared).close()
    admin.delete(f"{path}/subscriptionTypesEnabled")
    client.subscribe(own_topic, "s")


def test_subscriptions_may_have_to_be_made_by_hand(
    server: Server, make_client: ClientFactory, admin: Admin, own_topic: str
) -> None:
    path = rest_path(own_topic)
    client = make_client(server.broker_url)
    client.create_producer(own_topic).send(b"x")
    admin.post(f"{path}/autoSubscriptionCreation", {"allowAutoSubscriptionCreation": False})
    impatient = make_client(server.broker_url, operation_timeout_seconds=1)  # the client repeats its request until then
    with pytest.raises(pulsar.PulsarException):
        impatient.subscribe(own_topic, "s")
    admin.put(f"{path}/subscription/s", {"ledgerId": -1, "entryId": -1})
    assert receive_bodies(client.subscribe(own_topic, "s"), 1) == [b"x"]


def test_a_partitioned_topic_s_policies_hold_for_its_partitions(
    client: pulsar.Client, admin: Admin, own_topic: str
) -> None:
    path = rest_path(own_topic)
    admin.put(f"{path}/partitions", 2)
    client.create_producer(own_topic)
    admin.post(f"{path}/maxProducers", 1)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer(own_topic)
    with pytest.raises(Refused, match="Not allowed to set/get topic policy for a partition"):
        admin.post(f"{path}-partition-0/maxProducers", 1)


def test_policies_are_gone_with_their_topic(client: pulsar.Client, admin: Admin, own_topic: str) -> None:
    path = rest_path(own_topic)
    admin.put(path)
    admin.post(f"{path}/maxProducers", 1)
    admin.delete(path)
    admin.put(path)
    assert admin.get(f"{path}/maxProducers") == ""


def test_a_server_may_have_no_topic_policies(
    make_server: ServerFactory, make_client: ClientFactory, topic: str
) -> None:
    server = make_server(settings={"topicLevelPoliciesEnabled": "false"})
    server.start()
    admin = Admin(server)
    admin.put(rest_path(topic))
    with pytest.raises(Refused) as refused:
        admin.post(f"{rest_path(topic)}/maxProducers", 1)
    assert refused.value.status == 405
    make_client(server.broker_url).create_producer(topic).send(b"x")
