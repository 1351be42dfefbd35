"""Acknowledgements: when they are answered, which are refused, and how a cumulative one ends within a batch."""

import asyncio

import pytest

from magnetar.storage.managed.managed_ledger_errors import CursorFault
from pulsar_proto.errors import NotAllowed, PulsarError
from pulsar_proto.ids import Position, TxnId
from tests.server.topics.scene import FakeConnection, Scene, ack, payload, payloads, settle, subscription_of


async def test_an_acknowledgement_with_a_request_id_ends_when_it_is_durable() -> None:
    scene = Scene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await scene.consumer(FakeConnection())
    consumer.flow(1)
    store = scene.ledger.stores["s"]
    store.gate = asyncio.Event()
    assert ack(consumer, [Position(10, 0)]) is None
    durable = asyncio.ensure_future(ack(consumer, [Position(10, 0)], request_id=7))
    await settle()
    assert not durable.done()
    store.gate.set()
    await durable
    assert store.stored[-1] == Position(10, 0)


async def test_an_acknowledgement_that_cannot_be_stored_is_told() -> None:
    scene = Scene()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await scene.consumer(FakeConnection())
    scene.ledger.stores["s"].failure = CursorFault("t", "disk full")
    with pytest.raises(PulsarError, match="disk full"):
        await ack(consumer, [Position(10, 0)], request_id=7)


async def test_transactions_are_refused() -> None:
    scene = Scene()
    consumer = await scene.consumer(FakeConnection())
    with pytest.raises(NotAllowed, match="Transactions are not enabled"):
        await ack(consumer, [Position(10, 0)], request_id=7, txn_id=TxnId(0, 0))


async def test_a_cumulative_acknowledgement_ends_within_a_batch() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now([payload(b"a"), payload(b"batch", batch=4)])
    consumer = await scene.consumer(cnx)
    consumer.flow(10)
    ack(consumer, [Position(10, 1)], cumulative=True, ack_set=[0b1100])
    assert consumer.subscription.cursor.mark_delete == Position(10, 0)
    consumer.close()
    cnx.forget()
    (await scene.consumer(cnx)).flow(10)
    assert [(message.body, message.ack_set) for message in cnx.messages] == [(b"batch", (0b1100,))]


async def test_without_batch_index_acknowledgement_it_ends_before_the_batch() -> None:
    scene, cnx = Scene(acknowledgment_at_batch_index_level_enabled=False), FakeConnection()
    scene.ledger.append_now([payload(b"a"), payload(b"batch", batch=4)])
    consumer = await scene.consumer(cnx)
    ack(consumer, [Position(10, 1)], cumulative=True, ack_set=[0b1100])
    assert consumer.subscription.cursor.mark_delete == Position(10, 0)
    assert subscription_of(consumer).cursor.ack_set_of(10, 1) is None
    ack(consumer, [Position(10, 1)], cumulative=True, ack_set=[0])
    assert consumer.subscription.cursor.mark_delete == Position(10, 1)
