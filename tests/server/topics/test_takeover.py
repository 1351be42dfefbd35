"""Another broker opens a topic's managed ledger. The topic's clients, also those that only consume, are disconnected at
once, so that they look up which broker has the topic now."""

import asyncio
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.topics.topic import Topic
from magnetar.storage.managed.factory import ManagedLedgerFactory
from pulsar_proto.errors import ServiceNotReady
from tests.server.topics.scene import FakeConnection, bodies, publish
from tests.server.topics.storage_scene import NAME, SMALL_LEDGERS, Process, numbers, process
from tests.waiting import until


async def open_elsewhere(broker: Process, store: MemoryStore) -> None:
    bookkeeper = broker.service._factory.bookkeeper
    other = ManagedLedgerFactory(store, bookkeeper, SMALL_LEDGERS, clock_ms=lambda: 1_000, tick_seconds=None)
    await other.open(NAME.managed_ledger_name)


async def test_consumers_of_a_topic_without_producers_are_sent_to_the_new_owner(tmp_path: Path) -> None:
    store = MemoryStore()
    async with process(tmp_path, store) as broker:
        cnx, publisher = FakeConnection(), FakeConnection()
        consumer = await broker.consumer(cnx, "Shared")
        consumer.flow(100)
        producer = await broker.producer(publisher)
        publish(producer, numbers(0, 10))
        await until(lambda: len(cnx.messages) == 10)
        producer.close()
        lost = await broker.topic()

        await open_elsewhere(broker, store)
        await until(lambda: cnx.kinds[-1] == "CLOSE_CONSUMER")
        await until(lambda: NAME.full not in broker.service._closing)
        assert not lost.is_open

        # The client looks the topic up and is sent to this broker again.
        cnx.forget()
        (await broker.consumer(cnx, "Shared")).flow(100)
        assert await broker.topic() is not lost
        await until(lambda: len(cnx.messages) == 10)
        assert bodies(cnx) == numbers(0, 10)


async def test_idle_producers_are_sent_away_too(tmp_path: Path) -> None:
    store = MemoryStore()
    async with process(tmp_path, store) as broker:
        cnx = FakeConnection()
        await broker.producer(cnx)
        await open_elsewhere(broker, store)
        await until(lambda: cnx.kinds[-1:] == ["CLOSE_PRODUCER"])


async def test_a_topic_that_is_taken_over_while_it_is_being_loaded_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    async with process(tmp_path, store) as broker:
        prepare = Topic.prepare

        async def taken_over_meanwhile(topic: Topic) -> None:
            await prepare(topic)
            await open_elsewhere(broker, store)
            await until(lambda: not topic.is_open)

        with monkeypatch.context() as patch:
            patch.setattr(Topic, "prepare", taken_over_meanwhile)
            with pytest.raises(ServiceNotReady, match="taken over"):
                await broker.topic()
        assert NAME.full not in broker.service.topics
        await asyncio.sleep(0)
        assert (await broker.topic()).is_open
