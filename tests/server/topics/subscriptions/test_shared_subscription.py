"""Shared subscriptions: consumers take turns, hold no more messages than they may, and acknowledge in any order."""

import pytest

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.subscription import ACK_SET_WORDS_MAX
from pulsar_proto.errors import ConsumerBusy
from pulsar_proto.ids import Position
from tests.server.topics.scene import (
    FakeConnection,
    Scene,
    ack,
    bodies,
    payload,
    publish,
    redeliver,
    settle,
    subscription_of,
)
from tests.server.topics.subscriptions.shared_scene import dispatcher_of, numbers, shared


async def test_consumers_take_turns() -> None:
    scene = Scene(dispatcher_max_round_robin_batch_size=2)
    one, two, three = FakeConnection(), FakeConnection(), FakeConnection()
    consumers = [await shared(scene, cnx) for cnx in (one, two, three)]
    for consumer in consumers:
        consumer.flow(100)
    publish(await scene.producer(FakeConnection()), [b"%d" % n for n in range(8)])
    await settle()
    assert [bodies(cnx) for cnx in (one, two, three)] == [[b"0", b"1", b"6", b"7"], [b"2", b"3"], [b"4", b"5"]]
    publish(await scene.producer(FakeConnection()), [b"8"])
    await settle()
    assert bodies(two)[-1] == b"8"


async def test_the_best_priority_is_served_first() -> None:
    scene, best, worse = Scene(), FakeConnection(), FakeConnection()
    (await shared(scene, worse, priority_level=1)).flow(10)
    (await shared(scene, best, priority_level=0)).flow(2)
    scene.ledger.append_now(numbers(5))
    (await shared(scene, FakeConnection(), priority_level=2)).flow(1)
    assert bodies(best) == [b"0", b"1"]
    assert bodies(worse) == [b"2", b"3", b"4"]


async def test_who_has_no_permits_or_does_not_read_is_passed_over() -> None:
    scene, none, stuck, able = Scene(), FakeConnection(), FakeConnection(), FakeConnection()
    await shared(scene, none)
    (await shared(scene, stuck)).flow(10)
    stuck.is_writable = False
    consumer = await shared(scene, able)
    scene.ledger.append_now(numbers(3))
    consumer.flow(2)
    assert bodies(able) == [b"0", b"1"]
    stuck.become_writable()
    assert bodies(stuck) == [b"2"]
    assert bodies(none) == []


# --- limits


async def test_a_consumer_that_holds_too_much_is_passed_over_until_half_is_acknowledged() -> None:
    scene, cnx = Scene(max_unacked_messages_per_consumer=4), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(10))
    consumer.flow(10)
    assert len(cnx.messages) == 4
    assert consumer.blocked
    consumer.flow(100)
    assert consumer.permits == 6, "kept aside"
    assert dispatcher_of(consumer).why_idle() == "consumers hold too many unacknowledged messages"
    ack(consumer, [Position(10, 0)])
    assert len(cnx.messages) == 4
    ack(consumer, [Position(10, 1)])
    assert len(cnx.messages) == 6
    assert consumer.permits == 104


async def test_a_limit_of_unacknowledged_messages_that_changes_holds_for_those_sent_before() -> None:
    scene, cnx = Scene(max_unacked_messages_per_consumer=4), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(10))
    consumer.flow(10)
    assert (len(cnx.messages), consumer.blocked) == (4, True)
    consumer.set_unacked_max(4)
    assert (consumer.blocked, consumer.permits) == (True, 6)
    consumer.flow(3)
    assert consumer.permits == 6, "kept aside"
    consumer.set_unacked_max(5)
    assert (consumer.blocked, consumer.permits) == (False, 9)
    consumer.set_unacked_max(3)
    assert consumer.blocked
    consumer.set_unacked_max(0)
    assert not consumer.blocked


async def test_redelivery_unblocks_a_consumer_too() -> None:
    scene, cnx = Scene(max_unacked_messages_per_consumer=4), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(4))
    consumer.flow(10)
    assert consumer.blocked
    redeliver(consumer, [Position(10, 3)])
    assert [(message.body, message.redelivery_count) for message in cnx.messages][4:] == [(b"3", 1)]


async def test_a_subscription_with_too_much_unacknowledged_waits_until_less_than_half_is() -> None:
    scene, one, two = Scene(max_unacked_messages_per_subscription=4), FakeConnection(), FakeConnection()
    first, second = await shared(scene, one), await shared(scene, two)
    scene.ledger.append_now(numbers(10))
    first.flow(3)
    second.flow(10)
    assert len(two.messages) == 1
    assert dispatcher_of(first).blocked
    assert dispatcher_of(first).why_idle() == "4 messages are unacknowledged"
    ack(first, [Position(10, 0), Position(10, 1)])
    assert len(two.messages) == 1
    ack(first, [Position(10, 2)])
    assert len(two.messages) == 4
    first.close()
    second.close()
    third = await shared(scene, one)
    assert not dispatcher_of(third).blocked


async def test_a_subscription_that_may_have_one_unacknowledged_message_goes_on_after_it() -> None:
    scene, cnx = Scene(max_unacked_messages_per_subscription=1), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(3))
    consumer.flow(10)
    for number in range(3):
        assert bodies(cnx) == [b"%d" % n for n in range(number + 1)]
        ack(consumer, [Position(10, number)])
    assert consumer.unacked_messages == 0


async def test_others_go_on_when_the_blocking_consumer_leaves() -> None:
    scene, one, two = Scene(max_unacked_messages_per_subscription=3), FakeConnection(), FakeConnection()
    first, second = await shared(scene, one), await shared(scene, two)
    scene.ledger.append_now(numbers(3))
    first.flow(3)
    second.flow(10)
    assert bodies(two) == []
    one.close("gone")
    await settle()
    assert bodies(two) == [b"0", b"1", b"2"]


# --- acknowledgements


async def test_anybody_may_acknowledge_and_the_holder_is_relieved() -> None:
    scene, one, two = Scene(max_unacked_messages_per_consumer=2), FakeConnection(), FakeConnection()
    first, second = await shared(scene, one), await shared(scene, two)
    scene.ledger.append_now(numbers(4))
    first.flow(10)
    assert first.blocked
    ack(second, [Position(10, 0)])
    assert len(one.messages) == 3
    assert first.unacked_messages == 2


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
async def test_messages_acknowledged_together_are_taken_off_their_holders_once(kind: str) -> None:
    scene = Scene(dispatcher_max_round_robin_batch_size=1)
    cnx = FakeConnection()
    first, second = await scene.consumer(cnx, kind), await scene.consumer(cnx, kind)
    first.flow(100)
    second.flow(100)
    scene.ledger.append_now([payload(b"", partition_key=str(number)) for number in range(40)])
    scene.topic.new_messages.confirmed()
    positions = [Position(10, entry_id) for entry_id in range(40)]
    mine = [each for each in positions if holds(first, each)]
    others = [each for each in positions if holds(second, each)]
    ack(first, [*mine[:2], *others[:1], *mine[:1]])
    assert (first.unacked_messages, second.unacked_messages) == (len(mine) - 2, len(others) - 1)
    assert dispatcher_of(first).unacked_messages == 37
    ack(first, mine[2:])
    ack(second, others[1:])
    assert first.unacked_messages == second.unacked_messages == dispatcher_of(first).unacked_messages == 0
    assert subscription_of(first).cursor.backlog == 0


def holds(consumer: Consumer, position: Position) -> bool:
    return consumer.pending is not None and consumer.pending.get(*position) is not None


async def test_a_cumulative_acknowledgement_is_ignored() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(3))
    consumer.flow(3)
    ack(consumer, [Position(10, 2)], cumulative=True)
    assert consumer.subscription.cursor.backlog == 3
    assert consumer.unacked_messages == 3


async def test_batches_are_acknowledged_index_by_index() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now([payload(b"batch", batch=5), payload(b"x")])
    consumer.flow(100)
    assert consumer.unacked_messages == 6
    ack(consumer, [Position(10, 0)], ack_set=[0b11101])
    ack(consumer, [Position(10, 0)], ack_set=[0b11011])
    assert consumer.unacked_messages == 4
    assert dispatcher_of(consumer).unacked_messages == 4
    cnx.forget()
    redeliver(consumer)
    first, second = cnx.messages
    assert (first.ack_set, first.redelivery_count, second.ack_set) == ((0b11001,), 1, ())
    assert consumer.unacked_messages == 4
    assert consumer.permits == 100 - 6 - 4, "only what is left counts"
    ack(consumer, [Position(10, 0)], ack_set=[0b00110])
    assert subscription_of(consumer).cursor.is_acked(10, 0)
    assert consumer.unacked_messages == 1


async def test_the_rest_of_a_batch_is_what_a_later_consumer_gets() -> None:
    scene, cnx, later = Scene(), FakeConnection(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now([payload(b"batch", batch=3)])
    consumer.flow(100)
    ack(consumer, [Position(10, 0)], ack_set=[0b100])
    consumer.close()
    second = await shared(scene, later)
    second.flow(1)
    assert later.messages[0].ack_set == (0b100,)
    assert second.unacked_messages == 1
    assert second.permits == 0


async def test_without_batch_index_acknowledgement_a_part_of_a_batch_is_ignored() -> None:
    scene, cnx = Scene(acknowledgment_at_batch_index_level_enabled=False), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now([payload(b"batch", batch=3)])
    consumer.flow(100)
    ack(consumer, [Position(10, 0)], ack_set=[0b100])
    assert consumer.unacked_messages == 3
    ack(consumer, [Position(10, 0)], ack_set=[0])
    assert consumer.unacked_messages == 0
    assert consumer.subscription.cursor.backlog == 0


async def test_an_ack_set_longer_than_any_batch_s_is_no_acknowledgement() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now([payload(b"a", batch=3), payload(b"b", batch=3)])
    consumer.flow(10)
    ack(consumer, [Position(10, 0)], ack_set=[-1] * (ACK_SET_WORDS_MAX + 1))
    assert subscription_of(consumer).cursor.ack_set_of(10, 0) is None
    assert consumer.unacked_messages == 6
    ack(consumer, [Position(10, 1)], ack_set=[0] * (ACK_SET_WORDS_MAX + 1))
    assert subscription_of(consumer).cursor.is_acked(10, 1), "nothing is left of it, however long that is said"
    assert consumer.unacked_messages == 3


async def test_an_acknowledgement_of_an_impossible_entry_does_not_keep_the_others() -> None:
    scene, cnx, other = Scene(), FakeConnection(), FakeConnection()
    consumer = await shared(scene, cnx)
    scene.ledger.append_now(numbers(3))
    consumer.flow(3)
    redeliver(consumer, [Position(10, 0)])
    assert len(dispatcher_of(consumer).replay) == 1
    impossible = [Position(10, entry_id) for entry_id in (2**32, 2**63, 2**64 - 1)]
    ack(consumer, [*impossible, Position(10, 1)])
    ack(consumer, impossible, ack_set=[1])
    assert consumer.unacked_messages == 1
    (await shared(scene, other)).flow(5)
    await settle()
    assert bodies(other) == [b"0"]


async def test_another_type_is_refused_while_consumers_are_connected_and_taken_afterwards() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(numbers(1))
    consumer = await shared(scene, cnx)
    with pytest.raises(ConsumerBusy) as refused:
        await scene.consumer(cnx, "Exclusive")
    assert str(refused.value) == (
        "Subscription is of different type. Active subscription type of 'Shared' is different than the connecting "
        "consumer's type 'Exclusive'."
    )
    consumer.close()
    exclusive = await scene.consumer(cnx, "Exclusive")
    exclusive.flow(1)
    assert bodies(cnx) == [b"0"]


async def test_a_connection_that_closes_while_it_is_written_to_loses_nothing() -> None:
    scene, one, two = Scene(), FakeConnection(), FakeConnection()
    first, second = await shared(scene, one), await shared(scene, two)
    first.flow(3)
    second.flow(10)

    def break_off(chunks: list[bytes]) -> None:
        one.close("too much")

    one.write_frames = break_off  # type: ignore[method-assign]
    scene.ledger.append_now(numbers(3))
    second.flow(1)
    await settle()
    assert sorted(bodies(two)) == [b"0", b"1", b"2"]
    assert dispatcher_of(second).unacked_messages == 3


async def test_a_seek_shows_where_reading_goes_on_before_anybody_is_back() -> None:
    scene = Scene()
    consumer = await shared(scene, FakeConnection())
    scene.ledger.append_now(numbers(5))
    consumer.flow(5)
    await subscription_of(consumer).reset(Position(10, 3))
    assert dispatcher_of(consumer).read_position == Position(10, 3)
