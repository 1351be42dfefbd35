"""What the one active consumer of an Exclusive or Failover subscription gets: everything, in order."""

import asyncio

from pulsar_proto.ids import Position
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
    assert dispatcher.why_idle().startswith("cannot read on: ")


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
    # The tries come at 0 s and then after 15, 30, 60 and 60 s.
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
