"""What becomes of acknowledgements in transactions when their topic is loaded again, moved back or deleted."""

import asyncio

import pytest

from magnetar.server.topics.subscriptions.pending_acks.pending_ack_log import log_name
from pulsar_proto.errors import ServiceNotReady
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.names import TopicName
from pulsar_proto.pb import pulsar_api_pb2 as pb
from pulsar_proto.records.pending_ack_log import PendingAckOp, PendingAckRecord, PendingPosition
from tests.server.topics.scene import (
    FakeConnection,
    bodies,
    in_virtual_time,
    pass_time,
    payload,
    payloads,
    seek_command,
    settle,
)
from tests.server.topics.subscriptions.pending_acks.pending_ack_scene import (
    LEDGER,
    A,
    B,
    TransactionScene,
    abort,
    ack_in,
    commit,
    consumer_of,
    mark_delete,
)

# --- recovery, trimming, moves, deletion ------------------------------------------------------------------------------


async def test_open_transactions_survive_a_restart() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now([*payloads(b"a", b"b", b"c"), payload(b"batch", batch=3)])
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    await ack_in(B, consumer, 1)
    await ack_in(B, consumer, 3, ack_set=[0b100], batch_size=3)
    await scene.load_again()
    consumer = await consumer_of(scene, cnx, "Shared")
    assert [(each.body, each.ack_set) for each in cnx.messages] == [(b"c", ()), (b"batch", (0b100,))]
    await commit(A, consumer)
    cnx.forget()
    await abort(B, consumer)
    await settle()
    assert [(each.body, each.ack_set) for each in cnx.messages] == [(b"b", ()), (b"batch", ())]
    assert mark_delete(consumer) == Position(LEDGER, 0)


async def test_subscribers_wait_until_the_log_was_read() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    await scene.topic.make_subscription("s")
    scene.write_log([PendingAckRecord(PendingAckOp.ACK, A, False, (PendingPosition(LEDGER, 0),))])
    scene.log_of().read_gate = asyncio.Event()
    await scene.load_again()
    subscribing = asyncio.ensure_future(consumer_of(scene, cnx, "Shared"))
    await settle()
    assert not subscribing.done()
    scene.log_of().let_reads_go()
    await subscribing
    assert bodies(cnx) == [b"b"]


@in_virtual_time
async def test_a_log_that_cannot_be_read_is_read_again_later() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    await scene.topic.make_subscription("s")
    scene.write_log(
        [
            PendingAckRecord(PendingAckOp.ACK, A, False, (PendingPosition(LEDGER, 0),)),
            PendingAckRecord(PendingAckOp.COMMIT, A),
        ]
    )
    scene.log_of().read_failures = 2
    await scene.load_again()
    consumer = await consumer_of(scene, cnx, "Shared")
    assert bodies(cnx) == [b"b"]
    assert mark_delete(consumer) == Position(LEDGER, 0)


async def test_a_damaged_log_keeps_consumers_away_and_says_why() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a"))
    await scene.topic.make_subscription("s")
    scene.write_log([PendingAckRecord(PendingAckOp.COMMIT, A)])
    scene.log_of().append_now([b"\x08\x09"])
    topic = await scene.load_again()
    with pytest.raises(ServiceNotReady, match=r"pending acknowledgements of s are not ready: .*no operation"):
        await scene.consumer(FakeConnection(), "Shared")
    found = topic.subscriptions["s"].pending_acks
    assert found is not None
    with pytest.raises(ServiceNotReady):
        await found.end(A, True, -1)
    await topic.subscriptions["s"].delete()
    assert scene.factory.ledgers == {}


@in_virtual_time
async def test_a_transaction_that_its_coordinator_has_forgotten_is_aborted_after_a_restart() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    await ack_in(B, consumer, 1)
    scene.known.dead.add(A)
    scene.known.is_away = True
    topic = await scene.load_again()
    began_s = asyncio.get_running_loop().time()
    await consumer_of(scene, cnx, "Shared")
    assert bodies(cnx) == []
    assert asyncio.get_running_loop().time() == began_s, "consumers do not wait for the coordinator"
    scene.known.is_away = False
    found = topic.subscriptions["s"].pending_acks
    assert found is not None
    await pass_time(1)
    assert bodies(cnx) == [b"a"]
    assert found.rules.holders == [B]


async def test_the_log_is_trimmed_when_the_cursor_has_stored_what_it_says() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(*[b"m"] * 10))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    gate = scene.ledger.stores["s"].gate = asyncio.Event()
    for number in range(3):
        await ack_in(TxnId(0, number), consumer, number)
        await commit(TxnId(0, number), consumer)
    cursor = scene.log_of().cursors["__pending_ack_state"]
    await settle()
    assert cursor.mark_delete.entry_id == -1, "the subscription's cursor is being stored"
    gate.set()
    await settle()
    assert cursor.mark_delete.entry_id == 3, "four of six records"


async def test_the_log_keeps_the_acknowledgements_of_an_open_transaction() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(*[b"m"] * 10))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 9)
    for number in range(9):
        await ack_in(TxnId(1, number), consumer, number)
        await commit(TxnId(1, number), consumer)
    await settle()
    cursor = scene.log_of().cursors["__pending_ack_state"]
    assert cursor.mark_delete.entry_id == -1
    await commit(A, consumer)
    await settle()
    assert cursor.mark_delete.entry_id == 15, "sixteen of twenty records"


async def test_after_a_move_back_a_restart_acknowledges_nothing_again() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    await commit(A, consumer)
    await ack_in(B, consumer, 1)
    await consumer.seek(seek_command(consumer, message_id=pb.MessageIdData(ledgerId=LEDGER, entryId=0)))
    await scene.load_again()
    consumer = await consumer_of(scene, cnx, "Shared")
    assert bodies(cnx) == [b"a", b"c"]
    await abort(B, consumer)
    await settle()
    assert bodies(cnx) == [b"a", b"c", b"b"]


async def test_unsubscribing_deletes_the_log() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    await commit(A, consumer)
    await consumer.unsubscribe()
    assert scene.factory.ledgers == {}
    await consumer_of(scene, cnx, "Shared")
    assert bodies(cnx) == [b"a", b"b"]


def test_logs_are_named_as_apaches() -> None:
    name = TopicName.parse("persistent://public/default/in-partition-0")
    assert log_name(name, "s") == "public/default/persistent/in-partition-0-s__transaction_pending_ack"
    assert log_name(name, "a/b") == "public/default/persistent/in-partition-0-a%2Fb__transaction_pending_ack"
