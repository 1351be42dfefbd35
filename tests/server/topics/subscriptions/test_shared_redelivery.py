"""On a Shared subscription, what one consumer does not acknowledge goes to another one, or comes again."""

import asyncio

import pytest

from magnetar.server.topics import backlog
from pulsar_proto.ids import Position
from tests.server.topics.scene import FakeConnection, Scene, ack, bodies, payloads, redeliver, settle, subscription_of
from tests.server.topics.subscriptions.shared_scene import dispatcher_of, numbers, shared


async def test_what_a_lost_consumer_held_goes_to_others_in_order_before_anything_new() -> None:
    scene, lost, other = Scene(), FakeConnection(), FakeConnection()
    first = await shared(scene, lost)
    second = await shared(scene, other)
    scene.ledger.append_now(numbers(6))
    first.flow(4)
    assert bodies(lost) == [b"0", b"1", b"2", b"3"]
    ack(first, [Position(10, 1)])
    lost.close("gone")
    second.flow(4)
    await settle()
    assert [(message.body, message.redelivery_count) for message in other.messages] == [
        (b"0", 0),
        (b"2", 0),
        (b"3", 0),
        (b"4", 0),
    ]
    assert second.unacked_messages == 4


async def test_redelivery_is_counted_and_forgotten_when_acknowledged() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(4))
    consumer.flow(4)
    cnx.forget()
    consumer.flow(10)
    redeliver(consumer, [Position(10, 2), Position(10, 1), Position(10, 77)])
    assert [(message.body, message.redelivery_count) for message in cnx.messages] == [(b"1", 1), (b"2", 1)]
    assert consumer.permits == 8
    assert consumer.unacked_messages == 4
    cnx.forget()
    ack(consumer, [Position(10, 1)])
    redeliver(consumer)
    again = [(message.body, message.redelivery_count) for message in cnx.messages]
    assert again == [(b"0", 1), (b"2", 2), (b"3", 1)]


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
async def test_of_what_expires_while_it_waits_to_come_again_nothing_is_remembered(kind: str) -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(numbers(3))
    consumer = await scene.consumer(cnx, kind)
    consumer.flow(3)
    await settle()
    redeliver(consumer)
    dispatcher = dispatcher_of(consumer)
    assert dispatcher.redelivery_counts
    await backlog.clear(subscription_of(consumer))
    consumer.flow(3)
    await settle()
    assert len(cnx.messages) == 3
    assert not dispatcher.redelivery_counts
    assert not dispatcher.replay


async def test_who_asks_for_redelivery_gets_only_what_it_holds() -> None:
    scene, mine, other = Scene(), FakeConnection(), FakeConnection()
    first, second = await shared(scene, mine), await shared(scene, other)
    scene.ledger.append_now(numbers(2))
    first.flow(1)
    second.flow(10)
    other.forget()
    redeliver(first, [Position(10, 1)])
    await settle()
    assert bodies(other) == []
    redeliver(first, [Position(10, 0)])
    await settle()
    assert [(message.body, message.redelivery_count) for message in other.messages] == [(b"0", 1)]


@pytest.mark.parametrize("entry_id", [2**32, 2**63, 2**64 - 1])
async def test_an_id_that_no_entry_can_have_is_passed_over(entry_id: int) -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(2))
    consumer.flow(10)
    cnx.forget()
    redeliver(consumer, [Position(10, entry_id)])
    redeliver(consumer, [Position(10, entry_id), Position(10, 1)])
    await settle()
    assert [(message.body, message.redelivery_count) for message in cnx.messages] == [(b"1", 1)]


async def test_an_entry_acknowledged_while_it_is_read_again_is_not_sent() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(3))
    consumer.flow(3)
    cnx.forget()
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.read_gate = asyncio.Event()
    redeliver(consumer)
    consumer.flow(10)
    await settle()
    assert scene.ledger.reads == [(Position(10, 0), 3)]
    ack(consumer, [Position(10, 1)])
    scene.ledger.let_reads_go()
    await settle()
    assert bodies(cnx) == [b"0", b"2"]
    assert not dispatcher_of(consumer).replay
    assert consumer.unacked_messages == 2


async def test_a_replay_that_was_read_in_part_goes_on_where_it_ended() -> None:
    scene, cnx = Scene(dispatcher_max_read_size_bytes=1), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(3))
    consumer.flow(3)
    ack(consumer, [Position(10, 0)])
    cnx.forget()
    consumer.flow(10)
    redeliver(consumer)
    await settle()
    assert bodies(cnx) == [b"1", b"2"]


async def test_entries_that_are_gone_are_not_asked_for_for_ever() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(2))
    scene.ledger.roll_now()
    scene.ledger.append_now(payloads(b"new"))
    consumer.flow(2)
    cnx.forget()
    scene.ledger.trim_now(10)
    redeliver(consumer)
    consumer.flow(10)
    await settle()
    assert bodies(cnx) == [b"new"]
    assert not dispatcher_of(consumer).replay


async def test_the_next_consumer_after_the_last_one_starts_at_the_first_unacknowledged_message() -> None:
    scene, cnx, later = Scene(), FakeConnection(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(4))
    consumer.flow(3)
    redeliver(consumer, [Position(10, 2)])
    ack(consumer, [Position(10, 0)])
    consumer.close()
    second = await shared(scene, later)
    second.flow(10)
    assert [(message.body, message.redelivery_count) for message in later.messages] == [
        (b"1", 0),
        (b"2", 0),
        (b"3", 0),
    ]
    assert dispatcher_of(second).unacked_messages == second.unacked_messages == 3


async def test_what_is_acknowledged_while_it_waits_to_come_again_is_forgotten() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(2))
    consumer.flow(2)
    redeliver(consumer)
    assert subscription_of(consumer).messages_in_replay == 2
    ack(consumer, [Position(10, 0)])
    assert subscription_of(consumer).messages_in_replay == 1
    ack(consumer, [Position(10, 1)])
    assert subscription_of(consumer).messages_in_replay == 0
    assert not dispatcher_of(consumer).redelivery_counts


async def test_a_replay_read_for_those_who_left_is_not_sent_twice_to_the_next_one() -> None:
    scene, cnx, later = Scene(), FakeConnection(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(2))
    consumer.flow(2)
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.read_gate = asyncio.Event()
    redeliver(consumer)
    consumer.flow(10)
    await settle()
    consumer.close()
    (await shared(scene, later)).flow(10)
    scene.ledger.let_reads_go()
    await settle()
    assert [(message.body, message.redelivery_count) for message in later.messages] == [(b"0", 0), (b"1", 0)]
