"""Messages that stay unacknowledged behind acknowledged ones are delivered again without a request, when the policy
says so."""

from typing import Any, cast

import pytest
from pyroaring import BitMap

from magnetar.server.policies.effective_policies import EffectivePolicies
from magnetar.server.stats.domain_stats import topic_stats
from magnetar.server.topics.subscriptions.outgoing_messages import messages_of
from pulsar_proto.ids import EARLIEST, Position
from pulsar_proto.pb import pulsar_api_pb2 as pb
from tests.server.topics.scene import (
    FakeConnection,
    Scene,
    ack,
    in_virtual_time,
    pass_time,
    payload,
    redeliver,
    seek_command,
    settle,
)

TYPES = pytest.mark.parametrize("kind", ["Exclusive", "Failover", "Shared", "Key_Shared"])
FILLS = {"fill_ack_holes_interval_seconds": 4}


def entries(cnx: FakeConnection) -> list[int]:
    found = [each.position.entry_id for each in cnx.messages]
    cnx.forget()
    return found


async def scene_with_holes(cnx: FakeConnection, kind: str, **settings: Any) -> tuple[Scene, Any]:
    """Delivers ten entries, of which 3, 4 and 6 are acknowledged. What the connection recorded is forgotten."""
    scene = Scene(**settings)
    scene.ledger.append_now([payload(b"%d" % number, ordering_key=b"k%d" % number) for number in range(10)])
    consumer = await scene.consumer(cnx, kind)
    consumer.flow(100)
    await pass_time(1.1)
    assert entries(cnx) == list(range(10))
    ack(consumer, [Position(10, number) for number in (3, 4, 6)])
    return scene, consumer


@TYPES
@in_virtual_time
async def test_what_lies_in_a_hole_for_the_interval_comes_again(kind: str) -> None:
    cnx = FakeConnection()
    scene, consumer = await scene_with_holes(cnx, kind, **FILLS)
    await pass_time(3.8)
    assert entries(cnx) == []
    await pass_time(1.5)
    assert sorted(entries(cnx)) == [0, 1, 2, 5]
    assert consumer.permits == 100 - 10 - 4
    stats = cast(Any, topic_stats(scene.topic))["subscriptions"]["s"]
    assert (stats["entriesInAckHoles"], stats["ackHolesFilledTotal"]) == (4, 4)
    ack(consumer, [Position(10, number) for number in (0, 1, 5)])
    await pass_time(6)
    assert entries(cnx) == [2]
    ack(consumer, [Position(10, 2)])
    await pass_time(20)
    assert entries(cnx) == []
    assert consumer.subscription.cursor.mark_delete == (10, 6)


@TYPES
@in_virtual_time
async def test_it_is_off_unless_the_policy_switches_it_on(kind: str) -> None:
    cnx = FakeConnection()
    scene, _ = await scene_with_holes(cnx, kind)
    await pass_time(1_000)
    assert entries(cnx) == []
    scene.topic.set_policies(EffectivePolicies(fill_ack_holes_interval_seconds=4))
    await pass_time(5.1)
    assert sorted(entries(cnx)) == [0, 1, 2, 5]
    scene.topic.set_policies(EffectivePolicies())
    await pass_time(1_000)
    assert entries(cnx) == []


@TYPES
@in_virtual_time
async def test_without_permits_it_waits_for_them(kind: str) -> None:
    cnx = FakeConnection()
    _, consumer = await scene_with_holes(cnx, kind, **FILLS)
    consumer.permits = 0
    await pass_time(6)
    assert entries(cnx) == []
    ack(consumer, [Position(10, 1)])
    consumer.flow(2)
    await settle()
    assert len(entries(cnx)) == 2
    consumer.flow(2)
    await settle()
    assert len(entries(cnx)) == 1


ONE_CONSUMER = pytest.mark.parametrize("kind", ["Exclusive", "Failover"])


@ONE_CONSUMER
@in_virtual_time
async def test_what_is_to_be_read_again_after_a_rewind_is_not_sent_twice(kind: str) -> None:
    cnx = FakeConnection()
    _, consumer = await scene_with_holes(cnx, kind)
    consumer.permits = 0
    redeliver(consumer)
    consumer.subscription.fill(10, BitMap([0, 1, 2, 5]))
    consumer.flow(100)
    await settle()
    assert entries(cnx) == [0, 1, 2, 5, 7, 8, 9]
    assert consumer.subscription.messages_filled == 0


@ONE_CONSUMER
@in_virtual_time
async def test_what_is_held_after_a_rewind_is_not_sent_twice(kind: str) -> None:
    """The entry was read, so `read_position` is behind it, but the permits suffice for a part of it only."""
    cnx = FakeConnection()
    scene, consumer = await scene_with_holes(cnx, kind)
    dispatcher = consumer.subscription.dispatcher
    consumer.permits = 0
    redeliver(consumer)
    run = scene.ledger.cached(Position(10, 0), 10, 1 << 20)
    assert run is not None
    messages = messages_of(run)
    dispatcher._held, dispatcher._held_at, dispatcher.read_position = messages, 2, Position(10, 10)
    assert dispatcher.fill(10, BitMap([0, 1, 2, 5])) == 2
    assert dispatcher.fill(10, BitMap([0, 1, 2, 5])) == 0, "these wait already"
    assert dispatcher.fill(11, BitMap([0])) == 0
    consumer.flow(100)
    await settle()
    assert entries(cnx) == [0, 1, 2, 5, 7, 8, 9]


@ONE_CONSUMER
@in_virtual_time
async def test_what_came_again_because_the_client_asked_has_not_been_out_for_long(kind: str) -> None:
    cnx = FakeConnection()
    _, consumer = await scene_with_holes(cnx, kind, **FILLS)
    await pass_time(3.5)
    redeliver(consumer)
    await settle()
    assert entries(cnx) == [0, 1, 2, 5, 7, 8, 9]
    await pass_time(3.5)
    assert entries(cnx) == []
    await pass_time(2.5)
    assert entries(cnx) == [0, 1, 2, 5]


@TYPES
@in_virtual_time
async def test_what_is_not_in_memory_is_read(kind: str) -> None:
    cnx = FakeConnection()
    scene, _ = await scene_with_holes(cnx, kind, **FILLS)
    scene.ledger.cached_from = Position(10**9, 0)
    await pass_time(5.1)
    assert sorted(entries(cnx)) == [0, 1, 2, 5]


@in_virtual_time
async def test_what_another_consumer_holds_comes_to_some_consumer_with_a_count() -> None:
    cnx, other = FakeConnection(), FakeConnection()
    scene, consumer = await scene_with_holes(cnx, "Shared", **FILLS)
    (await scene.consumer(other, "Shared")).flow(100)
    consumer.permits = 0
    await pass_time(5.1)
    again = other.messages
    assert [each.position.entry_id for each in again] == [0, 1, 2, 5]
    assert {each.redelivery_count for each in again} == {1}


@in_virtual_time
async def test_after_a_seek_holes_are_new() -> None:
    cnx = FakeConnection()
    scene, consumer = await scene_with_holes(cnx, "Shared", **FILLS)
    await pass_time(3)
    start = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    assert EARLIEST == (-1, -1)
    await consumer.seek(seek_command(consumer, message_id=start))
    consumer = await scene.consumer(cnx, "Shared")
    consumer.flow(100)
    await settle()
    cnx.forget()
    ack(consumer, [Position(10, 9)])
    await pass_time(3)
    assert entries(cnx) == []
    await pass_time(3)
    assert entries(cnx) == list(range(9))
