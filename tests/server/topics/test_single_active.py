"""Exclusive and Failover subscriptions: everything in order to one consumer."""

import asyncio

import pytest

from pulsar_proto.errors import ConsumerBusy
from pulsar_proto.ids import Position
from server.topics.consumer import Consumer
from server.topics.single_active_dispatcher import SingleActiveDispatcher
from tests.server.topics.scene import (
    FakeConnection,
    Scene,
    ack,
    bodies,
    in_virtual_time,
    pass_time,
    payload,
    payloads,
    publish,
    redeliver,
    settle,
    subscription_of,
)


async def test_new_messages_go_out_as_they_are_confirmed() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    producer = await scene.producer(FakeConnection())
    consumer.flow(10)
    scene.ledger.holds_appends = True
    publish(producer, [b"a", b"b"])
    publish(producer, [b"c"])
    scene.ledger.confirm()
    assert bodies(cnx) == [b"a", b"b"]
    assert cnx.writes == 1, "one write for a run"
    scene.ledger.confirm()
    assert bodies(cnx) == [b"a", b"b", b"c"]
    assert [message.position for message in cnx.messages] == [Position(10, n) for n in range(3)]
    assert scene.ledger.reads == []
    assert consumer.permits == 7


async def test_nothing_goes_out_without_permits() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer.flow(1)
    assert bodies(cnx) == [b"a"]
    await settle()
    consumer.flow(1)
    assert bodies(cnx) == [b"a", b"b"]
    consumer.flow(5)
    assert bodies(cnx) == [b"a", b"b", b"c"]


async def test_permits_count_messages_and_a_batch_may_overdraw_them() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.append_now([payload(b"one", batch=10), payload(b"two", batch=10), payload(b"three", batch=10)])
    consumer.flow(15)
    assert bodies(cnx) == [b"one", b"two"]
    assert consumer.permits == -5
    consumer.flow(5)
    assert bodies(cnx) == [b"one", b"two"]
    consumer.flow(1)
    assert bodies(cnx) == [b"one", b"two", b"three"]


async def test_what_is_not_in_memory_is_read_in_bounded_parts_and_one_at_a_time() -> None:
    scene, cnx = Scene(dispatcher_max_read_batch_size=4), FakeConnection()
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.append_now(payloads(*(b"%d" % n for n in range(10))))
    consumer = await scene.consumer(cnx)
    scene.ledger.read_gate = asyncio.Event()
    consumer.flow(6)
    consumer.flow(3)
    await settle()
    assert scene.ledger.reads == [(Position(10, 0), 4)]
    scene.ledger.let_reads_go()
    await settle()
    assert bodies(cnx) == [b"%d" % n for n in range(9)]
    assert [count for _, count in scene.ledger.reads] == [4, 4, 1]


async def test_reading_goes_over_ends_of_ledgers_and_deleted_ones() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.append_now(payloads(b"a", b"b"))
    scene.ledger.roll_now()
    scene.ledger.append_now(payloads(b"c"))
    scene.ledger.roll_now()
    scene.ledger.append_now(payloads(b"d"))
    consumer.flow(2)
    scene.ledger.trim_now(11)
    consumer.flow(10)
    await settle()
    assert bodies(cnx) == [b"a", b"b", b"d"]
    dispatcher = subscription_of(consumer).dispatcher
    assert dispatcher is not None
    assert dispatcher.is_caught_up


async def test_a_position_whose_entries_were_all_deleted_counts_as_caught_up() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.append_now(payloads(b"a", b"b"))
    scene.ledger.roll_now()
    scene.ledger.trim_now(10)
    consumer.flow(10)
    await settle()
    assert len(scene.ledger.reads) == 1, "asked once"
    scene.ledger.append_now(payloads(b"c"))
    consumer.flow(1)
    assert bodies(cnx) == [b"c"]


async def test_a_connection_that_is_not_writable_gets_nothing_until_it_is() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    cnx.is_writable = False
    consumer.flow(10)
    scene.ledger.append_now(payloads(b"a"))
    consumer.flow(1)
    assert bodies(cnx) == []
    cnx.become_writable()
    assert bodies(cnx) == [b"a"]


async def test_a_subscription_far_behind_lets_others_run() -> None:
    scene, cnx = Scene(dispatcher_max_read_batch_size=1), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.append_now(payloads(*(b"%d" % n for n in range(35))))
    consumer.flow(1000)
    assert 0 < len(cnx.messages) < 35
    await settle()
    assert len(cnx.messages) == 35


async def test_a_failed_read_is_tried_again_later() -> None:
    scene = Scene(dispatcher_read_failure_backoff_initial_time_in_ms=1)
    cnx = FakeConnection()
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.append_now(payloads(b"a"))
    consumer = await scene.consumer(cnx)
    scene.ledger.read_failures = 3
    consumer.flow(1)
    await settle()
    dispatcher = subscription_of(consumer).dispatcher
    assert dispatcher is not None
    assert dispatcher.why_idle() == "a read failed, the next try is due"


@in_virtual_time
async def test_failed_reads_are_repeated_ever_more_slowly_until_one_works() -> None:
    scene = Scene(
        dispatcher_read_failure_backoff_initial_time_in_ms=15_000,
        dispatcher_read_failure_backoff_max_time_in_ms=60_000,
    )
    cnx = FakeConnection()
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.append_now(payloads(b"a"))
    consumer = await scene.consumer(cnx)
    scene.ledger.read_failures = 4
    consumer.flow(5)
    tries = []
    for _ in range(12):
        await pass_time(15)
        tries.append(len(scene.ledger.reads))
    # 0 s, then after 15, 30, 60 and 60 s.
    assert tries == [2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5]
    assert bodies(cnx) == [b"a"]


# --- acknowledgements and redelivery


async def test_acknowledged_messages_do_not_come_again() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.append_now(payloads(b"a", b"b", b"c", b"d"))
    consumer.flow(10)
    ack(consumer, [Position(10, 1)])
    ack(consumer, [Position(10, 3)])
    consumer.close()
    assert consumer.subscription.cursor.backlog == 2
    second = FakeConnection()
    consumer = await scene.consumer(second)
    consumer.flow(10)
    await settle()
    assert bodies(second) == [b"a", b"c"]
    ack(consumer, [Position(10, 2)], cumulative=True)
    assert consumer.subscription.cursor.backlog == 0


async def test_redeliver_sends_everything_unacknowledged_again_in_order() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    scene.ledger.append_now(payloads(b"a", b"b", b"c", b"d"))
    consumer.flow(4)
    ack(consumer, [Position(10, 0)], cumulative=True)
    cnx.forget()
    consumer.flow(10)
    redeliver(consumer, [Position(10, 2)])
    assert [(message.body, message.redelivery_count) for message in cnx.messages] == [(b"b", 0), (b"c", 0), (b"d", 0)]


async def test_what_was_read_before_a_redelivery_is_dropped() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.append_now(payloads(b"a", b"b", b"c"))
    consumer = await scene.consumer(cnx, consumer_epoch=0)
    consumer.flow(2)
    await settle()
    scene.ledger.read_gate = asyncio.Event()
    consumer.flow(5)
    await settle()
    redeliver(consumer, epoch=1)
    scene.ledger.let_reads_go()
    await settle()
    assert [(message.body, message.epoch) for message in cnx.messages] == [
        (b"a", 0),
        (b"b", 0),
        (b"a", 1),
        (b"b", 1),
        (b"c", 1),
    ]


async def test_entries_held_for_permits_are_dropped_by_a_redelivery() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.append_now([payload(b"a", batch=5), payload(b"b", batch=5)])
    consumer = await scene.consumer(cnx)
    consumer.flow(3)
    await settle()
    assert bodies(cnx) == [b"a"]
    redeliver(consumer)
    consumer.flow(10)
    await settle()
    assert bodies(cnx) == [b"a", b"a", b"b"]


# --- Exclusive


async def test_an_exclusive_subscription_that_is_taken_is_busy_while_its_consumer_lives() -> None:
    scene, cnx, other = Scene(), FakeConnection(), FakeConnection("/other")
    first = await scene.consumer(cnx)
    with pytest.raises(ConsumerBusy, match="Exclusive consumer is already connected"):
        await scene.consumer(other)
    cnx.is_alive = False
    second = await scene.consumer(other)
    assert first.is_closed
    assert subscription_of(second).consumers == [second]


async def test_an_old_consumer_that_leaves_during_the_probe_makes_room() -> None:
    scene, cnx, other = Scene(), FakeConnection(), FakeConnection("/other")
    first = await scene.consumer(cnx)
    cnx.probe = asyncio.Event()
    coming = asyncio.ensure_future(scene.consumer(other))
    await settle()
    first.close()
    cnx.probe.set()
    assert subscription_of(await coming).active_consumer is await coming


async def test_exclusive_consumers_are_not_told_that_they_are_active() -> None:
    scene, cnx = Scene(), FakeConnection()
    await scene.consumer(cnx)
    await settle()
    assert cnx.kinds == []


# --- Failover


def active(consumer: Consumer) -> Consumer | None:
    dispatcher = subscription_of(consumer).dispatcher
    assert isinstance(dispatcher, SingleActiveDispatcher)
    return dispatcher.active


def told(cnx: FakeConnection) -> list[bool]:
    return [each.active_consumer_change.is_active for each in cnx.of_type("ACTIVE_CONSUMER_CHANGE")]


PARTITION = "persistent://public/default/t-partition-0"


@in_virtual_time
async def test_the_first_consumer_is_active_at_once_and_is_told() -> None:
    scene, cnx = Scene(), FakeConnection()
    scene.ledger.append_now(payloads(b"a"))
    consumer = await scene.consumer(cnx, "Failover")
    assert cnx.kinds == [], "the answer to SUBSCRIBE comes first"
    consumer.flow(1)
    await settle()
    assert bodies(cnx) == [b"a"]
    assert told(cnx) == [True]


@in_virtual_time
async def test_a_newcomer_that_is_not_active_is_told_and_gets_nothing() -> None:
    scene, cnx, other = Scene(PARTITION), FakeConnection(), FakeConnection()
    first = await scene.consumer(cnx, "Failover", consumer_name="a")
    await settle()
    second = await scene.consumer(other, "Failover", consumer_name="b")
    second.flow(10)
    scene.ledger.append_now(payloads(b"x"))
    second.flow(10)
    await pass_time(5)
    assert active(second) is first
    assert other.kinds == ["ACTIVE_CONSUMER_CHANGE"]
    assert told(other) == [False]


@in_virtual_time
async def test_a_better_consumer_takes_over_after_the_delay_at_the_first_unacknowledged_message() -> None:
    scene, cnx, other = Scene(PARTITION), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b", b"c", b"d"))
    old = await scene.consumer(cnx, "Failover", consumer_name="b")
    old.flow(2)
    await settle()
    new = await scene.consumer(other, "Failover", consumer_name="a")
    new.flow(10)
    old.flow(10)
    await pass_time(0.9)
    assert bodies(cnx) == [b"a", b"b"], "nobody gets anything meanwhile"
    assert bodies(other) == []
    ack(old, [Position(10, 0)])
    await pass_time(0.2)
    assert bodies(other) == [b"b", b"c", b"d"]
    assert told(cnx) == [True, False]
    assert told(other) == [True]


@in_virtual_time
async def test_the_next_one_takes_over_when_the_active_one_leaves() -> None:
    scene, cnx, other = Scene(PARTITION), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a", b"b"))
    first = await scene.consumer(cnx, "Failover", consumer_name="a")
    await settle()
    second = await scene.consumer(other, "Failover", consumer_name="b")
    first.flow(10)
    second.flow(10)
    await settle()
    ack(first, [Position(10, 0)])
    cnx.close("gone")
    await pass_time(1.1)
    assert bodies(cnx) == [b"a", b"b"]
    assert bodies(other) == [b"b"]
    assert told(other) == [False, True]


@in_virtual_time
async def test_what_was_read_for_the_old_consumer_does_not_reach_the_new_one_before_the_beginning() -> None:
    scene, cnx, other = Scene(PARTITION), FakeConnection(), FakeConnection()
    scene.ledger.cached_from = Position(10, 100)
    scene.ledger.append_now(payloads(b"a", b"b", b"c", b"d"))
    first = await scene.consumer(cnx, "Failover", consumer_name="a")
    first.flow(2)
    await settle()
    second = await scene.consumer(other, "Failover", consumer_name="b")
    second.flow(10)
    scene.ledger.read_gate = asyncio.Event()
    first.flow(10)
    await settle()
    cnx.close("gone")
    scene.ledger.let_reads_go()
    await settle()
    assert bodies(other) == [], "nobody gets anything during the switch"
    await pass_time(1.1)
    assert bodies(other) == [b"a", b"b", b"c", b"d"]


@in_virtual_time
async def test_when_the_last_one_leaves_during_a_switch_the_next_one_starts_afresh() -> None:
    scene, cnx, other = Scene(PARTITION), FakeConnection(), FakeConnection()
    scene.ledger.append_now(payloads(b"a"))
    first = await scene.consumer(cnx, "Failover", consumer_name="b")
    second = await scene.consumer(cnx, "Failover", consumer_name="a")
    first.close()
    second.close()
    dispatcher = subscription_of(first).dispatcher
    assert dispatcher is not None
    assert dispatcher.why_idle() == "no consumer"
    third = await scene.consumer(other, "Failover", consumer_name="c")
    third.flow(1)
    await settle()
    assert bodies(other) == [b"a"]


@in_virtual_time
async def test_old_clients_are_not_told_who_is_active() -> None:
    scene, cnx = Scene(), FakeConnection(protocol_version=11)
    await scene.consumer(cnx, "Failover")
    await settle()
    assert cnx.kinds == []


# --- what consumers see


async def test_a_client_below_protocol_11_gets_no_checksum_and_below_4_no_batch() -> None:
    scene, old, oldest = Scene(), FakeConnection(protocol_version=10), FakeConnection(protocol_version=3)
    sent = payload(b"a")
    scene.ledger.append_now([sent])
    (await scene.consumer(old)).flow(1)
    assert [rest for _, rest in old.frames if rest] == [sent[6:]]
    scene.ledger.append_now([payload(b"b", batch=2)])
    (await scene.consumer(oldest, subscription="other")).flow(10)
    assert not oldest.is_open


async def test_messages_of_a_partition_say_so() -> None:
    scene, cnx = Scene("persistent://public/default/t-partition-7"), FakeConnection()
    scene.ledger.append_now(payloads(b"a"))
    (await scene.consumer(cnx)).flow(1)
    (message,) = cnx.of_type("MESSAGE")
    assert message.message.message_id.partition == 7


async def test_ten_subscriptions_get_the_same_messages() -> None:
    scene = Scene()
    connections = [FakeConnection(f"/{number}") for number in range(10)]
    for number, cnx in enumerate(connections):
        (await scene.consumer(cnx, subscription=f"s{number}")).flow(10)
    publish(await scene.producer(FakeConnection()), [b"a", b"b"])
    await settle()
    assert all(bodies(cnx) == [b"a", b"b"] for cnx in connections)


async def test_why_nothing_comes_can_be_told() -> None:
    scene, cnx = Scene(), FakeConnection()
    consumer = await scene.consumer(cnx)
    dispatcher = subscription_of(consumer).dispatcher
    assert dispatcher is not None
    assert dispatcher.why_idle() == "consumer c has no permits"
    consumer.flow(1)
    assert dispatcher.why_idle() == "everything was sent"
    cnx.is_writable = False
    assert dispatcher.why_idle() == "consumer c does not read its connection"
    consumer.close()
    assert dispatcher.why_idle() == "no consumer"
