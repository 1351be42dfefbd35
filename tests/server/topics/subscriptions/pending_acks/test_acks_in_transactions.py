"""Acknowledgements in transactions on every type of subscription: what takes effect, and what consumers get again."""

import asyncio

import pytest

from magnetar.storage.managed.managed_ledger_errors import AppendFault
from pulsar_proto.errors import PulsarError, TransactionConflict
from pulsar_proto.ids import Position
from pulsar_proto.records.pending_ack_log import PendingAckOp, PendingAckRecord, PendingPosition
from tests.server.topics.scene import (
    FakeConnection,
    ack,
    bodies,
    payload,
    payloads,
    redeliver,
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
)
from tests.server.topics.subscriptions.shared_scene import dispatcher_of

SHARING = ["Shared", "Key_Shared"]
TYPES = ["Exclusive", "Failover", *SHARING]


@pytest.mark.parametrize("kind", TYPES)
async def test_an_acknowledgement_takes_effect_when_its_transaction_commits(kind: str) -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, cnx, kind)
    await ack_in(A, consumer, 0, 1)
    assert mark_delete(consumer) == Position(LEDGER, -1)
    await commit(A, consumer)
    assert mark_delete(consumer) == Position(LEDGER, 1)
    positions = (PendingPosition(LEDGER, 0), PendingPosition(LEDGER, 1))
    assert scene.records() == [
        PendingAckRecord(PendingAckOp.ACK, A, False, positions),
        PendingAckRecord(PendingAckOp.COMMIT, A),
    ]
    assert bodies(cnx) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("kind", SHARING)
async def test_an_abort_delivers_its_messages_again_at_once_with_a_higher_count(kind: str) -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, cnx, kind)
    redeliver(consumer, [Position(LEDGER, 1)])
    await settle()
    await ack_in(A, consumer, 0, 1)
    assert consumer.unacked_messages == 1
    cnx.forget()
    await abort(A, consumer)
    await settle()
    assert sorted((each.body, each.redelivery_count) for each in cnx.messages) == [(b"a", 1), (b"b", 2)]
    assert consumer.unacked_messages == 3
    assert scene.records()[-1] == PendingAckRecord(PendingAckOp.ABORT, A)


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
async def test_an_abort_gives_the_active_consumer_all_that_is_unacknowledged(kind: str) -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, cnx, kind)
    await ack_in(A, consumer, 1)
    cnx.forget()
    await abort(A, consumer)
    await settle()
    assert bodies(cnx) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("kind", TYPES)
async def test_held_messages_are_given_to_nobody_when_their_consumer_leaves(kind: str) -> None:
    scene, cnx, other = TransactionScene(), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, cnx, kind)
    await ack_in(A, consumer, 1)
    consumer.close()
    second = await consumer_of(scene, other, kind)
    assert bodies(other) == [b"a", b"c"]
    await abort(A, second)
    await settle()
    assert b"b" in bodies(other)


@pytest.mark.parametrize("kind", SHARING)
async def test_a_message_whose_acknowledgement_is_under_way_stays_with_the_transaction(kind: str) -> None:
    scene, cnx, other = TransactionScene(), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, cnx, kind)
    await ack_in(A, consumer, 0)
    scene.log_of().holds_appends = True
    under_way = asyncio.ensure_future(ack_in(A, consumer, 1))
    await settle()
    second = await consumer_of(scene, other, kind)
    consumer.close()
    await settle()
    assert bodies(other) == []
    scene.log_of().holds_appends = False
    scene.log_of().confirm()
    await under_way
    await commit(A, second)
    assert mark_delete(second) == Position(LEDGER, 1)


@pytest.mark.parametrize("kind", SHARING)
async def test_an_acknowledgement_that_cannot_be_stored_leaves_the_message_with_its_consumer(kind: str) -> None:
    scene, cnx, other = TransactionScene(), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, cnx, kind)
    await ack_in(A, consumer, 0)
    scene.log_of().append_failure = AppendFault("log", "disk full")
    with pytest.raises(PulsarError, match="disk full"):
        await ack_in(A, consumer, 1)
    assert consumer.unacked_messages == 1
    with pytest.raises(PulsarError, match="disk full"):
        await commit(A, consumer)
    scene.log_of().append_failure = None
    second = await consumer_of(scene, other, kind)
    consumer.close()
    await settle()
    assert bodies(other) == [b"b"]
    await commit(A, second)
    assert mark_delete(second) == Position(LEDGER, 0)


async def test_a_message_whose_acknowledgement_failed_after_its_consumer_left_goes_to_another() -> None:
    scene, cnx, other = TransactionScene(), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, cnx, "Shared")
    await consumer_of(scene, other, "Shared", permits=1)
    await ack_in(A, consumer, 0)
    scene.log_of().holds_appends = True
    under_way = asyncio.ensure_future(ack_in(A, consumer, 1))
    await settle()
    under_way.cancel()
    consumer.close()
    await settle()
    assert bodies(other) == []
    scene.log_of().append_failure = AppendFault("log", "disk full")
    scene.log_of().confirm()
    await settle()
    assert bodies(other) == [b"b"]


async def test_a_conflict_fails_the_whole_command_and_stores_nothing() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await consumer_of(scene, cnx, "Shared")
    await ack_in(A, consumer, 1)
    stored = len(scene.records())
    with pytest.raises(TransactionConflict, match=r"ack message:10:1 .* in pending ack status"):
        await ack_in(B, consumer, 0, 1, 2)
    assert len(scene.records()) == stored
    assert consumer.unacked_messages == 2, "what was refused stays with the consumer, and can be delivered again"
    redeliver(consumer)
    await settle()
    assert bodies(cnx) == [b"a", b"b", b"c", b"a", b"c"]
    await ack_in(B, consumer, 0, 2)


async def test_two_acknowledgements_of_a_message_at_the_same_time_do_not_both_succeed() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    results = await asyncio.gather(ack_in(A, consumer, 0), ack_in(B, consumer, 0), return_exceptions=True)
    assert {type(each) for each in results} == {type(None), TransactionConflict}  # on a busy machine B may be first


@pytest.mark.parametrize("kind", SHARING)
async def test_messages_of_a_batch_are_acknowledged_one_by_one(kind: str) -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now([payload(b"batch", batch=3)])
    consumer = await consumer_of(scene, cnx, kind)
    await ack_in(A, consumer, 0, ack_set=[0b110], batch_size=3)
    await ack_in(B, consumer, 0, ack_set=[0b101], batch_size=3)
    assert consumer.unacked_messages == 1
    cnx.forget()
    await abort(B, consumer)
    await settle()
    assert [(each.ack_set, each.redelivery_count) for each in cnx.messages] == [((0b110,), 1)]
    await commit(A, consumer)
    assert subscription_of(consumer).cursor.ack_set_of(LEDGER, 0) == [0b110]
    await ack_in(C, consumer, 0, ack_set=[0b001], batch_size=3)
    assert consumer.unacked_messages == 0
    await commit(C, consumer)
    assert mark_delete(consumer) == Position(LEDGER, 0)


async def test_a_plain_acknowledgement_of_a_held_message_wins() -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, cnx, "Shared")
    await ack_in(A, consumer, 0, 1)
    ack(consumer, [Position(LEDGER, 0)])
    assert mark_delete(consumer) == Position(LEDGER, 0)
    cnx.forget()
    await abort(A, consumer)
    await settle()
    assert bodies(cnx) == [b"b"]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
async def test_a_cumulative_acknowledgement_takes_effect_when_its_transaction_commits(kind: str) -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now([*payloads(b"a", b"b"), payload(b"batch", batch=3), *payloads(b"d", b"e")])
    consumer = await consumer_of(scene, cnx, kind)
    await ack_in(A, consumer, 1, cumulative=True)
    with pytest.raises(TransactionConflict):
        await ack_in(B, consumer, 3, cumulative=True)
    await ack_in(B, consumer, 4)
    await commit(B, consumer)
    assert subscription_of(consumer).cursor.is_acked(LEDGER, 4), "a committed acknowledgement beside it is not lost"
    await ack_in(A, consumer, 2, cumulative=True, ack_set=[0b110], batch_size=3)
    await commit(A, consumer)
    assert mark_delete(consumer) == Position(LEDGER, 1)
    assert subscription_of(consumer).cursor.ack_set_of(LEDGER, 2) == [0b110]
    await ack_in(C, consumer, 3, cumulative=True)
    await abort(C, consumer)
    assert mark_delete(consumer) == Position(LEDGER, 1)
    assert len(bodies(cnx)) == 5, "an aborted cumulative acknowledgement delivers nothing again"


async def test_a_transaction_with_acknowledgements_of_both_kinds_commits_both_for_any_reader_of_the_log() -> None:
    scene = TransactionScene()
    scene.ledger.append_now(payloads(b"a", b"b", b"c", b"d"))
    consumer = await consumer_of(scene, FakeConnection(), "Exclusive")
    await ack_in(A, consumer, 1, cumulative=True)
    await ack_in(A, consumer, 3)
    await commit(A, consumer)
    assert [each.is_cumulative for each in scene.records() if each.op is PendingAckOp.COMMIT] == [False, True]
    assert mark_delete(consumer) == Position(LEDGER, 1)
    assert subscription_of(consumer).cursor.is_acked(LEDGER, 3)


async def test_chosen_consumers_get_what_an_abort_gives_back() -> None:
    scene, cnx, other = TransactionScene(), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    consumer = await consumer_of(scene, cnx, "Shared", permits=2)
    await consumer_of(scene, other, "Shared")
    await ack_in(A, consumer, 0, 1)
    await abort(A, consumer)
    await settle()
    assert sorted(bodies(other)) == [b"a", b"b"]
    assert dispatcher_of(consumer).unacked_messages == 2


@pytest.mark.parametrize("entry_id", [3, 5], ids=["read and not sent", "not read"])
@pytest.mark.parametrize("kind", TYPES)
async def test_an_abort_sends_what_was_on_its_way_to_consumers_anyway_only_once(kind: str, entry_id: int) -> None:
    scene, cnx = TransactionScene(), FakeConnection()
    scene.ledger.append_now([payload(b"batch %d" % number, batch=3) for number in range(6)])
    consumer = await consumer_of(scene, cnx, kind, permits=4)
    assert bodies(cnx) == [b"batch 0", b"batch 1"]
    await ack_in(A, consumer, entry_id)
    await abort(A, consumer)
    cnx.forget()
    consumer.flow(100)
    await settle()
    assert sorted(bodies(cnx))[-4:] == [b"batch 2", b"batch 3", b"batch 4", b"batch 5"]
    assert len(bodies(cnx)) == (4 if kind in SHARING else 6)
