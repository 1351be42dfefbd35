"""Retention and expiry on the real managed ledger, ledger client and bookie, also after the process has died."""

import json
import time
from pathlib import Path
from typing import Any

from magnetar.metadata import paths
from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.topics import backlog
from magnetar.server.topics.publishing.deduplication import DEDUP_CURSOR
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection, bodies, publish
from tests.server.topics.storage_scene import NAME, Process, numbers, process
from tests.waiting import until


async def with_policies(**policies: Any) -> MemoryStore:
    store = MemoryStore()
    await store.create(paths.policies_path(NAME.namespace), json.dumps(policies).encode(), make_parents=True)
    return store


async def fill(broker: Process, first: int, end: int) -> None:
    """Publishes in groups of ten messages; a ledger holds fifty."""
    cnx = FakeConnection()
    producer = await broker.producer(cnx)
    for number in range(first, end, 10):
        publish(producer, numbers(number, number + 10), number)
    await until(lambda: len(cnx.receipts) == end - first)
    producer.close()


def reader_command(start: Position) -> pb.CommandSubscribe:
    return pb.CommandSubscribe(
        topic=NAME.full,
        subscription="reader",
        subType=pb.CommandSubscribe.Exclusive,
        consumer_id=1,
        request_id=1,
        durable=False,
        consumer_name="r",
        start_message_id=pb.MessageIdData(ledgerId=start.ledger_id % 2**64, entryId=start.entry_id % 2**64),
    )


async def test_a_namespace_s_retention_holds_from_the_moment_a_topic_is_loaded(tmp_path: Path) -> None:
    store = await with_policies(retention_policies={"retentionTimeInMinutes": -1, "retentionSizeInMB": -1})
    for generation in range(2):
        async with process(tmp_path, store) as broker:
            topic = await broker.topic()
            await fill(broker, generation * 200, generation * 200 + 200)
            await topic.ledger.maintain()
            assert topic.ledger.number_of_entries == 200 * (generation + 1)
            cnx = FakeConnection()
            reader = await topic.subscribe(cnx, reader_command(EARLIEST))
            reader.flow(1_000)
            await until(lambda cnx=cnx, generation=generation: len(cnx.messages) == 200 * (generation + 1))  # type: ignore[misc]
            assert bodies(cnx) == numbers(0, 200 * (generation + 1))


async def test_without_retention_what_expired_is_deleted(tmp_path: Path) -> None:
    store = await with_policies(message_ttl_in_seconds=10)
    async with process(tmp_path, store) as broker:
        topic = await broker.topic()
        subscription = await topic.create_subscription("s", EARLIEST)
        await fill(broker, 0, 200)
        ledgers = len(topic.ledger.stats().ledgers)
        assert ledgers > 3
        assert await backlog.expire_older(subscription, 10, now_ms=20_000) == 200
        await topic.ledger.maintain()
        assert len(topic.ledger.stats().ledgers) <= 1


async def test_a_reader_goes_on_with_what_is_left_when_its_place_is_trimmed(tmp_path: Path) -> None:
    store = await with_policies()
    async with process(tmp_path, store) as broker:
        topic = await broker.topic()
        subscription = await topic.create_subscription("s", EARLIEST)
        await fill(broker, 0, 200)
        cnx = FakeConnection()
        reader = await topic.subscribe(cnx, reader_command(EARLIEST))
        reader.flow(7)
        await until(lambda: len(cnx.messages) == 7)
        await backlog.skip(subscription, 160)
        await topic.ledger.maintain()
        first_left = topic.ledger.number_of_entries
        assert 40 <= first_left < 100
        reader.flow(1_000)
        await until(lambda: bodies(cnx)[-1] == b"199")
        got = [int(body) for body in bodies(cnx)]
        assert got == sorted(set(got))
        assert got[:7] == list(range(7))
        assert got[-first_left:] == list(range(200 - first_left, 200))
        await fill(broker, 200, 210)
        await until(lambda: bodies(cnx)[-1] == b"209")


async def test_the_cursor_of_deduplication_holds_no_more_of_the_log_than_a_snapshot_covers(tmp_path: Path) -> None:
    store = await with_policies(deduplicationEnabled=True)
    async with process(tmp_path, store) as broker:
        topic = await broker.topic()
        await fill(broker, 0, 200)
        await topic.ledger.maintain()
        assert topic.ledger.number_of_entries == 200
        topic.deduplication.tick(time.monotonic() + 121, 120)
        cursor = topic.ledger.cursors[DEDUP_CURSOR]
        await topic.ledger.maintain()
        assert cursor.backlog == 0
        assert cursor.is_dirty
        assert topic.ledger.number_of_entries == 200, "the snapshot is not stored yet"
        await cursor.persisted()
        await topic.ledger.maintain()
        assert topic.ledger.number_of_entries < 60
    async with process(tmp_path, store) as broker:
        topic = await broker.topic()
        assert topic.publishing.dedup is not None
        assert len(topic.publishing.dedup.table) == 1
