"""How much memory a loaded topic and a subscription take while nobody uses them, without the messages."""

import gc
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.topics.topic import Topic
from pulsar_proto.ids import LATEST
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection
from tests.server.topics.storage_scene import Process, process

TOPIC_BYTES_MAX = 6 * 1024
SUBSCRIPTION_BYTES_MAX = 5 * 1024 // 2
CONSUMER_BYTES_MAX = 4 * 1024
MEASURED = 1_000
"""How many objects are measured: enough that tables which grow now and then do not count."""


async def bytes_of_each(make: Callable[[int], Awaitable[object]]) -> float:
    """Returns the bytes that each object takes which `make` makes, with everything that is kept because of it."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(MEASURED):
            await make(number)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return (after - before) / MEASURED


async def loaded(broker: Process, number: int) -> Topic:
    return await broker.service.get_topic(TopicName.parse(f"persistent://public/default/topic-{number}"), create=True)


@pytest.mark.slow
async def test_a_loaded_topic_that_nobody_uses_takes_6_kb(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore()) as broker:
        await loaded(broker, MEASURED)  # what the first topic makes for all of them does not count
        assert await bytes_of_each(lambda number: loaded(broker, number)) <= TOPIC_BYTES_MAX


async def test_a_subscription_without_consumers_takes_two_and_a_half_kb(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore()) as broker:
        topics = [await loaded(broker, number) for number in range(50)]
        for topic in topics:
            await topic.create_subscription("first", LATEST)
        taken = await bytes_of_each(lambda number: topics[number % 50].create_subscription(f"sub-{number}", LATEST))
        assert taken <= SUBSCRIPTION_BYTES_MAX


async def test_a_consumer_of_a_shared_subscription_takes_4_kb(tmp_path: Path) -> None:
    """Most of it is the dispatcher, which the first consumer of a subscription brings."""
    async with process(tmp_path, MemoryStore()) as broker:
        topic = await loaded(broker, 0)
        for number in range(MEASURED):
            await topic.create_subscription(f"sub-{number}", LATEST)
        cnx, consumers = FakeConnection(), []

        async def subscribe(number: int) -> None:
            command = pb.CommandSubscribe(
                topic=topic.name.full,
                subscription=f"sub-{number}",
                subType=pb.CommandSubscribe.Shared,
                consumer_id=number,
                request_id=number,
                consumer_name=f"consumer-{number}",
            )
            consumers.append(await topic.subscribe(cnx, command))

        assert await bytes_of_each(subscribe) <= CONSUMER_BYTES_MAX
