"""The oldest message and the number of messages of a backlog, from the first entries of it."""

import asyncio

from magnetar.server.topics.topic import Topic
from magnetar.server.why.first_unacknowledged import READ_ENTRIES, oldest_entry
from magnetar.server.why.subscription_snapshot import OldestEntry
from pulsar_proto.ids import Position
from tests.server.topics.scene import FakeConnection, Scene, ack, in_virtual_time, payload, settle

LATER = 1e9


async def oldest(topic: Topic, until_s: float = LATER) -> OldestEntry | None:
    return await oldest_entry(topic.subscriptions["s"], until_s)


async def test_messages_are_counted_and_those_that_are_acknowledged_in_a_batch_do_not_count() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection(), "Shared")
    scene.ledger.append_now([payload(b"x", batch=5, publish_time=7_000), payload(b"x", publish_time=8_000)])
    consumer.flow(10)
    await settle()
    assert await oldest(scene.topic) == OldestEntry(7_000, 6, messages_are_exact=True)
    ack(consumer, [Position(10, 0)], ack_set=[0b10100])
    assert await oldest(scene.topic) == OldestEntry(7_000, 3, messages_are_exact=True)
    ack(consumer, [Position(10, 0)])
    assert await oldest(scene.topic) == OldestEntry(8_000, 1, messages_are_exact=True)
    ack(consumer, [Position(10, 1)])
    assert await oldest(scene.topic) is None


async def test_a_long_backlog_is_estimated_from_its_beginning() -> None:
    scene = Scene()
    await scene.topic.make_subscription("s")
    scene.ledger.append_now([payload(b"x", batch=3)] * (10 * READ_ENTRIES))
    assert await oldest(scene.topic) == OldestEntry(1, 30 * READ_ENTRIES, messages_are_exact=False)


@in_virtual_time
async def test_a_read_that_fails_or_gets_no_answer_is_told_and_holds_nobody_up() -> None:
    scene = Scene()
    await scene.topic.make_subscription("s")
    scene.ledger.append_now([payload(b"x")])
    scene.ledger.read_failures = 1
    failed = await oldest(scene.topic)
    assert failed is not None
    assert "entry 10:0" in failed.failure
    scene.ledger.read_gate = asyncio.Event()
    began_s = asyncio.get_running_loop().time()
    silent = await oldest(scene.topic)
    assert silent == OldestEntry(failure="the bookies did not answer within 2.0 s")
    assert asyncio.get_running_loop().time() - began_s < 2.1
    assert await oldest(scene.topic, until_s=0.0) == OldestEntry(), "the time for reading is over"
