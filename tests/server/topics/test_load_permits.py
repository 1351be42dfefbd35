"""maxConcurrentTopicLoadRequest: so many topics are loaded at the same time, and the others wait for their turn."""

import asyncio
from typing import Any

import pytest

from magnetar.server.policies.policies import EVENTS_TOPIC
from magnetar.server.topics.topic import Topic
from pulsar_proto.errors import PulsarError, ServiceNotReady, UnknownFault
from pulsar_proto.names import TopicName
from tests.server.topics.broker_scene import Broker, make_broker
from tests.server.topics.scene import in_virtual_time, settle


def name_of(number: int) -> TopicName:
    return TopicName.parse(f"persistent://public/default/t{number}")


def load(broker: Broker, name: TopicName) -> "asyncio.Future[Topic]":
    return asyncio.ensure_future(broker.service.get_topic(name, create=True))


async def loading(count: int, **settings: Any) -> "tuple[Broker, list[asyncio.Future[Topic]], asyncio.Event]":
    """Returns a broker with `count` loads that have begun in the order of their numbers, and the gate that keeps their
    ledgers from being opened."""
    broker = await make_broker(**settings)
    gate = broker.factory.gate = asyncio.Event()
    loads = []
    for number in range(count):
        loads.append(load(broker, name_of(number)))
        await settle()
    return broker, loads, gate


def opened(broker: Broker) -> list[str]:
    return [name.rpartition("/")[2] for name in broker.factory.opened]


async def test_topics_wait_in_the_order_in_which_they_came() -> None:
    broker, loads, gate = await loading(5, max_concurrent_topic_load_request=2)
    assert (opened(broker), broker.service.load_permits.held) == (["t0", "t1"], 2)
    gate.set()
    assert [(await each).name for each in loads] == [name_of(number) for number in range(5)]
    assert (opened(broker), broker.service.load_permits.held) == (["t0", "t1", "t2", "t3", "t4"], 0)


async def test_a_load_that_fails_gives_its_permit_to_the_next_one() -> None:
    broker, loads, gate = await loading(3, max_concurrent_topic_load_request=1)
    broker.factory.failure = PulsarError("no bookie")
    gate.set()
    assert all(isinstance(result, PulsarError) for result in await asyncio.gather(*loads, return_exceptions=True))
    broker.factory.failure = None
    assert (await load(broker, name_of(0))).is_open
    assert broker.service.load_permits.held == 0


async def test_system_topics_do_not_wait_because_other_loads_wait_for_them() -> None:
    broker, loads, gate = await loading(1, max_concurrent_topic_load_request=1)
    events = load(broker, TopicName.parse(f"persistent://public/default/{EVENTS_TOPIC}"))
    await settle()
    assert opened(broker) == ["t0", EVENTS_TOPIC]
    gate.set()
    await asyncio.gather(*loads, events)


@in_virtual_time
async def test_the_time_of_waiting_counts_and_the_answer_is_apaches() -> None:
    broker, loads, gate = await loading(2, max_concurrent_topic_load_request=1, topic_load_timeout_seconds=5)
    with pytest.raises(UnknownFault, match=r"^Failed to load topic within timeout$"):
        await loads[1]
    assert opened(broker) == ["t0"], "the second topic never had its turn"
    gate.set()
    await settle()
    assert opened(broker) == ["t0", "t1"]
    assert broker.service.loaded(name_of(1)) is not None, "the load goes on for those who ask again"
    assert isinstance(loads[0].exception(), UnknownFault)


async def test_more_permits_let_waiting_topics_go_on_at_once() -> None:
    broker, loads, gate = await loading(4, max_concurrent_topic_load_request=1)
    object.__setattr__(broker.service.settings, "max_concurrent_topic_load_request", 3)
    await broker.service.settings_changed()
    await settle()
    assert opened(broker) == ["t0", "t1", "t2"]
    object.__setattr__(broker.service.settings, "max_concurrent_topic_load_request", 1)
    await broker.service.settings_changed()
    gate.set()
    await asyncio.gather(*loads)
    assert broker.service.load_permits.held == 0


async def test_a_stop_does_not_wait_for_topics_that_had_no_turn() -> None:
    broker, loads, gate = await loading(3, max_concurrent_topic_load_request=1)
    closing = asyncio.ensure_future(broker.service.close())
    await settle()
    gate.set()
    await closing
    assert opened(broker) == ["t0"]
    assert [type(each.exception()) for each in loads] == [ServiceNotReady] * 3
