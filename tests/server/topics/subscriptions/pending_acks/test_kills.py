"""Acknowledgements in transactions over a real bookie, whose process is killed: what was answered holds."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import log_name
from magnetar.server.transactions.known_transactions import TransactionSupport
from pulsar_proto.errors import PulsarError
from pulsar_proto.ids import Position
from pulsar_proto.records.pending_ack_log import PendingAckRecord, parse_pending_ack_entry
from tests.server.steps import finish
from tests.server.topics.scene import FakeConnection, ack, bodies, publish
from tests.server.topics.storage_scene import NAME, SMALL_LEDGERS, Process, numbers, process
from tests.server.topics.subscriptions.pending_acks.pending_ack_scene import A, B, C, FakeKnown, abort, commit, pending
from tests.waiting import until

RARELY_STORED = replace(SMALL_LEDGERS, managed_ledger_default_mark_delete_rate_limit=0.000_001)
"""Cursors store their first change at once, and no further one for days."""


def support(**settings: Any) -> TransactionSupport:
    return TransactionSupport(TransactionSettings(**settings), FakeKnown())


async def shared(broker: Process, cnx: FakeConnection) -> Consumer:
    consumer = await broker.consumer(cnx, "Shared")
    consumer.flow(100)
    return consumer


async def publish_all(broker: Process, count: int) -> None:
    cnx = FakeConnection()
    publish(await broker.producer(cnx), numbers(0, count))
    await until(lambda: len(cnx.receipts) == count)


def positions(cnx: FakeConnection, *indexes: int) -> list[Position]:
    return [cnx.messages[index].position for index in indexes]


async def records(broker: Process) -> tuple[int, list[PendingAckRecord]]:
    """Returns how many entries the log has, and the records in them."""
    ledger = await broker.service.managed_ledgers.open(log_name(NAME, "s"))
    run = await ledger.read(ledger.first_position, 1_000, 1 << 20)
    entries = [entry[run.payload_offset :] for entry in run.entries]
    return len(entries), [record for entry in entries for record in finish(parse_pending_ack_entry(entry))]


@pytest.mark.parametrize("batched", [False, True])
async def test_a_commit_that_was_answered_outlives_a_kill(tmp_path: Path, batched: bool) -> None:
    store, transactions = MemoryStore(), support(transaction_pending_ack_batched_write_enabled=batched)
    async with process(tmp_path, store, RARELY_STORED, transactions) as broker:
        await publish_all(broker, 10)
        cnx = FakeConnection()
        consumer = await shared(broker, cnx)
        await until(lambda: len(cnx.messages) == 10)
        ack(consumer, positions(cnx, 9))  # the only acknowledgement that the cursor stores before the kill
        await consumer.subscription.cursor.persisted()
        for txn_id, indexes in ((A, (0, 1, 4)), (B, (2, 5)), (C, (3, 6))):
            await ack(consumer, positions(cnx, *indexes), request_id=1, txn_id=txn_id)
        await asyncio.gather(commit(A, consumer), abort(C, consumer))
        entries, stored = await records(broker)
        assert len(stored) == 5
        assert (entries < 5) == batched
    async with process(tmp_path, store, RARELY_STORED, transactions) as broker:
        cnx = FakeConnection()
        consumer = await shared(broker, cnx)
        await until(lambda: len(cnx.messages) >= 4)
        assert bodies(cnx) == [b"3", b"6", b"7", b"8"]
        assert pending(consumer).rules.holders == [B]
        await commit(B, consumer)
    async with process(tmp_path, store, RARELY_STORED, support()) as broker:
        cnx = FakeConnection()
        await shared(broker, cnx)
        await until(lambda: len(cnx.messages) >= 4)
        assert bodies(cnx) == [b"3", b"6", b"7", b"8"]


async def test_deleting_the_topic_deletes_the_logs(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore(), SMALL_LEDGERS, support()) as broker:
        await publish_all(broker, 2)
        cnx = FakeConnection()
        consumer = await shared(broker, cnx)
        await until(lambda: len(cnx.messages) == 2)
        await ack(consumer, positions(cnx, 0), request_id=1, txn_id=A)
        assert await broker.service.managed_ledgers.exists(log_name(NAME, "s"))
        consumer.close()
        await broker.service.delete_topic(NAME, force=True)
        assert not await broker.service.managed_ledgers.exists(log_name(NAME, "s"))


@pytest.mark.parametrize("whole_topic", [False, True])
async def test_a_log_goes_with_its_subscription_although_transactions_are_off(
    tmp_path: Path, whole_topic: bool
) -> None:
    store = MemoryStore()
    async with process(tmp_path, store, SMALL_LEDGERS, support()) as broker:
        await publish_all(broker, 1)
        cnx = FakeConnection()
        consumer = await shared(broker, cnx)
        await until(lambda: cnx.messages)
        await ack(consumer, positions(cnx, 0), request_id=1, txn_id=A)
    async with process(tmp_path, store, SMALL_LEDGERS) as broker:
        topic, ledgers = await broker.topic(), broker.service.managed_ledgers
        assert topic.subscriptions["s"].pending_acks is None
        assert await ledgers.exists(log_name(NAME, "s"))
        await (broker.service.delete_topic(NAME, force=True) if whole_topic else topic.subscriptions["s"].delete())
        assert not await ledgers.exists(log_name(NAME, "s"))


async def test_an_unloaded_topic_keeps_its_open_transactions(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore(), SMALL_LEDGERS, support()) as broker:
        await publish_all(broker, 3)
        cnx = FakeConnection()
        consumer = await shared(broker, cnx)
        await until(lambda: len(cnx.messages) == 3)
        await ack(consumer, positions(cnx, 1), request_id=1, txn_id=A)
        await broker.service.unload(await broker.topic())
        cnx = FakeConnection()
        consumer = await shared(broker, cnx)
        await until(lambda: len(cnx.messages) == 2)
        assert bodies(cnx) == [b"0", b"2"]
        await abort(A, consumer)
        await until(lambda: len(cnx.messages) == 3)
        assert bodies(cnx)[-1] == b"1"


async def test_a_full_disk_refuses_acknowledgements_and_ends_until_there_is_room(tmp_path: Path) -> None:
    async with process(tmp_path, MemoryStore(), SMALL_LEDGERS, support()) as broker:
        await publish_all(broker, 3)
        cnx = FakeConnection()
        consumer = await shared(broker, cnx)
        await until(lambda: len(cnx.messages) == 3)
        await ack(consumer, positions(cnx, 0), request_id=1, txn_id=A)
        broker.disk.is_full = True
        with pytest.raises(PulsarError, match="bookie"):
            await ack(consumer, positions(cnx, 1), request_id=1, txn_id=A)
        with pytest.raises(PulsarError, match="bookie"):
            await commit(A, consumer)
        broker.disk.is_full = False
        await ack(consumer, positions(cnx, 2), request_id=1, txn_id=B)
        await commit(A, consumer)
        await commit(B, consumer)
        cursor = consumer.subscription.cursor
        assert cursor.backlog == 1
        assert pending(consumer).rules.transactions == 0
