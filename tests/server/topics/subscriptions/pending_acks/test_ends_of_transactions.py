"""Acknowledgements in transactions that are refused, and ends of transactions, whenever and however often they come."""

import asyncio

import pytest

from pulsar_proto.errors import NotAllowed, ServiceNotReady, TransactionNotFound
from pulsar_proto.ids import Position
from pulsar_proto.records.pending_ack_log import PendingAckOp, PendingAckRecord, PendingPosition
from tests.server.topics.scene import (
    FakeConnection,
    ack,
    bodies,
    payload,
    payloads,
    settle,
    subscription_of,
)
from tests.server.topics.subscriptions.pending_acks.pending_ack_scene import (
    LEDGER,
    A,
    B,
    C,
    TransactionScene,
    abort,
    ack_in,
    commit,
    consumer_of,
    mark_delete,
    pending,
)

# --- refusals ---------------------------------------------------------------------------------------------------------


async def test_a_transaction_that_no_coordinator_has_is_refused() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    scene.known.dead.add(A)
    with pytest.raises(TransactionNotFound):
        await ack_in(A, consumer, 0)
    scene.known.is_away = True
    with pytest.raises(ServiceNotReady, match="the coordinator is away"):
        await ack_in(B, consumer, 0)
    assert consumer.unacked_messages == 1
    assert scene.records() == []


async def test_a_coordinator_is_asked_once_for_each_transaction() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    for entry_id in range(3):
        await ack_in(A, consumer, entry_id)
    assert scene.known.asked == [A]


async def test_an_acknowledgement_after_the_end_of_its_transaction_is_refused() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    scene.log_of().holds_appends = True
    ending = asyncio.ensure_future(commit(A, consumer))
    await settle()
    with pytest.raises(NotAllowed, match=r"Transaction \[\(0,1\)\] has been ended"):
        await ack_in(A, consumer, 1)
    scene.log_of().holds_appends = False
    scene.log_of().confirm()
    await ending
    with pytest.raises(NotAllowed, match=r"Transaction \[\(0,1\)\] has been ended"):
        await ack_in(A, consumer, 1)


async def test_what_cannot_be_acknowledged_in_a_transaction_is_refused() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a", b"b"))
    shared = await consumer_of(scene, FakeConnection(), "Shared")
    with pytest.raises(NotAllowed, match="needs a request id"):
        ack(shared, [Position(LEDGER, 0)], txn_id=A)
    with pytest.raises(NotAllowed, match="takes no cumulative"):
        await ack_in(A, shared, 0, cumulative=True)
    exclusive = await scene.consumer(FakeConnection(), subscription="x")
    with pytest.raises(NotAllowed, match="names one message"):
        await ack_in(A, exclusive, 0, 1, cumulative=True)
    reader = await scene.consumer(FakeConnection(), subscription="r", durable=False)
    with pytest.raises(NotAllowed, match="A reader"):
        await ack_in(A, reader, 0)
    assert scene.factory.ledgers == {}


async def test_messages_that_do_not_exist_are_passed_over() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 4000)
    await ack(consumer, [Position(2**62, 0), Position(LEDGER, -1), Position(-1, -1)], request_id=1, txn_id=A)
    assert scene.records() == []
    await ack_in(A, consumer, 0, 4000)
    assert scene.records()[0].positions == (PendingPosition(LEDGER, 0),)


async def test_without_batch_index_acknowledgement_part_of_a_batch_cannot_be_acknowledged() -> None:
    scene = TransactionScene(acknowledgment_at_batch_index_level_enabled=False)
    scene.ledger.append_now([payload(b"a"), payload(b"batch", batch=3)])
    consumer = await consumer_of(scene, FakeConnection(), "Exclusive")
    await ack_in(A, consumer, 1, ack_set=[0b110], batch_size=3)
    await ack_in(A, consumer, 1, cumulative=True, ack_set=[0b110], batch_size=3)
    await commit(A, consumer)
    assert mark_delete(consumer) == Position(LEDGER, 0)
    assert subscription_of(consumer).cursor.ack_set_of(LEDGER, 1) is None


# --- ends -------------------------------------------------------------------------------------------------------------


async def test_an_end_may_be_repeated_at_any_moment() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    await asyncio.gather(commit(A, consumer), commit(A, consumer))
    await commit(A, consumer)
    assert [each.op for each in scene.records()] == [PendingAckOp.ACK, PendingAckOp.COMMIT]


async def test_the_end_of_a_transaction_that_acknowledged_nothing_here_writes_nothing() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    await abort(B, consumer)
    await commit(C, consumer)
    assert [each.op for each in scene.records()] == [PendingAckOp.ACK]


async def test_an_end_is_answered_though_its_caller_was_cancelled() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    scene.log_of().holds_appends = True
    ending = asyncio.ensure_future(commit(A, consumer))
    await settle()
    ending.cancel()
    scene.log_of().confirm()
    await settle()
    assert mark_delete(consumer) == Position(LEDGER, 0)


async def test_what_an_unregistered_transaction_has_left_behind_is_given_back_by_a_later_end() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, cnx, "Shared")
    await ack_in(A, consumer, 0)
    await ack_in(C, consumer, 1)
    cnx.forget()
    await abort(B, consumer, low_watermark=0)
    await settle()
    assert bodies(cnx) == []
    await commit(C, consumer, low_watermark=2)
    await settle()
    assert bodies(cnx) == [b"a"]
    assert scene.records()[-1] == PendingAckRecord(PendingAckOp.ABORT, A)


async def test_a_large_transaction_ends_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("magnetar.server.topics.subscriptions.pending_acks.ends_of_transactions.PORTION_ENTRIES", 2)
    scene = TransactionScene()
    scene.ledger.append_now(payloads(*[b"m"] * 5))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, *range(5))
    await commit(A, consumer)
    assert mark_delete(consumer) == Position(LEDGER, 4)
    assert pending(consumer).rules.transactions == 0


async def test_an_end_in_the_turn_of_an_acknowledgement_is_stored_behind_it() -> None:
    scene = TransactionScene()
    scene.known.is_here = True
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(A, consumer, 0)
    acknowledged = asyncio.ensure_future(ack_in(A, consumer, 1))
    await asyncio.sleep(0)
    await commit(A, consumer)
    await acknowledged
    assert [record.op for record in scene.records()] == [PendingAckOp.ACK, PendingAckOp.ACK, PendingAckOp.COMMIT]
    assert mark_delete(consumer) == Position(LEDGER, 1)


async def test_an_end_that_takes_a_task_is_left_to_the_caller() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, FakeConnection(), "Exclusive")
    await ack_in(A, consumer, 0)
    await ack_in(B, consumer, 1, cumulative=True)
    assert pending(consumer).end_soon(B, True, -1) is None, "a cumulative acknowledgement has a record of its own"
    assert pending(consumer).end_soon(C, True, -1) is None, "the transaction has acknowledged nothing here"
    scene.log_of().holds_appends = True
    assert pending(consumer).end_soon(A, True, -1) is not None
    assert pending(consumer).end_soon(A, True, -1) is None, "the end is being stored"
