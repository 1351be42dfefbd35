"""Which consumer is active: Exclusive refuses all others, Failover chooses one of them."""

import asyncio

import pytest

from magnetar.server.topics.subscriptions.consumer import Consumer
from magnetar.server.topics.subscriptions.single_active_dispatcher import SingleActiveDispatcher
from pulsar_proto.errors import ConsumerBusy
from pulsar_proto.ids import Position
from tests.server.topics.scene import (
    FakeConnection,
    Scene,
    ack,
    bodies,
    in_virtual_time,
    pass_time,
    payloads,
    settle,
    subscription_of,
)

PARTITION = "persistent://public/default/t-partition-0"


def active(consumer: Consumer) -> Consumer | None:
    dispatcher = subscription_of(consumer).dispatcher
    assert isinstance(dispatcher, SingleActiveDispatcher)
    return dispatcher.active


def told(cnx: FakeConnection) -> list[bool]:
    return [each.active_consumer_change.is_active for each in cnx.of_type("ACTIVE_CONSUMER_CHANGE")]


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


async def test_consumers_of_a_client_that_has_left_refuse_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client with many consumers is detached in portions, so some are still there when the next client comes."""
    scene, cnx, other = Scene(), FakeConnection(), FakeConnection("/other")
    first = await scene.consumer(cnx, "Shared")
    with pytest.raises(ConsumerBusy, match="different type"):
        await scene.consumer(other, "Failover")
    cnx.probe = asyncio.Event()  # a closed connection is not asked
    cnx.is_open = False
    second = await scene.consumer(other, "Failover")
    assert first.is_closed
    assert subscription_of(second).consumers == [second]


async def test_consumers_of_a_dead_client_refuse_no_other_type() -> None:
    scene, cnx, other = Scene(), FakeConnection(), FakeConnection("/other")
    first = await scene.consumer(cnx, "Shared")
    cnx.is_alive = False
    second = await scene.consumer(other, "Failover")
    assert first.is_closed
    assert subscription_of(second).consumers == [second]


# --- Failover


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
async def test_a_new_consumer_is_told_with_its_first_permits() -> None:
    """The Go client would drop an earlier notice, because it listens only after it has handled the answer to
    SUBSCRIBE."""
    scene, cnx, other = Scene(PARTITION), FakeConnection(), FakeConnection()
    first = await scene.consumer(cnx, "Failover", consumer_name="a")
    second = await scene.consumer(other, "Failover", consumer_name="b")
    await pass_time(0.5)
    assert cnx.kinds == other.kinds == []
    first.flow(1)
    second.flow(1)
    assert (told(cnx), told(other)) == ([True], [False])
    await pass_time(5)
    assert (told(cnx), told(other)) == ([True], [False]), "once"


@in_virtual_time
async def test_a_new_consumer_without_a_queue_is_told_after_a_second() -> None:
    """Such a consumer grants permits only when its application asks for a message."""
    scene, cnx, gone = Scene(PARTITION), FakeConnection(), FakeConnection()
    await scene.consumer(cnx, "Failover", consumer_name="a")
    left = await scene.consumer(gone, "Failover", consumer_name="b")
    await settle()
    left.close()
    await pass_time(1.1)
    assert told(cnx) == [True]
    assert told(gone) == []


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
