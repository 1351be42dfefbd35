"""Nothing is left of topics that were unloaded or deleted, although no collection looks at old objects.

The parts of a topic refer to each other. As soon as they are old, only `left_objects` has Python look at them again.
"""

import gc
import weakref
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.process import left_objects
from magnetar.server.topics.topic import Topic
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.reference_counts import collector_off
from tests.server.process.left import Left
from tests.server.topics.scene import FakeConnection, bodies, publish
from tests.server.topics.storage_scene import Process, numbers, process
from tests.waiting import until

TOPICS = 8
KINDS = ("Exclusive", "Shared", "Key_Shared", "Failover")


async def used(broker: Process, number: int) -> "weakref.ref[Topic]":
    """Loads a topic and sends messages from a producer to consumers of all kinds and a reader. All of them leave."""
    topic = await broker.service.get_topic(TopicName.parse(f"persistent://public/default/t-{number}"), create=True)
    cnx = FakeConnection()
    consumers = []
    for consumer_id, kind in enumerate((*KINDS, "Exclusive")):
        command = pb.CommandSubscribe(
            topic=topic.name.full,
            subscription=f"s-{consumer_id}",
            subType=pb.CommandSubscribe.SubType.Value(kind),
            consumer_id=consumer_id,
            request_id=1,
            initialPosition=pb.CommandSubscribe.Earliest,
            durable=consumer_id < len(KINDS),
        )
        consumers.append(await topic.subscribe(cnx, command))
        consumers[-1].flow(100)
    producer = await topic.add_producer(cnx, pb.CommandProducer(topic=topic.name.full, producer_id=1, request_id=1))
    publish(producer, numbers(0, 60))  # more than a ledger holds
    await until(lambda: len(bodies(cnx)) == 60 * len(consumers))
    for consumer in consumers:
        consumer.close()
    closing = producer.close()
    if closing is not None:
        await closing
    return weakref.ref(topic)


async def use_and_leave(broker: Process, left: Left, count: int) -> None:
    """Unloads half of the topics and deletes the others, after all of them have become old. Returns when they are
    gone."""
    topics = [await used(broker, number) for number in range(count)]
    gc.freeze()
    for number, found in enumerate(topics):
        topic = found()
        assert topic is not None
        if number % 2:
            await broker.service.unload(topic)
        else:
            await broker.service.delete_topic(topic.name, force=True)
        del topic
    gc.freeze()
    await until(lambda: not broker.service.closing_topics)
    left.free()
    assert [found() for found in topics] == [None] * count


async def test_unloaded_and_deleted_topics_leave_no_garbage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = Left()
    monkeypatch.setattr(left_objects, "_current", left)
    async with process(tmp_path, MemoryStore()) as broker:
        with collector_off():
            try:
                await use_and_leave(broker, left, 1)  # what the first topic leaves for all of them does not count
                gc.unfreeze()
                gc.collect()
                await use_and_leave(broker, left, TOPICS)
            finally:
                gc.unfreeze()
            assert gc.collect() == 0
