"""The limits of producers, consumers, subscriptions and topics hold when many clients come at the same time: each of
them is judged when nothing can come between the judgement and its entry."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from magnetar.server.namespaces.partitioned_topics import PartitionedTopic
from magnetar.server.topics.base_topic import BaseTopic
from pulsar_proto.errors import ConsumerBusy, NotAllowed, ProducerBusy, PulsarError
from pulsar_proto.ids import EARLIEST
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.broker_scene import Broker, make_broker
from tests.server.topics.scene import FakeConnection, Scene

LIMIT = 2
COMERS = 5
NAMESPACE = "public/default"
DOMAINS = ("persistent", "non-persistent")


async def all_at_once(comers: Sequence[Coroutine[Any, Any, object]], error: type[PulsarError]) -> None:
    """Lets all come at the same time, and checks that LIMIT of them are let in and the others get that error."""
    results = await asyncio.gather(*comers, return_exceptions=True)
    refusals = [result for result in results if isinstance(result, BaseException)]
    assert [type(refusal) for refusal in refusals] == [error] * (len(comers) - LIMIT), results


async def subscribe(topic: BaseTopic, number: int, subscription: str, **fields: Any) -> None:
    command = pb.CommandSubscribe(
        topic=topic.name.full,
        subscription=subscription,
        subType=pb.CommandSubscribe.Shared,
        consumer_id=number,
        request_id=number,
        **fields,
    )
    await topic.subscribe(FakeConnection(f"/client-{number}"), command)


async def topic_of(domain: str, **settings: Any) -> BaseTopic:
    broker = await make_broker(**settings)
    return await broker.service.get_any(TopicName.parse(f"{domain}://{NAMESPACE}/t"), create=True)


def names(domain: str) -> list[TopicName]:
    return [TopicName.parse(f"{domain}://{NAMESPACE}/t{number}") for number in range(COMERS)]


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("subscription", ["one", "s-{}"])
@pytest.mark.parametrize("domain", DOMAINS)
async def test_consumers_of_a_topic(domain: str, subscription: str, durable: bool) -> None:
    topic = await topic_of(domain, max_consumers_per_topic=LIMIT)
    comers = [subscribe(topic, each, subscription.format(each), durable=durable) for each in range(COMERS)]
    await all_at_once(comers, ConsumerBusy)
    assert topic.consumer_count == LIMIT


@pytest.mark.parametrize("domain", DOMAINS)
async def test_consumers_of_a_subscription(domain: str) -> None:
    topic = await topic_of(domain, max_consumers_per_subscription=LIMIT)
    await all_at_once([subscribe(topic, each, "one") for each in range(COMERS)], ConsumerBusy)
    assert topic.consumer_count == LIMIT


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("domain", DOMAINS)
async def test_subscriptions_of_a_topic(domain: str, durable: bool) -> None:
    topic = await topic_of(domain, max_subscriptions_per_topic=LIMIT)
    await all_at_once([subscribe(topic, each, f"s-{each}", durable=durable) for each in range(COMERS)], NotAllowed)
    assert len(topic.subscriptions) == LIMIT


async def test_subscriptions_that_administrators_producers_and_readers_make() -> None:
    scene = Scene(max_subscriptions_per_topic=LIMIT)
    comers: list[Coroutine[Any, Any, object]] = [
        scene.topic.create_subscription("by hand", EARLIEST),
        scene.producer(FakeConnection(), initial_subscription_name="of a producer"),
        scene.consumer(FakeConnection(), subscription="of a consumer"),
        scene.consumer(FakeConnection(), subscription="of a reader", durable=False),
    ]
    await all_at_once(comers, NotAllowed)
    assert len(scene.topic.subscriptions) == LIMIT


@pytest.mark.parametrize("domain", DOMAINS)
async def test_producers_of_a_topic(domain: str) -> None:
    topic = await topic_of(domain, max_producers_per_topic=LIMIT)
    dead = FakeConnection("/dead")
    await topic.add_producer(dead, pb.CommandProducer(topic=topic.name.full, producer_id=9, request_id=9))
    dead.is_alive = False  # those who come ask for it, so that all of them wait at the same time
    comers = [
        topic.add_producer(
            FakeConnection(f"/client-{each}"),
            pb.CommandProducer(topic=topic.name.full, producer_id=each, request_id=each, producer_name=f"p-{each}"),
        )
        for each in range(COMERS)
    ]
    await all_at_once(comers, ProducerBusy)
    assert len(topic.producers) == LIMIT


async def limited_broker() -> Broker:
    return await make_broker(max_topics_per_namespace=LIMIT)


@pytest.mark.parametrize("domain", DOMAINS)
async def test_topics_of_a_namespace(domain: str) -> None:
    broker = await limited_broker()
    await all_at_once([broker.service.get_any(name, create=True) for name in names(domain)], NotAllowed)
    assert len(broker.service.all_topics) == LIMIT


async def test_partitions_count_with_the_topics_of_both_domains() -> None:
    broker = await make_broker(max_topics_per_namespace=LIMIT, allow_auto_topic_creation_type="partitioned")
    catalog, persistent, volatile = broker.service.catalog, names("persistent"), names("non-persistent")
    comers: list[Coroutine[Any, Any, object]] = [
        catalog.partitions_of(persistent[0], may_create=True),
        catalog.partitions_of(persistent[1], may_create=True),
        broker.service.get_any(persistent[2], create=True),
        broker.service.get_any(volatile[3], create=True),
    ]
    await all_at_once(comers, NotAllowed)
    assert await catalog.count_topics(NAMESPACE) + len(broker.service.non_persistent.by_name) == LIMIT


@pytest.mark.parametrize("domain", DOMAINS)
async def test_all_who_ask_for_the_topic_that_fills_its_namespace_get_it(domain: str) -> None:
    broker, name = await make_broker(max_topics_per_namespace=1), names(domain)[0]
    made = await asyncio.gather(*(broker.service.get_any(name, create=True) for _ in range(COMERS)))
    assert made == made[:1] * COMERS


async def test_all_who_ask_for_the_partitioned_topic_that_fills_its_namespace_get_it() -> None:
    broker = await make_broker(max_topics_per_namespace=1, allow_auto_topic_creation_type="partitioned")
    catalog, name = broker.service.catalog, names("persistent")[0]
    asked = (catalog.partitions_of(name, may_create=True) for _ in range(COMERS))
    assert await asyncio.gather(*asked) == [1] * COMERS
    assert await catalog.partitioned.get(name) == PartitionedTopic(1)
