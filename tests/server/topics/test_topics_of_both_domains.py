"""The broker's topics of both domains: created for clients, listed, limited together, deleted and closed."""

import json

import pytest

from magnetar.metadata import paths
from magnetar.server.topics.base_topic import BaseTopic
from magnetar.server.topics.non_persistent.topic import NonPersistentTopic
from magnetar.server.topics.publishing.producer import Producer
from magnetar.server.topics.topic_deletion import TopicBusy
from pulsar_proto.errors import NotAllowed, ServiceNotReady, TopicNotFound
from pulsar_proto.ids import EARLIEST
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.broker_scene import NAME, Broker, make_broker
from tests.server.topics.scene import FakeConnection, Throttled, payload, settle

NON_PERSISTENT = TopicName.parse("non-persistent://public/default/t")


async def made(broker: Broker, name: TopicName = NON_PERSISTENT) -> BaseTopic:
    return await broker.service.get_for_client(name)


async def producer_on(topic: BaseTopic, cnx: FakeConnection) -> Producer:
    return await topic.add_producer(cnx, pb.CommandProducer(topic=topic.name.full, producer_id=1, request_id=1))


async def test_a_non_persistent_topic_is_made_once_and_stored_nowhere() -> None:
    broker = await make_broker()
    topic = await made(broker)
    assert isinstance(topic, NonPersistentTopic)
    assert await made(broker) is topic
    assert await broker.service.get_any(NON_PERSISTENT, create=False) is topic
    assert broker.factory.opened == []
    assert broker.service.catalog.non_persistent_topics_of("public/default") == [NON_PERSISTENT.full]
    assert await broker.service.catalog.topics_of("public/default") == []
    persistent = await made(broker, NAME)
    assert set(broker.service.all_topics) == {topic, persistent}


async def test_one_that_nobody_uses_is_not_found() -> None:
    broker = await make_broker()
    with pytest.raises(TopicNotFound):
        await broker.service.get_any(NON_PERSISTENT, create=False)
    with pytest.raises(TopicNotFound, match="Namespace not found"):
        await made(broker, TopicName.parse("non-persistent://no/where/t"))
    with pytest.raises(TopicNotFound):
        await broker.service.delete_topic(NON_PERSISTENT)


async def test_they_may_be_switched_off() -> None:
    broker = await make_broker(enable_non_persistent_topics=False)
    with pytest.raises(NotAllowed, match="Broker is unable to load non-persistent topic"):
        await made(broker)


async def test_the_namespace_s_policies_hold_for_them_and_follow() -> None:
    broker = await make_broker()
    broker.service.policies.start()
    topic = await made(broker)
    assert topic.policies.max_producers_per_topic == 0
    path = paths.policies_path("public/default")
    await broker.store.put(path, json.dumps({"max_producers_per_topic": 3}).encode())
    await settle()
    assert topic.policies.max_producers_per_topic == 3
    broker.service.policies.close()


async def test_deleting_one_in_use_takes_force_and_tells_its_clients() -> None:
    broker = await make_broker()
    topic = await made(broker)
    cnx = FakeConnection()
    await producer_on(topic, cnx)
    with pytest.raises(TopicBusy, match="1 connected producers/consumers"):
        await broker.service.delete_topic(NON_PERSISTENT)
    await broker.service.delete_topic(NON_PERSISTENT, force=True)
    assert cnx.kinds == ["CLOSE_PRODUCER"]
    assert await made(broker) is not topic


async def test_a_topic_that_nobody_uses_is_deleted_but_not_if_somebody_came_meanwhile() -> None:
    broker = await make_broker()
    for name in (NON_PERSISTENT, NAME):
        topic = await made(broker, name)
        producer = await producer_on(topic, FakeConnection())
        await broker.service.delete_unused(topic)
        assert broker.service.loaded_of_any_domain(name) is topic
        producer.close()
        await broker.service.delete_unused(topic)
        assert broker.service.loaded_of_any_domain(name) is None
    assert not await broker.service.catalog.topic_exists(NAME)


async def test_by_the_other_mode_a_topic_goes_when_its_subscriptions_are_caught_up_and_nobody_is_connected() -> None:
    broker = await make_broker(broker_delete_inactive_topics_mode="delete_when_subscriptions_caught_up")
    topic = await broker.service.get_topic(NAME, create=True)
    subscription = await topic.create_subscription("s", EARLIEST)
    producer = await producer_on(topic, FakeConnection())
    producer.publish([(pb.CommandSend(producer_id=1, sequence_id=0), payload(b"m"))])
    await settle()
    producer.close()
    await broker.service.delete_unused(topic)
    assert broker.service.loaded(NAME) is topic, "it has a backlog"
    subscription.cursor.ack([(10, 0, None)])
    await broker.service.delete_unused(topic)
    assert broker.service.loaded(NAME) is None
    assert not await broker.service.catalog.topic_exists(NAME)


async def test_closing_the_broker_closes_all_and_makes_no_more() -> None:
    broker = await make_broker()
    topic = await made(broker)
    await broker.service.close()
    assert not topic.is_open
    with pytest.raises(ServiceNotReady):
        await made(broker)


async def test_the_broker_s_publish_rate_holds_for_all_topics_together() -> None:
    broker = await make_broker(broker_publisher_throttling_max_message_rate=10)
    await broker.service.warm_up()
    connections = [Throttled(), Throttled()]
    for name, cnx in zip((NON_PERSISTENT, NAME), connections, strict=True):
        producer = await producer_on(await made(broker, name), cnx)
        producer.publish([(pb.CommandSend(producer_id=1, sequence_id=each), payload(b"m")) for each in range(8)])
        await settle()
    assert [len(cnx.receipts) for cnx in connections] == [8, 8]
    assert [len(cnx.throttles) for cnx in connections] == [0, 1]
    await broker.service.close()
