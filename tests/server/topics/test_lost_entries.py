"""Topics over a real bookie that has lost entries, with autoSkipNonRecoverableData: subscriptions of every type get all
other entries, when they are new and when they are redelivered, and nothing of what is lost stays in a backlog."""

import random
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.config.topic_settings import TopicSettings
from magnetar.server.stats.domain_stats import internal_stats, topic_stats
from magnetar.server.topics.publishing.deduplication import DEDUP_CURSOR
from pulsar_proto.ids import Position
from tests.server.topics.scene import FakeConnection, ack, bodies, publish, redeliver, settle
from tests.server.topics.storage_scene import SMALL_LEDGERS, Process, numbers, process
from tests.waiting import until

COUNT = 200
SKIPPING = replace(SMALL_LEDGERS, auto_skip_non_recoverable_data=True, managed_ledger_cache_size_mb=0)
WAITING = replace(SKIPPING, auto_skip_non_recoverable_data=False)
TYPES = ("Exclusive", "Failover", "Shared", "Key_Shared")


async def stored(broker: Process) -> list[Position]:
    """Publishes `COUNT` messages and returns where they are."""
    cnx = FakeConnection()
    publish(await broker.producer(cnx), numbers(0, COUNT))
    await until(lambda: len(cnx.receipts) == COUNT)
    return [position for _, position in cnx.receipts]


def some_runs(positions: list[Position], seed: int) -> set[tuple[int, int]]:
    rng = random.Random(seed)
    starts = rng.sample(range(COUNT), 4)
    return {tuple(position) for start in starts for position in positions[start : start + rng.choice([1, 7, 60])]}  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sub_type", TYPES)
async def test_what_is_left_comes_once_in_order(tmp_path: Path, sub_type: str, seed: int) -> None:
    async with process(tmp_path, MemoryStore(), SKIPPING) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, sub_type)
        positions = await stored(broker)
        lost = broker.disk.lost = some_runs(positions, seed)
        left = [position for position in positions if position not in lost]
        consumer.flow(1_000)
        await until(lambda: len(cnx.messages) == len(left))
        assert [message.position for message in cnx.messages] == left
        ack(consumer, left)
        await settle()
        assert consumer.subscription.cursor.backlog == 0
        assert (await broker.topic()).ledger.gaps.entries_skipped == len(lost)


@pytest.mark.parametrize("sub_type", TYPES)
async def test_what_was_sent_before_it_was_lost_does_not_hold_up_what_comes_again(
    tmp_path: Path, sub_type: str
) -> None:
    async with process(tmp_path, MemoryStore(), SKIPPING) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, sub_type)
        consumer.flow(10_000)
        positions = await stored(broker)
        await until(lambda: len(cnx.messages) == COUNT)
        lost = broker.disk.lost = some_runs(positions, 1)
        left = [position for position in positions if position not in lost]
        cnx.forget()
        redeliver(consumer)
        await until(lambda: len(cnx.messages) == len(left))
        assert sorted(message.position for message in cnx.messages) == left
        ack(consumer, left)
        await settle()
        assert (consumer.subscription.cursor.backlog, consumer.unacked_messages) == (0, 0)
        cnx.forget()
        publish(await broker.producer(FakeConnection()), numbers(COUNT, COUNT + 3), COUNT)
        await until(lambda: len(cnx.messages) == 3)
        assert bodies(cnx) == numbers(COUNT, COUNT + 3)


async def test_the_last_message_is_the_last_one_that_is_left(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore(), SKIPPING) as broker:
        consumer = await broker.consumer(FakeConnection(), "Exclusive")
        positions = await stored(broker)
        broker.disk.lost = {tuple(position) for position in positions[120:]}  # type: ignore[misc]
        assert (await consumer.last_message_id())[0] == positions[119]
        broker.disk.lost = {tuple(position) for position in positions}  # type: ignore[misc]
        assert (await consumer.last_message_id())[0] == Position(-1, -1)


async def test_deduplication_learns_from_what_is_left(tmp_path: Path) -> None:
    store = MemoryStore()
    await store.create("/admin/policies/public/default", b'{"deduplicationEnabled":true}', make_parents=True)
    async with process(tmp_path, store, SKIPPING) as broker:
        positions = await stored(broker)
    async with process(tmp_path, store, SKIPPING) as broker:
        broker.disk.lost = {tuple(position) for position in positions[30:180]}  # type: ignore[misc]
        topic = await broker.topic()
        assert DEDUP_CURSOR in topic.ledger.cursors
        assert topic.publishing.dedup is not None
        assert len(topic.publishing.dedup.table) == 1


async def test_without_the_key_the_stats_say_why_nothing_comes_until_it_can_be_read_again(tmp_path: Path) -> None:
    settings = TopicSettings(dispatcher_read_failure_backoff_initial_time_in_ms=10)
    async with process(tmp_path, MemoryStore(), WAITING, settings=settings) as broker:
        cnx = FakeConnection()
        consumer = await broker.consumer(cnx, "Shared")
        positions = await stored(broker)
        broker.disk.lost = {tuple(position) for position in positions[60:70]}  # type: ignore[misc]
        consumer.flow(1_000)
        topic = await broker.topic()

        def why() -> object:
            stats: dict[str, dict[str, dict[str, object]]] = topic_stats(topic)  # type: ignore[assignment]
            return stats["subscriptions"]["s"]["whyIdle"]

        await until(lambda: "are lost" in str(why()))
        assert bodies(cnx) == numbers(0, 60)
        ledger_id, entry_id = positions[60]
        assert f"entries {ledger_id}:{entry_id} to {ledger_id}:{entry_id + 9} (10) are lost" in str(why())
        assert [(gap.entries, gap.skipped) for gap in topic.ledger.gaps.known] == [(10, False)]
        broker.disk.lost.clear()
        await until(lambda: len(cnx.messages) == COUNT)
        assert bodies(cnx) == numbers(0, COUNT)
        assert internal_stats(topic)["unreadable"] == []
