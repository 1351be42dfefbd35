"""The tables of snapshots, and the system topic that holds them on a real bookie."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.topics.transactions.snapshot_table import SnapshotKind, SnapshotTable
from magnetar.server.transactions.known_transactions import TransactionSupport
from pulsar_proto.errors import PersistenceFault
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.records.payload import parse_metadata
from tests.server.topics.scene import FakeConnection
from tests.server.topics.storage_scene import NAME, Process, process
from tests.server.topics.transactions.scene import FakeKnown, FakeSnapshotLogs, recorded_ledger, send
from tests.waiting import until

WHOLE = SnapshotKind.WHOLE
TABLE_TOPIC = TopicName.parse("persistent://public/default/__transaction_buffer_snapshot")


async def test_the_newest_content_of_a_key_counts_and_a_deleted_key_is_gone() -> None:
    logs = FakeSnapshotLogs(Random(1))
    table = SnapshotTable(TABLE_TOPIC, WHOLE, logs)
    assert await table.get("a") is None
    assert not logs.of(WHOLE).exists, "who only asks makes no topic"
    await table.put("a", b"1")
    await table.put("a", b"2")
    await table.put("b", b"3")
    await table.put("b", None)
    for each in (table, SnapshotTable(TABLE_TOPIC, WHOLE, logs)):
        assert (await each.get("a"), await each.get("b")) == (b"2", None)


async def test_what_others_have_written_is_read_again_after_a_write_that_failed() -> None:
    logs = FakeSnapshotLogs(Random(2))
    table = SnapshotTable(TABLE_TOPIC, WHOLE, logs)
    await table.put("a", b"1")
    logs.of(WHOLE).failure = PersistenceFault("moved")
    with pytest.raises(PersistenceFault):
        await table.put("a", b"2")
    logs.of(WHOLE).failure = None
    logs.of(WHOLE).messages.append(("a", b"of another broker"))
    assert await table.get("a") == b"of another broker"


def with_transactions(known: FakeKnown) -> Any:
    return {"transactions": TransactionSupport(TransactionSettings(), known)}


async def send_and_wait(running: Process, body: bytes, txn_id: TxnId | None) -> None:
    cnx = FakeConnection()
    producer = await running.producer(cnx)
    send(producer, body, txn_id)
    await until(lambda: cnx.receipts)
    producer.close()


async def test_a_topic_on_real_storage_is_recovered_from_its_snapshot_after_a_kill(tmp_path: Path) -> None:
    store = MemoryStore()
    known = FakeKnown(Random(3))
    aborted, opened = known.begin(1), known.begin(2)
    async with process(tmp_path, store, **with_transactions(known)) as running:
        await send_and_wait(running, b"plain", None)
        await send_and_wait(running, b"aborted", aborted)
        await send_and_wait(running, b"open", opened)
        buffer = (await running.topic()).transactions
        assert buffer is not None
        await buffer.end(aborted, False, 0)
    async with process(tmp_path, store, **with_transactions(known)) as running:
        buffer = (await running.topic()).transactions
        assert buffer is not None
        assert list(buffer.transactions.open) == [opened]
        assert list(buffer.transactions.aborted) == [aborted]
        cnx = FakeConnection()
        (await running.consumer(cnx, "Shared")).flow(100)
        await until(lambda: len(cnx.messages) == 1)
        await buffer.end(opened, True, 1)
        await until(lambda: len(cnx.messages) == 2)
        assert [each.body for each in cnx.messages] == [b"plain", b"open"]


async def test_the_system_topic_holds_apaches_messages_and_is_compacted(tmp_path: Path) -> None:
    known = FakeKnown(Random(4))
    async with process(tmp_path, MemoryStore(), **with_transactions(known)) as running:
        await send_and_wait(running, b"a", known.begin(1))
        table_topic = await running.service.get_topic(TABLE_TOPIC, create=False)
        assert table_topic.transactions is None
        assert table_topic.compaction is not None
        assert table_topic.compaction.cursor is not None
        run = await table_topic.ledger.read(Position(-1, -1), 10, 10_000)
        ours = parse_metadata(run.entries[0], run.payload_offset)
        apaches = parse_metadata(recorded_ledger("public/default/persistent/__transaction_buffer_snapshot")[0])
        for field in ("partition_key", "producer_name", "publish_time", "uncompressed_size"):
            ours.ClearField(field)
            apaches.ClearField(field)
        assert ours == apaches
        stored = await running.service.schemas.registry.latest(TABLE_TOPIC.schema_id)
        assert stored is not None
        assert stored.schema.data == WHOLE.schema.data


async def test_a_deleted_topic_leaves_no_snapshot_behind(tmp_path: Path) -> None:
    known = FakeKnown(Random(5))
    async with process(tmp_path, MemoryStore(), **with_transactions(known)) as running:
        await send_and_wait(running, b"a", known.begin(1))
        transactions = running.service.transactions
        assert transactions is not None
        table = transactions.tables.of("public/default", WHOLE)
        assert await table.get(NAME.full) is not None
        await running.service.delete_topic(NAME, force=True)
        assert await table.get(NAME.full) is None
        known.live.clear()
        assert (await running.topic()).transactions is None


async def test_the_snapshot_topic_can_be_deleted_and_is_made_again(tmp_path: Path) -> None:
    known = FakeKnown(Random(6))
    async with process(tmp_path, MemoryStore(), **with_transactions(known)) as running:
        await send_and_wait(running, b"a", known.begin(1))
        await running.service.delete_topic(TABLE_TOPIC, force=True)
        transactions = running.service.transactions
        assert transactions is not None
        assert await transactions.tables.of("public/default", WHOLE).get(NAME.full) is None
