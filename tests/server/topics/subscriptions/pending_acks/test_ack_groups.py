"""Acknowledgements in transactions that arrive in one turn of the event loop: they are stored together, and each has an
outcome of its own."""

import asyncio

import pytest

from magnetar.server.process import turns
from magnetar.storage.managed.managed_ledger_errors import AppendFault
from pulsar_proto.errors import NotAllowed, PulsarError, TransactionConflict
from pulsar_proto.ids import Position, TxnId
from pulsar_proto.records.pending_ack_log import (
    RECORD_POSITIONS_MAX,
    PendingAckOp,
    PendingAckRecord,
    PendingPosition,
    pending_ack_entry,
)
from tests.server.topics.fake_managed_ledger import FakeManagedLedger
from tests.server.topics.scene import FakeConnection, bodies, payloads, redeliver, settle, subscription_of
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
    pending,
)


async def scene_of(entries: int) -> TransactionScene:
    """Returns a topic with so many messages, whose subscription `s` has read its log."""
    scene = TransactionScene()
    scene.known.is_here = True
    scene.ledger.append_now(payloads(*(b"%d" % number for number in range(entries))))
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await ack_in(TxnId(0, 1_000), consumer)
    await settle()
    consumer.close()
    return scene


def confirm_all(log: FakeManagedLedger) -> None:
    """Confirms the appends that wait, and lets further ones go on."""
    log.holds_appends = False
    while log.groups_waiting:
        log.confirm()


def ack_record(txn_id: TxnId, *entry_ids: int) -> PendingAckRecord:
    return PendingAckRecord(PendingAckOp.ACK, txn_id, False, tuple(PendingPosition(LEDGER, each) for each in entry_ids))


async def test_the_acknowledgements_of_one_transaction_in_one_turn_are_one_record() -> None:
    scene = await scene_of(5)
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await asyncio.gather(*(ack_in(txn_id, consumer, each) for each, txn_id in enumerate((A, B, A, B, A))))
    assert scene.records() == [ack_record(A, 0, 2, 4), ack_record(B, 1, 3)]
    assert consumer.unacked_messages == 0
    await commit(A, consumer)
    await abort(B, consumer)
    cursor = subscription_of(consumer).cursor
    assert [cursor.is_acked(LEDGER, each) for each in range(5)] == [True, False, True, False, True]


async def test_an_acknowledgement_is_answered_only_when_its_record_is_durable() -> None:
    scene = await scene_of(2)
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    scene.log_of().holds_appends = True
    both = [asyncio.ensure_future(ack_in(A, consumer, each)) for each in (0, 1)]
    await settle()
    assert not any(each.done() for each in both)
    assert consumer.unacked_messages == 2
    confirm_all(scene.log_of())
    await asyncio.gather(*both)
    assert consumer.unacked_messages == 0


async def test_a_conflict_refuses_one_acknowledgement_of_a_turn_and_no_other() -> None:
    scene = await scene_of(3)
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    acks = [ack_in(A, consumer, 0), ack_in(A, consumer, 0), ack_in(B, consumer, 1, 0), ack_in(A, consumer, 2)]
    outcomes = await asyncio.gather(*acks, return_exceptions=True)
    assert [type(each) for each in outcomes] == [type(None), TransactionConflict, TransactionConflict, type(None)]
    assert scene.records() == [ack_record(A, 0, 2)]


async def test_a_record_that_cannot_be_stored_fails_all_its_acknowledgements_and_holds_nothing() -> None:
    scene, cnx = await scene_of(3), FakeConnection()
    consumer = await consumer_of(scene, cnx, "Shared")
    scene.log_of().append_failure = AppendFault("log", "disk full")
    outcomes = await asyncio.gather(*(ack_in(A, consumer, each) for each in range(3)), return_exceptions=True)
    assert all(isinstance(each, PulsarError) and "disk full" in str(each) for each in outcomes)
    assert consumer.unacked_messages == 3
    scene.log_of().append_failure = None
    redeliver(consumer)
    await settle()
    assert bodies(cnx) == [b"0", b"1", b"2"] * 2
    await ack_in(B, consumer, 0, 1, 2)


async def test_an_end_in_the_same_turn_comes_after_the_acknowledgement_in_the_log() -> None:
    scene = await scene_of(2)
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    acknowledged = asyncio.ensure_future(ack_in(A, consumer, 0))
    await asyncio.sleep(0)
    ended = asyncio.ensure_future(commit(A, consumer))
    await asyncio.gather(acknowledged, ended)
    assert scene.records() == [ack_record(A, 0), PendingAckRecord(PendingAckOp.COMMIT, A)]
    assert mark_delete(consumer) == Position(LEDGER, 0)
    with pytest.raises(NotAllowed, match="has been ended"):
        await ack_in(A, consumer, 1)


async def test_an_acknowledgement_whose_client_has_gone_is_stored_nevertheless() -> None:
    scene = await scene_of(2)
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    scene.log_of().holds_appends = True
    gone, other = (asyncio.ensure_future(ack_in(A, consumer, each)) for each in (0, 1))
    await settle()
    gone.cancel()
    await settle()
    confirm_all(scene.log_of())
    await other
    await commit(A, consumer)
    assert mark_delete(consumer) == Position(LEDGER, 1)


async def test_messages_that_the_topic_does_not_have_are_accepted_and_not_stored() -> None:
    scene = await scene_of(1)
    consumer = await consumer_of(scene, FakeConnection(), "Shared")
    await asyncio.gather(ack_in(A, consumer, 7), ack_in(A, consumer, 0, 8))
    assert scene.records() == [ack_record(A, 0)]


async def test_no_record_is_longer_than_the_limit() -> None:
    entries = RECORD_POSITIONS_MAX + 100
    scene = await scene_of(entries)
    consumer = await consumer_of(scene, FakeConnection(), "Shared", permits=entries)
    third = entries // 3
    await asyncio.gather(
        *(ack_in(A, consumer, *range(at, min(at + third, entries))) for at in range(0, entries, third))
    )
    records = scene.records()
    assert [each for record in records for each in record.positions] == list(ack_record(A, *range(entries)).positions)
    assert len(records) > 1
    assert max(len(record.positions) for record in records) <= RECORD_POSITIONS_MAX


def test_the_longest_record_fits_into_an_entry() -> None:
    last = 2**63 - 1
    positions = (PendingPosition(last, last, (-1,) * 1_024, 65_536),) * RECORD_POSITIONS_MAX
    record = PendingAckRecord(PendingAckOp.ACK, TxnId(2**64 - 1, 2**64 - 1), False, positions)
    assert len(pending_ack_entry(record)) < 5 << 20


async def test_what_a_transaction_holds_is_stored_anew_in_several_records_and_its_end_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entries = 5 * RECORD_POSITIONS_MAX + 1
    scene = await scene_of(entries)
    consumer = await consumer_of(scene, FakeConnection(), "Shared", permits=entries)
    await ack_in(A, consumer, *range(entries))
    before = len(scene.records())
    monkeypatch.setattr(turns, "PORTION_SECONDS", 0.0)  # other tasks run after each record
    await asyncio.gather(pending(consumer).forget_the_past(), commit(A, consumer))
    again = scene.records()[before:]
    assert [len(each.positions) for each in again] == [RECORD_POSITIONS_MAX] * 5 + [1, 0]
    assert [each.op for each in again] == [PendingAckOp.ACK] * 6 + [PendingAckOp.COMMIT]
    assert mark_delete(consumer) == Position(LEDGER, entries - 1)
