"""Topics on the real managed ledger, ledger client and bookie."""

import random
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from pulsar_proto.errors import QuotaExceeded
from pulsar_proto.ids import Position
from tests.server.topics.scene import FakeConnection, ack, bodies, publish, redeliver, subscription_of
from tests.server.topics.storage_scene import NAME, numbers, process
from tests.waiting import until


async def test_messages_reach_a_consumer_as_they_come_and_again_after_the_process_died(tmp_path: Path) -> None:
    store = MemoryStore()
    async with process(tmp_path, store) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, "Exclusive")
        consumer.flow(1_000)
        producer = await broker.producer(cnx)
        for first in range(0, 170, 10):
            publish(producer, numbers(first, first + 10), first)
        await until(lambda: len(cnx.messages) == 170)
        assert bodies(cnx) == numbers(0, 170)
        assert [sequence_id for sequence_id, _ in cnx.receipts] == list(range(170))
        stored = [position for _, position in cnx.receipts]
        assert stored == [message.position for message in cnx.messages] == sorted(stored)
        assert len({position.ledger_id for position in stored}) >= 3
        await ack(consumer, [stored[99]], cumulative=True, request_id=1)
    async with process(tmp_path, store) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, "Exclusive")
        consumer.flow(40)
        await until(lambda: len(cnx.messages) == 40)
        consumer.flow(40)
        publish(await broker.producer(cnx), numbers(170, 180))
        await until(lambda: len(cnx.messages) == 80)
        assert bodies(cnx) == numbers(100, 180)


async def test_exactly_what_was_not_acknowledged_comes_again(tmp_path: Path) -> None:
    store = MemoryStore()
    rng = random.Random(7)
    async with process(tmp_path, store) as broker:
        connections = [FakeConnection(f"/{number}") for number in range(3)]
        consumers = [await broker.consumer(cnx, "Shared") for cnx in connections]
        for consumer in consumers:
            consumer.flow(1_000)
        producer = await broker.producer(connections[0])
        for first in range(0, 200, 8):
            publish(producer, numbers(first, first + 8), first)
        await until(lambda: sum(len(cnx.messages) for cnx in connections) == 200)
        received = {message.position: message.body for cnx in connections for message in cnx.messages}
        assert sorted(received.values(), key=int) == numbers(0, 200)
        acked = rng.sample(sorted(received), 90)
        for position in acked[:-1]:
            ack(rng.choice(consumers), [position])
        await ack(consumers[0], acked[-1:], request_id=1)
        assert (await broker.topic()).subscriptions["s"].unacked_messages == 110
        redeliver(consumers[1])
        connections[2].forget()
        consumers[2].close()
        left = sorted(set(received) - set(acked))
    async with process(tmp_path, store) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, "Shared")
        consumer.flow(1_000)
        await until(lambda: len(cnx.messages) == len(left))
        assert [message.position for message in cnx.messages] == left
        assert [message.body for message in cnx.messages] == [received[position] for position in left]
        await ack(consumer, left, request_id=2)
        assert consumer.subscription.cursor.backlog == 0


async def test_a_full_disk_is_told_and_forgotten_when_there_is_room_again(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore()) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, "Exclusive")
        consumer.flow(100)
        publish(await broker.producer(cnx), numbers(0, 3))
        await until(lambda: len(cnx.messages) == 3)
        broker.disk.is_full = True
        publish(await broker.producer(cnx), numbers(3, 5), 3)
        await until(lambda: "CLOSE_PRODUCER" in cnx.kinds)
        fence = (await broker.topic()).publishing.fence
        await until(lambda: fence.is_storage_down)
        with pytest.raises(QuotaExceeded, match="Storage does not take messages"):
            await broker.producer(cnx)
        redeliver(consumer)
        await until(lambda: len(cnx.messages) == 6)
        broker.disk.is_full = False
        await until(lambda: not fence.is_storage_down)
        publish(await broker.producer(cnx), numbers(3, 5), 3)
        await until(lambda: len(cnx.receipts) == 5)
        await until(lambda: len(cnx.messages) == 8)
        assert bodies(cnx)[-2:] == numbers(3, 5)


async def test_a_topic_that_was_unloaded_goes_on_where_it_was(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore()) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, "Exclusive")
        consumer.flow(100)
        publish(await broker.producer(cnx), numbers(0, 10))
        await until(lambda: len(cnx.messages) == 10)
        ack(consumer, [cnx.messages[4].position], cumulative=True)
        await broker.service.unload(await broker.topic())
        assert cnx.kinds[-2:] == ["CLOSE_PRODUCER", "CLOSE_CONSUMER"]
        cnx.forget()
        (await broker.consumer(cnx, "Exclusive")).flow(100)
        await until(lambda: len(cnx.messages) == 5)
        assert bodies(cnx) == numbers(5, 10)
        await broker.service.close()


async def test_seek_and_the_last_message_id_find_what_is_stored(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore()) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, "Exclusive")
        publish(await broker.producer(cnx), numbers(0, 120))
        await until(lambda: len(cnx.receipts) == 120)
        target = cnx.receipts[70][1]
        assert (await consumer.last_message_id())[0] == cnx.receipts[-1][1]
        await subscription_of(consumer).reset(target)
        cnx.forget()
        (await broker.consumer(cnx, "Exclusive")).flow(1_000)
        await until(lambda: len(cnx.messages) == 50)
        assert bodies(cnx) == numbers(70, 120)
        await subscription_of(consumer).reset_to_time(2)
        assert consumer.subscription.cursor.backlog == 0
        await subscription_of(consumer).reset(Position(-1, -1))
        assert consumer.subscription.cursor.backlog == 120
        await broker.service.delete_topic(NAME, force=True)
        assert not await broker.service.catalog.topic_exists(NAME)
