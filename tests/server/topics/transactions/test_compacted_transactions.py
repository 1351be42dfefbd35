"""Compaction of a topic with transactions, on real storage. What is expected was seen at Apache Pulsar 4.0.7."""

from pathlib import Path
from random import Random

from magnetar.metadata.embedded.memory_store import MemoryStore
from magnetar.server.compaction.topic_compaction import RunState
from magnetar.server.config.transaction_settings import TransactionSettings
from magnetar.server.topics.topic import Topic
from magnetar.server.transactions.known_transactions import TransactionSupport
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import FakeConnection
from tests.server.topics.storage_scene import NAME, Process, process
from tests.server.topics.transactions.scene import FakeKnown, send
from tests.waiting import until


async def sent(running: Process, key: str, body: bytes, txn_id: TxnId | None = None) -> None:
    cnx = FakeConnection()
    producer = await running.producer(cnx)
    send(producer, body, txn_id, partition_key=key)
    await until(lambda: cnx.receipts)
    producer.close()


async def compacted(topic: Topic) -> None:
    assert topic.compaction is not None
    topic.compaction.trigger()
    await topic.compaction.idle()
    assert topic.compaction.status.state is RunState.SUCCESS


async def reader(running: Process, name: str) -> FakeConnection:
    """Returns the connection of a reader of the compacted topic, from the first message on, with all permits."""
    cnx = FakeConnection()
    command = pb.CommandSubscribe(
        topic=NAME.full,
        subscription=name,
        subType=pb.CommandSubscribe.Exclusive,
        consumer_id=len(name),
        request_id=1,
        durable=False,
        read_compacted=True,
        start_message_id=pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1),
        initialPosition=pb.CommandSubscribe.Earliest,
    )
    (await (await running.topic()).subscribe(cnx, command)).flow(100)
    return cnx


async def test_uncommitted_messages_are_out_of_reach_and_aborted_ones_are_dropped(tmp_path: Path) -> None:
    known = FakeKnown(Random(1))
    support = TransactionSupport(TransactionSettings(), known)
    committed, aborted, opened = (known.begin(least) for least in (1, 2, 3))
    async with process(tmp_path, MemoryStore(), transactions=support) as running:
        topic = await running.topic()
        buffer = topic.begin_transactions()
        assert buffer is not None
        await sent(running, "a", b"a0")
        await sent(running, "a", b"a1", committed)
        await buffer.end(committed, True, 0)
        await sent(running, "a", b"a2", aborted)
        await buffer.end(aborted, False, 0)
        await sent(running, "b", b"b0")
        await sent(running, "a", b"a3", opened)
        await sent(running, "c", b"c0")
        await compacted(topic)
        assert topic.compaction is not None
        assert topic.compaction.horizon == buffer.max_read_position
        cnx = await reader(running, "r1")
        await until(lambda: len(cnx.messages) == 2)
        assert [each.body for each in cnx.messages] == [b"a1", b"b0"]
        consumer = next(iter(topic.subscriptions["r1"].consumers))
        last, _, batch_index, _ = await consumer.last_message_id()
        assert (last, batch_index) == (cnx.messages[-1].position, -1)
        await buffer.end(opened, True, 2)
        await until(lambda: len(cnx.messages) == 4)
        assert [each.body for each in cnx.messages] == [b"a1", b"b0", b"a3", b"c0"]
        await compacted(topic)
        cnx = await reader(running, "r2x")
        await until(lambda: len(cnx.messages) == 3)
        assert [each.body for each in cnx.messages] == [b"b0", b"a3", b"c0"]


async def test_the_last_message_of_a_compacted_topic_is_one_that_was_kept(tmp_path: Path) -> None:
    """The log ends with a deleted key and a marker, neither of which a reader gets."""
    known = FakeKnown(Random(2))
    txn_id = known.begin(1)
    support = TransactionSupport(TransactionSettings(), known)
    async with process(tmp_path, MemoryStore(), transactions=support) as running:
        topic = await running.topic()
        buffer = topic.begin_transactions()
        assert buffer is not None
        await sent(running, "a", b"a0")
        await sent(running, "b", b"b0", txn_id)
        await sent(running, "b", b"", txn_id)
        await buffer.end(txn_id, True, 0)
        await compacted(topic)
        aborted = known.begin(2)
        await sent(running, "c", b"c0", aborted)
        await buffer.end(aborted, False, 1)
        cnx = await reader(running, "r")
        await until(lambda: len(cnx.messages) == 1)
        consumer = next(iter(topic.subscriptions["r"].consumers))
        last = (await consumer.last_message_id())[0]
        assert last == cnx.messages[0].position == Position(topic.ledger.first_position.ledger_id, 0)
